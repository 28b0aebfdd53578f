// SPDX-License-Identifier: Apache-2.0
// tls_files.h: an authority, a server, a device and a revocation list in PEM, for tests only: the keys are public.
#ifndef SLUICE_TESTS_TLS_FILES_H
#define SLUICE_TESTS_TLS_FILES_H

#include "base/base.h"

UNUSED static const char tls_ca_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBVTCB/aADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB3Rlc3QtY2Ew\n"
    "IBcNMjAwMTAxMDAwMDAwWhgPMjExOTAxMDEwMDAwMDBaMBIxEDAOBgNVBAMMB3Rl\n"
    "c3QtY2EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR8c/b36F3OvydXyCI7Dft0\n"
    "uQvHrwI3l8JR+f3EuH9WA4+frjW5Qn3qHmdvpSue6LYcWosKsBA/DbYdyz40kUAC\n"
    "o0IwQDAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAdBgNVHQ4EFgQU\n"
    "dgGVv165y7gGKbdK5z5j3d1nyDgwCgYIKoZIzj0EAwIDRwAwRAIgVsawBd+XhMpE\n"
    "RoReH2QCMHoYzm0JBE7nWbwIm3t8mYkCIHQkL+ycSrJE5vWeosrnt/m393xwEzfU\n"
    "036SQRqYJQ7A\n"
    "-----END CERTIFICATE-----\n";

UNUSED static const char tls_server_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBijCCATGgAwIBAgICEjQwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHdGVzdC1j\n"
    "YTAgFw0yMDAxMDEwMDAwMDBaGA8yMTE5MDEwMTAwMDAwMFowFTETMBEGA1UEAwwK\n"
    "Z3cuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHQwzRZS/ziL6rlE\n"
    "O4Nw3rZVPo9UQM2gqbDfVcNSAHADl+n2wAfWZJKmYrlNLpkdlvZzr6o5CODQMMRI\n"
    "bwt+GKWjcjBwMAkGA1UdEwQCMAAwIwYDVR0RBBwwGoIKZ3cuZXhhbXBsZYIMKi5n\n"
    "dy5leGFtcGxlMB0GA1UdDgQWBBTZSgsLv5qUWp8clTPKra/3pF+wLjAfBgNVHSME\n"
    "GDAWgBR2AZW/XrnLuAYpt0rnPmPd3WfIODAKBggqhkjOPQQDAgNHADBEAiBPtgS0\n"
    "lcBkohOPGfAlOMhcaxX+LfmkBgJD93MRNKWpqAIgCiD8WluvFn4AFtzKvSgiYimP\n"
    "We+mV7n9VxbOEkHMwyY=\n"
    "-----END CERTIFICATE-----\n";

UNUSED static const char tls_server_key_pem[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEIItJE5fJ6xDM8oVluNlBo5FjaWuuqDvIwISekFJdqRh/oAoGCCqGSM49\n"
    "AwEHoUQDQgAEdDDNFlL/OIvquUQ7g3DetlU+j1RAzaCpsN9Vw1IAcAOX6fbAB9Zk\n"
    "kqZiuU0umR2W9nOvqjkI4NAwxEhvC34YpQ==\n"
    "-----END EC PRIVATE KEY-----\n";

UNUSED static const char tls_device_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBZTCCAQqgAwIBAgICVngwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHdGVzdC1j\n"
    "YTAgFw0yMDAxMDEwMDAwMDBaGA8yMTE5MDEwMTAwMDAwMFowEzERMA8GA1UEAwwI\n"
    "ZGV2aWNlLTcwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQO9Q7qDQFcl7EN4WPU\n"
    "UWhzBQuN+HgQ4MXGD9/dSkOZuWUPWvDzFAvUnrhN7ImB2yzuQawWCaYvPqCHWKeW\n"
    "WFz5o00wSzAJBgNVHRMEAjAAMB0GA1UdDgQWBBSJJD4aeyrc9Gc8rH0NEifcgxkr\n"
    "HjAfBgNVHSMEGDAWgBR2AZW/XrnLuAYpt0rnPmPd3WfIODAKBggqhkjOPQQDAgNJ\n"
    "ADBGAiEA2rYa34yDzWp4u15W/XISL0dxts8lbrhQ5IuHoIUAM+cCIQDBh+hZt5Wm\n"
    "wb7DX388VMK39XRS6kUO0SBDNKotV/3viQ==\n"
    "-----END CERTIFICATE-----\n";

UNUSED static const char tls_device_key_pem[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEINEv2XTY/7jVOHavUU/WnCTIO8hzRNPO9H3rXxyfLJeqoAoGCCqGSM49\n"
    "AwEHoUQDQgAEDvUO6g0BXJexDeFj1FFocwULjfh4EODFxg/f3UpDmbllD1rw8xQL\n"
    "1J64TeyJgdss7kGsFgmmLz6gh1inllhc+Q==\n"
    "-----END EC PRIVATE KEY-----\n";

UNUSED static const char tls_crl_pem[] =
    "-----BEGIN X509 CRL-----\n"
    "MIGuMFcwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHdGVzdC1jYRcNMjYxMTMwMTc0\n"
    "NjQxWhgPMjEyNjExMDYxNzQ2NDFaMBUwEwICVngXDTIwMDEwMTAwMDAwMFowCgYI\n"
    "KoZIzj0EAwIDRwAwRAIgQ3OseyVblPA4m0NfLU9I0IEy5UNg31+ayALb4oY5oWIC\n"
    "IFcFXsZHgpuxwmAwyh7ysgw+4s5MmxRmZb9B4AZOKvjQ\n"
    "-----END X509 CRL-----\n";

#endif
