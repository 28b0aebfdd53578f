// SPDX-License-Identifier: Apache-2.0
// tls.c: /api/tls: what each listener with TLS shows and asks for. Names out of certificates are shown with what is not
// printable replaced.
#include <string.h>

#include "net/listener.h"
#include "net/tls_context.h"
#include "ops/json.h"
#include "ops/routes.h"

#define NAME_BYTES 256u

static const char *name_print(der name, char out[NAME_BYTES]) {
    u32 len = MIN(name.left, NAME_BYTES - 1);
    for (u32 i = 0; i < len; i++) out[i] = name.at[i] >= ' ' && name.at[i] < 0x7f ? (char)name.at[i] : '?';
    out[len] = '\0';
    return out;
}

static void put_time(json *j, yyjson_mut_val *obj, const char *key, i64 unix_s) {
    char time[TEXT_TIME_BYTES];
    json_str(j, obj, key, text_time((u64)MAX(unix_s, (i64)0) * NS_PER_S, time));
}

static void put_certificate(json *j, yyjson_mut_val *obj, const tls_certificate *cert, i64 now_s) {
    char name[NAME_BYTES], key[TLS_KEY_TEXT];
    const cert_info *info = &cert->info;
    der names = info->alt_names, dns;
    json_str(j, obj, "file", cert->file);
    json_str(j, obj, "common_name", name_print(info->common_name, name));
    yyjson_mut_val *list = json_arr(j, obj, "names");
    while (cert_next_dns(&names, &dns)) json_arr_str(j, list, name_print(dns, name));
    json_str(j, obj, "key", tls_certificate_key_text(cert, key));
    json_u64(j, obj, "chain", cert->chain_len);
    put_time(j, obj, "not_before", info->not_before_s);
    put_time(j, obj, "not_after", info->not_after_s);
    json_int(j, obj, "seconds_left", info->not_after_s - now_s);
    json_str(j, obj, "state", now_s >= info->not_after_s               ? "ended"
                              : now_s < info->not_before_s             ? "not_yet_valid"
                              : info->not_after_s - now_s < (i64)LIMIT_TLS_EXPIRY_WARN_S ? "ends_soon"
                                                                                         : "valid");
}

static void put_listener(json *j, yyjson_mut_val *obj, const tls_context *context) {
    static const char *const auth[] = {
        [TLS_CLIENT_NONE] = "none", [TLS_CLIENT_REQUIRED] = "required", [TLS_CLIENT_OPTIONAL] = "optional"};
    i64 now_s = (i64)(clock_real_ns() / NS_PER_S);
    json_str(j, obj, "listener", context->name);
    json_str(j, obj, "client_certificates", auth[context->client_auth]);
    json_u64(j, obj, "client_authorities", context->anchor_count);
    json_u64(j, obj, "denied", context->denied_count);
    json_bool(j, obj, "resumption", context->sessions);
    yyjson_mut_val *certificates = json_arr(j, obj, "certificates");
    for (u32 i = 0; i < context->cert_count; i++) {
        put_certificate(j, json_arr_obj(j, certificates), &context->certs[i], now_s);
    }
}

void tls_handle(http_exchange *x, const char *rest) {
    (void)rest;
    const gateway *gw = x->worker->gw;
    json j;
    json_begin(&j);
    yyjson_mut_val *list = json_arr(&j, j.root, "listeners");
    u32 count = __atomic_load_n(&gw->listener_count, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i < count; i++) {
        listener_shared *l = __atomic_load_n(&gw->listeners[i], __ATOMIC_ACQUIRE);
        tls_context *context = tls_context_at(&l->tls);
        if (context != NULL) put_listener(&j, json_arr_obj(&j, list), context);
        tls_context_drop(context);
    }
    json_answer(&j, x, 200);
}
