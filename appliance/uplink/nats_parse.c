// SPDX-License-Identifier: Apache-2.0
// nats_parse.c: see nats_parse.h. A line is looked for first; nothing is kept between calls, so the caller's
// buffer is the only state. Reads never leave [data, data + len).
#include "uplink/nats_parse.h"

#include <string.h>

static const struct {
    const char *name;
    nats_verb verb;
    bool text; // the rest of the line is one text
} verbs[] = {
    {"INFO", NATS_INFO, true}, {"MSG", NATS_MSG, false}, {"HMSG", NATS_HMSG, false}, {"PING", NATS_PING, false},
    {"PONG", NATS_PONG, false}, {"+OK", NATS_OK, false}, {"-ERR", NATS_ERR, true},
};

#define FIELDS_MAX 5u

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_word(const char *text, u32 len, const char *word) {
    if (len != strlen(word)) return false;
    for (u32 i = 0; i < len; i++) {
        if (upper(text[i]) != word[i]) return false;
    }
    return true;
}

static bool number(nats_text text, u64 max, u64 *out) {
    u64 value = 0;
    if (text.len == 0 || text.len > 19) return false;
    for (u32 i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = value * 10 + (u64)(text.data[i] - '0');
    }
    *out = value;
    return value <= max;
}

// The fields of the line behind the verb; more than FIELDS_MAX count as FIELDS_MAX + 1.
static u32 fields_split(const char *text, u32 len, nats_text fields[FIELDS_MAX]) {
    u32 count = 0;
    for (u32 at = 0; at < len;) {
        while (at < len && is_blank(text[at])) at++;
        u32 start = at;
        while (at < len && !is_blank(text[at])) at++;
        if (at == start) break;
        if (count == FIELDS_MAX) return FIELDS_MAX + 1;
        fields[count++] = (nats_text){text + start, at - start};
    }
    return count;
}

static void trim(nats_text *t) {
    while (t->len > 0 && is_blank(t->data[0])) {
        t->data++;
        t->len--;
    }
    while (t->len > 0 && is_blank(t->data[t->len - 1])) t->len--;
}

// MSG SUBJECT SID [REPLY] BYTES; HMSG SUBJECT SID [REPLY] HEADER-BYTES BYTES. rest: the bytes behind the line.
static int message(nats_op *out, nats_text line, const u8 *rest, u32 line_bytes, u32 len, u32 max, u32 *need) {
    nats_text f[FIELDS_MAX];
    u32 count = fields_split(line.data, line.len, f);
    u32 sizes = out->verb == NATS_HMSG ? 2 : 1, head = count - sizes; // in front of the sizes
    u64 total, headers = 0;
    if (count < 2 + sizes || count > 3 + sizes) return -NATS_FAULT_FIELDS;
    if (f[0].len > NATS_SUBJECT_BYTES_MAX || !number(f[1], UINT64_MAX, &out->sid)) return -NATS_FAULT_FIELDS;
    if (!number(f[count - 1], UINT32_MAX, &total)) return -NATS_FAULT_FIELDS;
    if (sizes == 2 && (!number(f[count - 2], total, &headers) || headers == 0)) return -NATS_FAULT_FIELDS;
    if (total > max) return -NATS_FAULT_TOO_LARGE;
    u64 whole = (u64)line_bytes + total + 2;
    if (whole > INT32_MAX) return -NATS_FAULT_TOO_LARGE;
    if (len < whole) {
        *need = (u32)whole;
        return 0;
    }
    if (rest[total] != '\r' || rest[total + 1] != '\n') return -NATS_FAULT_END;
    out->subject = f[0];
    if (head == 3) out->reply = f[2];
    if (sizes == 2) out->headers = (nats_text){(const char *)rest, (u32)headers};
    out->payload = rest + headers;
    out->payload_len = (u32)(total - headers);
    return (int)whole;
}

int nats_parse(const u8 *data, u32 len, u32 payload_bytes_max, nats_op *out, u32 *need) {
    memset(out, 0, sizeof(*out));
    const u8 *feed = len == 0 ? NULL : memchr(data, '\n', MIN(len, NATS_LINE_BYTES_MAX));
    if (feed == NULL) {
        *need = len + 1;
        return len >= NATS_LINE_BYTES_MAX ? -NATS_FAULT_LINE : 0;
    }
    u32 line_bytes = (u32)(feed - data) + 1;
    if (line_bytes < 2 || feed[-1] != '\r') return -NATS_FAULT_LINE;
    const char *line = (const char *)data;
    u32 line_len = line_bytes - 2, verb_len = 0, i = 0;
    while (verb_len < line_len && !is_blank(line[verb_len])) verb_len++;
    while (i < ARRAY_LEN(verbs) && !same_word(line, verb_len, verbs[i].name)) i++;
    if (i == ARRAY_LEN(verbs)) return -NATS_FAULT_VERB;
    out->verb = verbs[i].verb;
    nats_text left = {line + verb_len, line_len - verb_len};
    if (out->verb == NATS_MSG || out->verb == NATS_HMSG) {
        return message(out, left, data + line_bytes, line_bytes, len, payload_bytes_max, need);
    }
    trim(&left);
    if (!verbs[i].text) return left.len == 0 ? (int)line_bytes : -NATS_FAULT_FIELDS;
    bool quoted = left.len >= 2 && left.data[0] == '\'' && left.data[left.len - 1] == '\'';
    out->text = quoted ? (nats_text){left.data + 1, left.len - 2} : left;
    return (int)line_bytes;
}

