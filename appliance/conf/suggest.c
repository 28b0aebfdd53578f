// SPDX-License-Identifier: Apache-2.0
// suggest.c: how far two short words are apart.
#include "conf/suggest.h"

#include <string.h>

#define SUGGEST_BYTES_MAX 40

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string
// alignment).
static u32 edit_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    u32 rows[3][SUGGEST_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_len; j++) rows[0][j] = (u32)j;
    for (size_t i = 1; i <= a_len; i++) {
        u32 *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (u32)i;
        for (size_t j = 1; j <= b_len; j++) {
            u32 best = MIN(row[j - 1], above[j]) + 1;
            best = MIN(best, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) best = MIN(best, two_above[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

void suggest_offer(const char *word, size_t word_len, const char *name, u32 *best,
                   const char **found) {
    size_t name_len = strlen(name);
    if (word_len == 0 || word_len > SUGGEST_BYTES_MAX || name_len > SUGGEST_BYTES_MAX) return;
    u32 distance = edit_distance(word, word_len, name, name_len);
    if (distance > MAX(name_len / 3, 1) || distance >= *best) return;
    *best = distance;
    *found = name;
}
