// SPDX-License-Identifier: Apache-2.0
// update_header.h: the first 512 bytes of an update file, which say what follows and prove who made it. The
// system's image follows the header; nothing else does. docs/updates.md has the table of the fields.
//
// Nothing in a header is believed before its signature: ECDSA over P-256 (FIPS 186-5), SHA-256 over
// the bytes before it, by one of the keys built into the running system. Pure: bytes in, verdict out.
#ifndef SLUICE_INIT_UPDATE_HEADER_H
#define SLUICE_INIT_UPDATE_HEADER_H

#include "base/base.h"
#include "limits.h"

#define UPDATE_HEADER_BYTES 512u
#define UPDATE_HASH_BYTES 32u
#define UPDATE_KEY_BYTES 65u // an uncompressed point (SEC 1, section 2.3.3)
#define UPDATE_VERSION_BYTES 64u

typedef enum update_arch { UPDATE_ARCH_X86_64 = 1, UPDATE_ARCH_AARCH64 = 2 } update_arch;

typedef struct update_header {
    u16 arch;                              // update_arch
    u64 version;                           // major << 48 | minor << 32 | patch << 16
    u64 build_s;                           // when the system was made, seconds since 1970
    u64 image_bytes;                       // 1..LIMIT_UPDATE_IMAGE_BYTES
    u8 image_sha256[UPDATE_HASH_BYTES];
    char version_text[UPDATE_VERSION_BYTES]; // for people; printable, NUL-terminated
} update_header;

typedef struct update_keys {
    u32 count;
    u8 points[LIMIT_UPDATE_KEYS][UPDATE_KEY_BYTES];
} update_keys;

typedef enum update_verdict {
    UPDATE_FINE,
    UPDATE_NOT_ONE,        // no update file
    UPDATE_OTHER_FORMAT,   // of a format that this system does not know
    UPDATE_NO_KEY,         // this system has no key, so it takes no update
    UPDATE_UNKNOWN_KEY,    // signed with a key that this system does not have
    UPDATE_BAD_SIGNATURE,
    UPDATE_MALFORMED,      // signed, and yet not sensible
    UPDATE_OTHER_ARCH,
    UPDATE_OLDER,          // than the running system
    UPDATE_VERDICTS
} update_verdict;

// Checks bytes (UPDATE_HEADER_BYTES of them) against the keys and takes them apart. *out is valid with
// UPDATE_FINE only.
update_verdict update_header_read(const u8 *bytes, const update_keys *keys, update_header *out);
// Whether a system may be replaced by what the header describes.
update_verdict update_header_fits(const update_header *h, u16 arch, u64 version, u64 build_s,
                                  bool allow_downgrade);
// One sentence, without a full stop.
const char *update_verdict_text(update_verdict v);

// Lines of 130 hexadecimal digits, one a key; '#' begins a comment. Returns 0, or -EINVAL for anything
// else, also for too many. An empty text is no key.
int update_keys_read(const char *text, size_t len, update_keys *out);
// "1.2.3" or "1.2.3-anything" as in update_header.version. 0 when it is no version.
u64 update_version_number(const char *text);
// The running system's, as compiled.
u16 update_own_arch(void);
u64 update_own_version(void);
u64 update_own_build_s(void);

#endif