const char *nats_fault_text(int fault) {
    static const char *const texts[] = {
        [NATS_FAULT_NONE] = "no fault",
        [NATS_FAULT_VERB] = "an unknown operation",
        [NATS_FAULT_LINE] = "a line too long or without its end",
        [NATS_FAULT_FIELDS] = "a message line with wrong fields",
        [NATS_FAULT_TOO_LARGE] = "a message larger than allowed",
        [NATS_FAULT_END] = "a message without its end",
    };
    u32 index = (u32)-fault;
    return index < ARRAY_LEN(texts) ? texts[index] : "unknown";
}

// --- what is not permitted ---

static bool begins_with(nats_text text, const char *with) {
    size_t len = strlen(with);
    return text.len >= len && same_word(text.data, (u32)len, with);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = upper(c);
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The character behind a backslash. Bytes of out (at most 4), or 0: not an escape. *at moves behind it.
static u32 escape_read(nats_text t, u32 *at, char out[4]) {
    static const char simple[][2] = {{'"', '"'}, {'\\', '\\'}, {'a', '\a'}, {'b', '\b'}, {'f', '\f'},
                                     {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'v', '\v'}};
    if (*at >= t.len) return 0;
    char kind = t.data[(*at)++];
    for (u32 i = 0; i < ARRAY_LEN(simple); i++) {
        if (simple[i][0] != kind) continue;
        out[0] = simple[i][1];
        return 1;
    }
    u32 digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0, value = 0;
    if (digits == 0 || t.len - *at < digits) return 0;
    for (u32 i = 0; i < digits; i++) {
        int digit = hex_digit(t.data[(*at)++]);
        if (digit < 0) return 0;
        value = value << 4 | (u32)digit;
    }
    if (kind == 'x' || value < 0x80) {
        out[0] = (char)value;
        return value < 0x100 ? 1 : 0;
    }
    if (value > 0x10ffff) return 0;
    u32 more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3; // RFC 3629
    static const u8 first[] = {0, 0xc0, 0xe0, 0xf0};
    for (u32 i = more; i > 0; i--, value >>= 6) out[i] = (char)(0x80 | (value & 0x3f));
    out[0] = (char)(first[more] | value);
    return more + 1;
}

// From behind the opening quote to the closing one.
static bool quoted_read(nats_text t, char *out, u32 out_bytes, u32 *out_len) {
    u32 used = 0;
    for (u32 at = 0; at < t.len && t.data[at] != '"';) {
        char c[4] = {t.data[at++]};
        u32 len = c[0] == '\\' ? escape_read(t, &at, c) : 1;
        if (len == 0 || len > out_bytes - used) return false;
        memcpy(out + used, c, len);
        used += len;
        if (at == t.len) return false;
    }
    *out_len = used;
    return used > 0;
}

nats_denial nats_denied(nats_text error, char *out, u32 out_bytes, u32 *out_len) {
    static const struct {
        const char *text;
        nats_denial denial;
    } kinds[] = {{"PERMISSIONS VIOLATION FOR PUBLISH TO \"", NATS_DENIED_PUBLISH},
                 {"PERMISSIONS VIOLATION FOR SUBSCRIPTION TO \"", NATS_DENIED_SUBSCRIBE}};
    for (u32 i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!begins_with(error, kinds[i].text)) continue;
        u32 head = (u32)strlen(kinds[i].text);
        nats_text left = {error.data + head, error.len - head};
        return quoted_read(left, out, out_bytes, out_len) ? kinds[i].denial : NATS_DENIED_NOTHING;
    }
    return NATS_DENIED_NOTHING;
}

// --- headers ---

// The line at *at without its CR LF; false at the end.
static bool line_next(nats_text headers, u32 *at, nats_text *line) {
    if (*at >= headers.len) return false;
    const char *start = headers.data + *at, *end = memchr(start, '\n', headers.len - *at);
    u32 len = end == NULL ? headers.len - *at : (u32)(end - start);
    *at += end == NULL ? len : len + 1;
    if (len > 0 && start[len - 1] == '\r') len--;
    *line = (nats_text){start, len};
    return true;
}

u32 nats_header_status(nats_text headers) {
    nats_text line, fields[FIELDS_MAX];
    u32 at = 0;
    u64 status;
    if (!line_next(headers, &at, &line)) return 0;
    u32 count = fields_split(line.data, line.len, fields);
    return count >= 2 && number(fields[1], 999, &status) ? (u32)status : 0;
}

bool nats_header_next(nats_text headers, u32 *at, nats_text *name, nats_text *value) {
    nats_text line;
    if (*at == 0 && !line_next(headers, at, &line)) return false; // the version
    while (line_next(headers, at, &line)) {
        const char *colon = line.len == 0 ? NULL : memchr(line.data, ':', line.len);
        if (colon == NULL) continue;
        *name = (nats_text){line.data, (u32)(colon - line.data)};
        *value = (nats_text){colon + 1, line.len - name->len - 1};
        trim(value);
        return true;
    }
    return false;
}
