// SPDX-License-Identifier: Apache-2.0
// error.c: see error.h.
#include "uplink/error.h"

#include <errno.h>

static const struct {
    const char *name, *text;
} errors[] = {
#define UPLINK_ERROR_ROW(symbol, name, text) {name, text},
    UPLINK_ERRORS(UPLINK_ERROR_ROW)
#undef UPLINK_ERROR_ROW
};

const char *uplink_error_name(u32 error) {
    return error < ARRAY_LEN(errors) ? errors[error].name : "unknown";
}

const char *uplink_error_text(u32 error) {
    return error < ARRAY_LEN(errors) ? errors[error].text : "unknown";
}

uplink_error uplink_error_of_connect(int result) {
    switch (-result) {
    case ECONNREFUSED: return UPLINK_ERROR_CONNECT_REFUSED;
    case ETIMEDOUT: return UPLINK_ERROR_CONNECT_TIMEOUT;
    case ENOMEM:
    case ENOBUFS: return UPLINK_ERROR_NO_MEMORY;
    default: return UPLINK_ERROR_CONNECT_FAILED;
    }
}

uplink_error uplink_error_of_io(int result) {
    if (result == 0) return UPLINK_ERROR_CLOSED;
    if (result == -ETIMEDOUT) return UPLINK_ERROR_SILENT; // TCP_USER_TIMEOUT: sent bytes are not acknowledged
    return result == -ENOMEM || result == -ENOBUFS ? UPLINK_ERROR_NO_MEMORY : UPLINK_ERROR_RESET;
}
