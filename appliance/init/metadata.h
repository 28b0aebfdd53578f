// SPDX-License-Identifier: Apache-2.0
// metadata.h: configuration from a cloud's metadata service. Which cloud it is stands in the firmware's
// DMI strings: a machine that is in none of them never asks an address that nobody answers. The exchange
// is a pure state machine (metadata_step.c): what to ask next, given what came; metadata_fetch.c moves
// the bytes on init's loop.
//   EC2        PUT /latest/api/token, then GET /latest/user-data with it (IMDSv2 only)
//   GCP        GET .../instance/attributes/sluice-conf, then .../user-data, with Metadata-Flavor
//   OpenStack  GET /openstack/latest/user_data
//   Azure      not read: its instances get their configuration from a file on the ESP or a cidata disk
#ifndef SLUICE_INIT_METADATA_H
#define SLUICE_INIT_METADATA_H

#include "base/base.h"

typedef enum cloud_kind { CLOUD_NONE, CLOUD_EC2, CLOUD_GCP, CLOUD_OPENSTACK, CLOUD_AZURE } cloud_kind;

#define DMI_TEXT_BYTES 96u
typedef struct cloud_dmi {
    char sys_vendor[DMI_TEXT_BYTES], product_name[DMI_TEXT_BYTES], product_uuid[DMI_TEXT_BYTES];
    char bios_vendor[DMI_TEXT_BYTES], bios_version[DMI_TEXT_BYTES], chassis_asset_tag[DMI_TEXT_BYTES];
} cloud_dmi;

cloud_kind cloud_detect(const cloud_dmi *dmi); // pure
void cloud_read_dmi(cloud_dmi *out);           // from sysfs; empty where there is none
const char *cloud_name(cloud_kind kind);       // "ec2"

// --- what to ask (pure) ---

#define METADATA_BODY_BYTES_MAX (256u << 10) // GCP's largest attribute; EC2's is 16 KiB
#define METADATA_REQUEST_BYTES 1024u
#define METADATA_TOKEN_BYTES 512u
#define METADATA_FAST_TRIES 10u   // a second apart: the service may come up later than the network
#define METADATA_FAST_MS 1000u
#define METADATA_SLOW_TRIES 30u   // then a minute apart
#define METADATA_SLOW_MS 60000u
#define METADATA_ANSWER_MS 2000u  // one request, from connecting to its last byte

typedef enum metadata_verdict {
    METADATA_ASK,   // send request
    METADATA_WAIT,  // again after wait_ms
    METADATA_DONE,  // body is the user data
    METADATA_EMPTY, // there is none
    METADATA_FAILED // problem says why; it is not asked again
} metadata_verdict;

typedef struct metadata_step {
    cloud_kind kind;
    u32 stage;        // which of the cloud's requests
    u32 tries, token_tries;
    u32 wait_ms;
    char token[METADATA_TOKEN_BYTES];
    char request[METADATA_REQUEST_BYTES];
    char problem[160];
} metadata_step;

// What came: status 0 = nothing (why says what happened: a timeout, a refused connection, not HTTP).
typedef struct metadata_answer {
    int status;
    const char *body;
    size_t body_len;
    bool flavor_google; // the header that only the real service sends
    const char *why;
} metadata_answer;

metadata_verdict metadata_step_begin(metadata_step *s, cloud_kind kind);
metadata_verdict metadata_step_answer(metadata_step *s, const metadata_answer *a);
// After the wait.
metadata_verdict metadata_step_again(metadata_step *s);

// --- on init's loop ---

// done is called once. text is NULL when there is nothing (problem "" ) or it could not be had.
typedef void (*metadata_done)(const char *text, size_t len, const char *problem);
// Called after each failed attempt that will be repeated, for the log and `ctl config`.
typedef void (*metadata_retry)(const char *problem);
void metadata_start(cloud_kind kind, metadata_done done, metadata_retry retry);
void metadata_stop(void);
// Where the service is; another address only for tests.
void metadata_set_address(const u8 address[4], u16 port);

#endif
