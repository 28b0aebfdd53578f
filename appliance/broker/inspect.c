// SPDX-License-Identifier: Apache-2.0
// inspect.c: rows for operators. The cursor is a bucket of a hash table, so it needs nothing kept between
// two steps, and whoever asked may go at any time.
#include "broker/inspect.h"

#include <string.h>

#include "broker/route.h"

typedef struct row_text {
    const char *text;
    u32 len;
} row_text;

static bool contains_text(row_text in, const char *what) {
    return what[0] == '\0' || memmem(in.text, in.len, what, strlen(what)) != NULL;
}

// False: no room, nothing was added.
static bool row_add(inspect_rows *out, inspect_row *row, row_text topic, row_text share,
                    row_text client) {
    row->topic_len = topic.len;
    row->share_len = share.len;
    row->client_len = client.len;
    row->bytes = (u32)sizeof(*row) + topic.len + share.len + client.len;
    if (row->bytes > out->size - out->used) return false;
    u8 *at = out->data + out->used;
    memcpy(at, row, sizeof(*row));
    at += sizeof(*row);
    const row_text texts[] = {topic, share, client};
    for (u32 i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].len > 0) memcpy(at, texts[i].text, texts[i].len);
        at += texts[i].len;
    }
    out->used += row->bytes;
    out->count++;
    return true;
}

// Walks a table by buckets. add returns false when there is no room; a bucket whose entries did not all
// fit is taken back and comes again, unless it alone fills the buffer: then what fits is all of it.
typedef bool (*bucket_add)(broker *b, const table_link *link, void *context, inspect_rows *out);

static void walk(broker *b, const table *t, bucket_add add, void *context, inspect_rows *out) {
    u32 places = 0;
    for (; out->cursor < t->buckets && places < LIMIT_INSPECT_PLACES; out->cursor++, places++) {
        u32 used = out->used, count = out->count;
        const table_link *link = table_bucket(t, out->cursor);
        for (; link != NULL; link = link->next) {
            if (!add(b, link, context, out)) break;
        }
        if (link == NULL || used == 0) continue;
        out->used = used;
        out->count = count;
        break;
    }
    out->more = out->cursor < t->buckets;
}

typedef struct subscription_query {
    const char *contains, *client;
    char *text; // room for a filter
} subscription_query;

static row_text client_of(const subscriber *s) {
    row_text client = {NULL, 0};
    if (s->ops->name != NULL) client.text = s->ops->name(s, &client.len);
    return client;
}

static bool subscription_add(broker *b, const table_link *link, void *context, inspect_rows *out) {
    const subscription_query *q = context;
    const subscription *s = CONTAINER_OF((uintptr_t)link, subscription, link);
    row_text client = client_of(s->subscriber), share = {NULL, 0};
    size_t wanted = strlen(q->client);
    if (wanted != 0 && (client.len != wanted || memcmp(client.text, q->client, wanted) != 0)) return true;
    row_text filter = {q->text, trie_node_text_bytes(s->filter->node)};
    trie_node_text(s->filter->node, q->text, filter.len);
    if (!contains_text(filter, q->contains)) return true;
    if (s->group != NULL) share = (row_text){group_name(b, s->group), s->group->name_len};
    inspect_row row = {.subscription_id = s->id, .qos = s->qos, .retain_handling = s->retain_handling,
                       .no_local = s->no_local, .retain_as_published = s->retain_as_published,
                       .in_force = s->waiting == NULL};
    return row_add(out, &row, filter, share, client);
}

void inspect_subscriptions(broker *b, const char *contains, const char *client, inspect_rows *out) {
    // The end of the buffer serves as room for a filter's text.
    ASSERT(out->size >= INSPECT_ROW_BYTES_MAX && out->used == 0);
    inspect_rows front = *out;
    front.size -= LIMIT_TOPIC_BYTES;
    subscription_query q = {contains, client, (char *)out->data + front.size};
    walk(b, &b->subscriptions, subscription_add, &q, &front);
    front.size = out->size;
    *out = front;
}

// Rebuilds the topic of a node, from its end.
static row_text topic_of(const retained_node *node, char *room, u32 size) {
    u32 at = size;
    for (; node->parent != NULL; node = node->parent) {
        at -= node->len;
        memcpy(room + at, node->text, node->len);
        if (node->parent->parent != NULL) room[--at] = '/';
    }
    return (row_text){room + at, size - at};
}

static bool retained_add(broker *b, const table_link *link, void *context, inspect_rows *out) {
    const subscription_query *q = context;
    const retained_node *node = CONTAINER_OF((uintptr_t)link, retained_node, edge);
    const message *m = node->message;
    u64 now = b->owner->now_ns;
    if (m == NULL || message_is_expired(m, now)) return true;
    row_text topic = topic_of(node, q->text, LIMIT_TOPIC_BYTES), none = {NULL, 0};
    if (!contains_text(topic, q->contains)) return true;
    inspect_row row = {.qos = m->qos, .payload_len = m->payload_len, .props_len = m->props_len,
                       .age_ns = now - MIN(now, m->published_ns),
                       .expires_in_ns = m->expires_ns == 0 ? UINT64_MAX : m->expires_ns - now};
    return row_add(out, &row, topic, none, none);
}

void inspect_retained(broker *b, const char *contains, inspect_rows *out) {
    ASSERT(out->size >= INSPECT_ROW_BYTES_MAX && out->used == 0);
    inspect_rows front = *out;
    front.size -= LIMIT_TOPIC_BYTES;
    subscription_query q = {contains, "", (char *)out->data + front.size};
    walk(b, &b->retained.edges, retained_add, &q, &front);
    front.size = out->size;
    *out = front;
}
