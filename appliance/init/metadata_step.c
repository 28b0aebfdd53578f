// SPDX-License-Identifier: Apache-2.0
// metadata_step.c: which cloud, what is asked of it, and what its answers mean. An answer that says "no
// such thing" (404) is one; a refused token (401) gets a new token, twice; everything else is tried again,
// quickly at first, then once a minute for half an hour. No request is ever repeated without a pause.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "init/metadata.h"

#define TOKEN_SECONDS "300"
#define TOKEN_TRIES 3u

const char *cloud_name(cloud_kind kind) {
    static const char *const names[] = {"none", "ec2", "gcp", "openstack", "azure"};
    return names[kind];
}

cloud_kind cloud_detect(const cloud_dmi *d) {
    if (strcmp(d->sys_vendor, "Amazon EC2") == 0) return CLOUD_EC2; // Nitro
    if (strcasestr(d->bios_version, "amazon") != NULL && strncasecmp(d->product_uuid, "ec2", 3) == 0)
        return CLOUD_EC2; // Xen
    if (strcmp(d->product_name, "Google Compute Engine") == 0) return CLOUD_GCP;
    if (strncmp(d->product_name, "OpenStack ", 10) == 0 || strcmp(d->sys_vendor, "OpenStack Foundation") == 0)
        return CLOUD_OPENSTACK;
    if (strcmp(d->chassis_asset_tag, "7783-7084-3265-9085-8269-3286-77") == 0) return CLOUD_AZURE;
    return CLOUD_NONE;
}

typedef struct stage {
    const char *method, *path, *host, *header;
    bool is_token, with_token, needs_flavor;
} stage;

static const stage ec2[] = {
    {"PUT", "/latest/api/token", "169.254.169.254",
     "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_SECONDS "\r\nContent-Length: 0\r\n", true, false, false},
    {"GET", "/latest/user-data", "169.254.169.254", "", false, true, false},
};
static const stage gcp[] = {
    {"GET", "/computeMetadata/v1/instance/attributes/sluice-conf", "metadata.google.internal",
     "Metadata-Flavor: Google\r\n", false, false, true},
    {"GET", "/computeMetadata/v1/instance/attributes/user-data", "metadata.google.internal",
     "Metadata-Flavor: Google\r\n", false, false, true},
};
static const stage openstack[] = {
    {"GET", "/openstack/latest/user_data", "169.254.169.254", "", false, false, false},
};

static const stage *stage_of(const metadata_step *s, u32 *count) {
    switch (s->kind) {
    case CLOUD_EC2: *count = ARRAY_LEN(ec2); return ec2;
    case CLOUD_GCP: *count = ARRAY_LEN(gcp); return gcp;
    case CLOUD_OPENSTACK: *count = ARRAY_LEN(openstack); return openstack;
    default: *count = 0; return NULL;
    }
}

static metadata_verdict ask(metadata_step *s) {
    u32 count;
    const stage *list = stage_of(s, &count), *g = &list[s->stage];
    ASSERT(s->stage < count);
    int n = snprintf(s->request, sizeof(s->request),
                     "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice\r\nAccept: */*\r\n%s%s%s%s"
                     "Connection: close\r\n\r\n",
                     g->method, g->path, g->host, g->header,
                     g->with_token ? "X-aws-ec2-metadata-token: " : "", g->with_token ? s->token : "",
                     g->with_token ? "\r\n" : "");
    ASSERT(n > 0 && (size_t)n < sizeof(s->request));
    return METADATA_ASK;
}

metadata_verdict metadata_step_begin(metadata_step *s, cloud_kind kind) {
    *s = (metadata_step){.kind = kind};
    u32 count;
    if (stage_of(s, &count) != NULL) return ask(s);
    snprintf(s->problem, sizeof(s->problem), "%s has no metadata that is read here", cloud_name(kind));
    return METADATA_FAILED;
}

static metadata_verdict later(metadata_step *s, const char *what) {
    snprintf(s->problem, sizeof(s->problem), "%s", what);
    s->tries++;
    if (s->tries >= METADATA_FAST_TRIES + METADATA_SLOW_TRIES) return METADATA_FAILED;
    s->wait_ms = s->tries < METADATA_FAST_TRIES ? METADATA_FAST_MS : METADATA_SLOW_MS;
    return METADATA_WAIT;
}

metadata_verdict metadata_step_again(metadata_step *s) {
    return ask(s);
}

// A token goes into a request's header: only what may stand there.
static bool take_token(metadata_step *s, const metadata_answer *a) {
    if (a->body_len == 0 || a->body_len >= sizeof(s->token)) return false;
    for (size_t i = 0; i < a->body_len; i++) {
        if (a->body[i] <= 0x20 || a->body[i] >= 0x7f) return false;
    }
    memcpy(s->token, a->body, a->body_len);
    s->token[a->body_len] = '\0';
    return true;
}

static metadata_verdict token_refused(metadata_step *s) {
    if (++s->token_tries >= TOKEN_TRIES) {
        snprintf(s->problem, sizeof(s->problem),
                 "the service refuses its own tokens (401, %u times); is the instance's metadata limited to "
                 "another hop count?", s->token_tries);
        return METADATA_FAILED;
    }
    s->stage = 0;
    return later(s, "the service refused the token (401)");
}

static metadata_verdict not_there(metadata_step *s, const stage *g) {
    u32 count;
    stage_of(s, &count);
    if (g->is_token) return later(s, "the service gives no tokens (404)");
    if (++s->stage < count) return ask(s);
    return METADATA_EMPTY;
}

metadata_verdict metadata_step_answer(metadata_step *s, const metadata_answer *a) {
    u32 count;
    const stage *g = &stage_of(s, &count)[s->stage];
    char what[96];
    if (a->status == 0) return later(s, a->why != NULL ? a->why : "no answer");
    if (g->needs_flavor && !a->flavor_google) {
        return later(s, "what answered is not Google's metadata server (no Metadata-Flavor)");
    }
    if (a->status == 404) return not_there(s, g);
    if (a->status == 401) return g->is_token ? later(s, "no token is given (401)") : token_refused(s);
    if (a->status == 403 && g->is_token) {
        snprintf(s->problem, sizeof(s->problem), "the instance's metadata service is turned off (403)");
        return METADATA_FAILED;
    }
    if (a->status != 200) {
        snprintf(what, sizeof(what), "the service answered with status %d", a->status);
        return later(s, what);
    }
    if (!g->is_token) return a->body_len > 0 ? METADATA_DONE : METADATA_EMPTY;
    if (!take_token(s, a)) return later(s, "the service's token can not be used");
    s->stage++;
    return ask(s);
}
