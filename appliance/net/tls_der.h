// SPDX-License-Identifier: Apache-2.0
// tls_der.h: what the gateway itself reads in certificates and revocation lists (DER, ITU-T X.690; RFC 5280):
// validity and names of its own certificates, issuer and serial number of a client's, the entries of a
// list. Chains are validated by BearSSL, not here. Pure: no I/O, no allocation; any thread.
#ifndef SLUICE_NET_TLS_DER_H
#define SLUICE_NET_TLS_DER_H

#include "base/base.h"

// A piece of DER not read yet. The one cursor over untrusted bytes here.
typedef struct der {
    const u8 *at;
    u32 left;
} der;

enum {
    DER_INTEGER = 0x02,
    DER_BIT_STRING = 0x03,
    DER_OCTET_STRING = 0x04,
    DER_OID = 0x06,
    DER_UTC_TIME = 0x17,
    DER_GENERALIZED_TIME = 0x18,
    DER_SEQUENCE = 0x30,
    DER_SET = 0x31,
};

// Takes the next element: its tag, what is in it, and (whole may be NULL) the element with its header.
// False: the bytes are no element of a definite length.
bool der_next(der *in, u8 *tag, der *content, der *whole);
// The same; false also when the tag is another.
bool der_take(der *in, u8 tag, der *content);
// Seconds since 1970 of a UTCTime or GeneralizedTime in the form RFC 5280 section 4.1.2.5 asks for.
bool der_time(u8 tag, der content, i64 *unix_s);

typedef struct cert_info {
    der serial;        // content of the INTEGER
    der issuer;        // the Name, with its header
    der subject;
    i64 not_before_s, not_after_s; // seconds since 1970
    der alt_names;     // content of the SubjectAltName's GeneralNames, or empty
    der common_name;   // last CN of the subject, or empty
    der purposes;      // content of the ExtKeyUsageSyntax
    bool has_purposes; // it has that extension
} cert_info;

// Reads a certificate. Returns 0 or -EINVAL with the offset of what was not understood in *offset.
int cert_read(const u8 *cert, u32 len, cert_info *out, u32 *offset);
// Whether its extended key usage (RFC 5280 section 4.2.1.12) allows it: it has none, or that purpose, or any.
typedef enum cert_purpose { CERT_OF_SERVER = 1, CERT_OF_CLIENT = 2 } cert_purpose; // last arc of id-kp-...
bool cert_is_for_purpose(const cert_info *info, cert_purpose purpose);
// The next dNSName of alt_names; false at the end.
bool cert_next_dns(der *alt_names, der *name);
// Whether the certificate is for this host name (RFC 6125: exact, or * as the whole first label). Names in
// the alternative names; the common name counts only when there is no alternative dNSName.
bool cert_is_for(const cert_info *info, const char *host, u32 len);

typedef struct crl_info {
    der tbs;           // what is signed, with its header
    der issuer;        // the Name, with its header
    der revoked;       // content of revokedCertificates, or empty
    u8 signature_hash; // BearSSL's number: br_sha256_ID and so on
    bool is_ecdsa;     // else RSA PKCS #1 v1.5
    der signature;
    i64 this_update_s, next_update_s; // next: 0 = not given
} crl_info;

// Reads a certificate revocation list. As cert_read.
int crl_read(const u8 *crl, u32 len, crl_info *out, u32 *offset);
// The next serial number (content of the INTEGER); false at the end or where the list is damaged.
bool crl_next(der *revoked, der *serial);

#endif
