// SPDX-License-Identifier: Apache-2.0
// log_text.c: the text of a log line.
//
// What a device sends (client ids, topics, user names) ends up in log lines. A newline in it would
// forge a line, an escape sequence would drive the terminal of who reads it, a bidirectional
// control would show other text than there is. Escaping is done by the log writer, not by who logs:
// it costs the workers nothing.
#include "base/log_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CUT_MARK " [cut]"
#define CUT_MARK_BYTES ((u32)sizeof(CUT_MARK) - 1)

static const char *const level_names[LOG_LEVELS] = {"error", "warn", "info", "debug"};
static const char *const level_labels[LOG_LEVELS] = {"ERROR ", "WARN ", "INFO ", "DEBUG "};

const char *log_level_name(log_level level) {
    return (u32)level < LOG_LEVELS ? level_names[level] : "unknown";
}

bool log_level_parse(const char *name, log_level *out) {
    for (u32 i = 0; i < LOG_LEVELS; i++) {
        if (strcmp(name, level_names[i]) != 0) continue;
        *out = (log_level)i;
        return true;
    }
    return false;
}

// Length of the valid UTF-8 sequence at text (RFC 3629 section 4), 0 when it is none; its
// character.
static u32 utf8_sequence(const u8 *text, u32 left, u32 *character) {
    u8 lead = text[0];
    u32 len = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : 0;
    if (lead >= 0xf0 && lead <= 0xf4) len = 4;
    if (len == 0 || len > left) return 0;
    u32 c = lead & (0x7fu >> len);
    for (u32 i = 1; i < len; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (text[i] & 0x3fu);
    }
    if ((len == 3 && c < 0x800) || (len == 4 && (c < 0x10000 || c > 0x10ffff))) return 0;
    if (c >= 0xd800 && c <= 0xdfff) return 0;
    *character = c;
    return len;
}

// Characters that are valid but would break a line or mislead a reader.
static bool character_is_unsafe(u32 c) {
    return (c >= 0x80 && c <= 0x9f) ||    // C1 controls; U+009B starts a terminal sequence
           c == 0x2028 || c == 0x2029 ||  // line and paragraph separator
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || // bidirectional controls
           c == 0x200e || c == 0x200f || c == 0x061c || c == 0xfeff;
}

static u32 escape_byte(u8 byte, char *out) {
    static const char digits[] = "0123456789abcdef";
    out[0] = '\\';
    if (byte == '\n' || byte == '\r' || byte == '\t') {
        out[1] = byte == '\n' ? 'n' : byte == '\r' ? 'r' : 't';
        return 2;
    }
    out[1] = 'x';
    out[2] = digits[byte >> 4];
    out[3] = digits[byte & 15];
    return 4;
}

u32 log_text_escape(const char *text, u32 len, char *out) {
    const u8 *in = (const u8 *)text;
    u32 written = 0;
    for (u32 at = 0; at < len;) {
        if (LIKELY(in[at] >= 0x20 && in[at] < 0x7f)) {
            out[written++] = (char)in[at++];
            continue;
        }
        u32 character = 0;
        u32 whole = utf8_sequence(in + at, len - at, &character);
        if (whole > 0 && !character_is_unsafe(character)) {
            memcpy(out + written, in + at, whole);
            written += whole;
            at += whole;
            continue;
        }
        written += escape_byte(in[at++], out + written);
    }
    return written;
}

static void digits_put(char *out, u32 value, u32 digits) {
    while (digits-- > 0) {
        out[digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void time_put(char *out, u64 time_ns) {
    time_t seconds = (time_t)(time_ns / NS_PER_S);
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    memcpy(out, "0000-00-00T00:00:00.000Z", LOG_TIME_BYTES);
    digits_put(out, (u32)(tm.tm_year + 1900), 4);
    digits_put(out + 5, (u32)(tm.tm_mon + 1), 2);
    digits_put(out + 8, (u32)tm.tm_mday, 2);
    digits_put(out + 11, (u32)tm.tm_hour, 2);
    digits_put(out + 14, (u32)tm.tm_min, 2);
    digits_put(out + 17, (u32)tm.tm_sec, 2);
    digits_put(out + 20, (u32)(time_ns % NS_PER_S / NS_PER_MS), 3);
}

void log_line_make(log_line *line, log_level level, u64 time_ns, const char *text, u32 text_len) {
    const char *label = level_labels[(u32)level < LOG_LEVELS ? level : LOG_ERROR];
    size_t label_len = strlen(label);
    line->level = level;
    time_put(line->data, time_ns);
    line->data[LOG_TIME_BYTES] = ' ';
    memcpy(line->data + LOG_TIME_BYTES + 1, label, label_len);
    line->text_start = LOG_TIME_BYTES + 1 + (u32)label_len;
    u32 escaped =
        log_text_escape(text, MIN(text_len, LIMIT_LOG_LINE_BYTES), line->data + line->text_start);
    line->len = line->text_start + escaped;
    line->data[line->len++] = '\n';
}

u32 log_text_format(char *out, const char *format, va_list args) {
    const size_t room = LIMIT_LOG_LINE_BYTES + 1;
    int wanted = vsnprintf(out, room, format, args);
    if (wanted < 0) wanted = snprintf(out, room, "log: bad format: %s", format);
    u32 len = (u32)MAX(wanted, 0);
    if (len <= LIMIT_LOG_LINE_BYTES) return len;
    len = LIMIT_LOG_LINE_BYTES - CUT_MARK_BYTES;
    // Not inside a character: back over continuation bytes, at most the three there can be.
    for (u32 back = 0; back < 3 && ((u8)out[len] & 0xc0) == 0x80; back++) len--;
    memcpy(out + len, CUT_MARK, CUT_MARK_BYTES);
    return len + CUT_MARK_BYTES;
}
