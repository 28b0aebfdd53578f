// SPDX-License-Identifier: Apache-2.0
// config_volume.h: configuration on disks: sluice.conf on the ESP, and a NoCloud volume (label `cidata`,
// vfat or iso9660, with meta-data and user-data). Mounted read-only for as long as the files are read, in
// a process of its own, so that a damaged or dying medium can hold that up and nothing else.
#ifndef SLUICE_INIT_CONFIG_VOLUME_H
#define SLUICE_INIT_CONFIG_VOLUME_H

#include "base/base.h"

#define VOLUME_HEAD_BYTES 36864u // the part of a device in which all labels lie: 32 KiB and an ISO sector
#define VOLUME_LABEL_BYTES 33u
#define VOLUME_FILE_BYTES_MAX (256u << 10)

typedef enum volume_kind { VOLUME_NONE, VOLUME_FAT, VOLUME_ISO9660 } volume_kind;

// Pure. What a device begins with; label is "" when it has none. Blanks behind it are cut.
volume_kind volume_recognise(const u8 *head, size_t len, char label[VOLUME_LABEL_BYTES]);
bool volume_is_cidata(const char *label);

typedef struct volume_file {
    bool present;
    char *text; // malloc'd, the caller's; NULL when not present
    size_t len;
    char device[32];
    char problem[160]; // "" = none; may be set beside present = false
    bool unreadable;   // the medium is there, or should be, and can not be read
} volume_file;

// Reads both. wait_esp: the ESP must be there (the boot loader said so) and is waited for. At most
// wait_ms in all. The caller frees text.
void volume_read(bool wait_esp, u32 wait_ms, volume_file *esp, volume_file *cidata);

#endif
