// SPDX-License-Identifier: Apache-2.0
// pledge.c: the count of commits an acknowledgement waits for, and the lines.
#include "broker/pledge.h"

#include <string.h>

pledge *pledge_create(broker *b) {
    pledge *p = pool_alloc(broker_pool(b), sizeof(*p));
    if (p == NULL) return NULL;
    memset(p, 0, sizeof(*p));
    p->broker = b;
    return p;
}

static void pledge_free(pledge *p) {
    pool_free(broker_pool(p->broker), p, sizeof(*p));
}

void pledge_discard(pledge *p) {
    if (p == NULL) return;
    ASSERT(p->waits == 0 && p->line == NULL);
    pledge_free(p);
}

void pledge_part_done(pledge *p, int result) {
    ASSERT(p->waits > 0);
    if (p->result == 0) p->result = result;
    if (--p->waits > 0) return;
    pledge_line *line = p->line;
    if (line == NULL) pledge_free(p);
    else if (line->head == p) line->settled(line);
}

static void committed(store_waiter *w, int result) {
    pledge_part_done(CONTAINER_OF(w, pledge, waiter), result);
}

void pledge_on_log(pledge *p, store *log, store_pos pos) {
    p->waits++;
    p->waiter.done = committed;
    store_wait(log, pos, &p->waiter);
}

void pledge_line_add(pledge_line *line, pledge *p, u32 word) {
    p->line = line;
    p->word = word;
    p->next = NULL;
    *(line->tail != NULL ? &line->tail->next : &line->head) = p;
    line->tail = p;
    line->count++;
}

static pledge *line_pop(pledge_line *line) {
    pledge *p = line->head;
    line->head = p->next;
    if (line->head == NULL) line->tail = NULL;
    line->count--;
    return p;
}

bool pledge_line_take(pledge_line *line, u32 *word, int *result) {
    if (line->head == NULL || line->head->waits > 0) return false;
    pledge *p = line_pop(line);
    *word = p->word;
    *result = p->result;
    pledge_free(p);
    return true;
}

void pledge_line_abandon(pledge_line *line) {
    while (line->head != NULL) {
        pledge *p = line_pop(line);
        p->line = NULL;
        if (p->waits == 0) pledge_free(p);
    }
}
