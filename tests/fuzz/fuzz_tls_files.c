// SPDX-License-Identifier: Apache-2.0
// fuzz_tls_files.c: any bytes as a PEM file, a certificate, the start of one, or a revocation list.
#include <stdlib.h>
#include <string.h>

#include "net/tls_der.h"
#include "net/tls_pem.h"

#define CHECK(ok) \
    do { \
        if (!(ok)) abort(); \
    } while (0)

static void read_der(const u8 *data, u32 len) {
    cert_info cert;
    crl_info crl;
    der serial, name;
    u32 offset = 0;
    if (cert_read(data, len, &cert, &offset) == 0) {
        CHECK(cert.issuer.at >= data && cert.issuer.at + cert.issuer.left <= data + len);
        der names = cert.alt_names;
        while (cert_next_dns(&names, &name)) CHECK(name.at + name.left <= data + len);
        cert_is_for(&cert, "a.example.com", 13);
        cert_is_for_purpose(&cert, CERT_OF_CLIENT);
    } else {
        CHECK(offset <= len);
    }
    if (crl_read(data, len, &crl, &offset) == 0) {
        while (crl_next(&crl.revoked, &serial)) CHECK(serial.at + serial.left <= data + len);
        CHECK(crl.signature.left > 0);
    } else {
        CHECK(offset <= len);
    }
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
    pem_file file;
    u32 line;
    if (size > 100000) return 0;
    read_der(data, (u32)size);
    if (pem_parse((const char *)data, (u32)size, &file, &line) == 0) {
        for (u32 i = 0; i < file.count; i++) {
            if (file.objects[i].len > 0) read_der(file.objects[i].data, file.objects[i].len);
        }
    }
    pem_free(&file);
    return 0;
}
