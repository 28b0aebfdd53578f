// SPDX-License-Identifier: Apache-2.0
// route.h: inside the broker: its state, and what its files do for each other. Not for other
// modules.
//
//   broker.c     life, dispatch of worker messages        route.c      publish, across workers
//   match.c      which filters a topic matches            deliver.c    to the local subscribers
//   subscribe.c  local subscriptions                      message.c    messages kept by reference
//   announce.c   telling the other workers of filters     parcel.c     what travels between workers
//   shared.c     groups of shared subscriptions           shared_place.c  to which member
//   retained.c, retained_store.c  the retained messages   admit.c     who refuses a message
//
// Between workers travels a pointer to a parcel_slot (spsc_message.ptr; arg is the sender). A
// parcel is allocated, written and freed by the worker it comes from; a receiver reads it, owns its
// own slot of it and the picks for it until it has posted WM_ROUTE_RETURN, and writes nothing else.
// So nothing is freed by another thread than the one that allocated it, and a message that no ring
// takes waits linked through its slot.
#ifndef SLUICE_BROKER_ROUTE_H
#define SLUICE_BROKER_ROUTE_H

#include "base/timer.h"
#include "broker/clock_steps.h"
#include "broker/broker.h"
#include "broker/durable.h"
#include "broker/message.h"
#include "broker/pledge.h"
#include "broker/retained.h"
#include "broker/retained_seen.h"
#include "broker/retained_store.h"
#include "broker/table.h"
#include "broker/trie.h"
#include "limits.h"
#include "worker.h"

// What the other workers are told of: a filter with plain subscriptions, or a group of shared ones.
typedef struct interest interest;
struct interest {
    interest *lagging_next;
    u64 told_mask;      // workers that have confirmed to know ours
    u64 in_flight_mask; // workers an announcement is under way to; at most one each
    u32 live;           // subscriptions not ended
    bool lagging;       // in broker.lagging: an announcement could not be made yet
    bool shared;        // it is that of a share_group
};

// One filter that somebody subscribed to: the value of its trie node. It lives while it has local
// subscriptions, groups, other workers interested, or another worker that has been told of it.
typedef struct route_filter route_filter;
typedef struct share_group share_group;

struct subscription {
    table_link link;                  // in broker.subscriptions; link.next chains the ended ones
    struct subscription *next, *prev; // ring of the same filter or group, in the order of subscribing
    struct subscription *own_next, *own_prev; // of the subscriber
    route_filter *filter;
    share_group *group;               // NULL = not shared
    subscriber *subscriber;           // NULL = ended, waits to be freed
    broker_subscribed waiting;        // NULL once in force
    void *context;                    // of waiting
    u32 id;                           // subscription identifier
    u8 qos;
    u8 retain_handling;
    bool no_local : 1, retain_as_published : 1;
    bool online : 1;                  // shared: in which ring of the group
    bool keeps : 1;                   // shared: what it is given is in the log
    bool early : 1;                   // gets messages before it is in force: it was, in an earlier life
};
_Static_assert(sizeof(subscription) == 96, "a size class of the pool");

struct route_filter {
    interest told;
    trie_node *node;
    subscription *first; // ring
    share_group *groups;
    u64 remote_mask;     // workers whose clients subscribed
};
_Static_assert(sizeof(route_filter) == 64, "one cache line");

// What one worker knows of another's members of a group.
typedef struct share_remote {
    u32 id;          // of the group there
    u32 online, members;
    u32 keepers;     // of those online, whose queue is in the log
    u32 outstanding; // picks on their way
    u32 load;        // of the member that took the last one
} share_remote;

typedef struct share_waiting {
    struct share_waiting *next;
    message *message;
    pledge *owed; // the publisher's, whose answer waits with it; NULL: it has been answered
} share_waiting;

// Members of one share name and filter, here and elsewhere.
struct share_group {
    interest told;
    table_link by_id;      // in broker.groups
    route_filter *filter;
    share_group *next;     // of the filter
    subscription *members[2]; // rings: offline, online; the first one is next to be served
    u32 counts[2];         // not ended ones
    u32 keepers;           // of those online, whose queue is in the log
    u64 stale_mask;        // workers to be told of other counts
    u64 remote_mask;       // workers with members
    u64 full_mask;         // workers whose online members took none lately
    share_waiting *first, *last; // messages nobody took
    share_group *waiting_next;   // in broker.waiting
    u32 waiting;
    u32 id, turn, name_len;
    bool draining, listed, probing;
    share_remote remote[]; // one a worker, then the name
};

typedef enum parcel_kind {
    PARCEL_MESSAGE,
    PARCEL_ANNOUNCE,
    PARCEL_READ,  // of retained messages: asks for a part's first page
    PARCEL_ASK,   // whether a topic has a retained message
    PARCEL_PAGE,  // retained messages; its return asks for the next page
    PARCEL_ADMIT, // whether a session there refuses messages of a topic
} parcel_kind;

typedef struct parcel parcel;
typedef struct parcel_slot {
    parcel *of;
    struct parcel_slot *next; // while it waits for room in a ring, or at the receiver for memory
    u8 kind;                  // worker_message, while it waits
    bool refused;             // announcement, read: the receiver had no memory. Page: no more wanted.
                              // Ask: there is none. Admit: one does
    bool deliver, store;      // message: what to do with it there
    u8 failure;               // message: errno of what could not be written there, 0 = none
    u16 target;               // worker this slot is for
} parcel_slot;

// Which members of a group are asked to take a message: those online that have room; those that are away; those online
// that keep it on disk until they have room.
typedef enum share_mode { SHARE_ONLINE, SHARE_AWAY, SHARE_KEPT } share_mode;

// A group that a message is to be given to, once, on one worker.
typedef enum pick_state { PICK_OPEN, PICK_TAKEN, PICK_UNTAKEN } pick_state;
typedef struct parcel_pick {
    u64 tried_mask;
    u32 home, there; // the group's number at the origin and at the target
    u32 load;        // of the member that took it
    u16 target;
    u8 mode;         // share_mode
    u8 state;        // pick_state
} parcel_pick;

typedef struct parcel_announce {
    interest *of;  // at home
    bool adds;     // subscribe, not unsubscribe
    u32 share_len; // 0 = not a group; its name lies behind the filter
    u32 share_id, online, members, keepers;
} parcel_announce;
// In front of the body: for each slot the receiver's last serial when it learned of the filter.

typedef struct parcel_retained {
    u64 reader;              // ask: the topic's hash
    retained_cursor *cursor; // at the part; NULL: the last page
    u32 count;               // messages in the page
} parcel_retained;

struct parcel {
    u32 origin;          // worker that allocated it
    u32 pending;         // slots not back yet; origin only
    u16 slot_count;
    u16 kind;            // parcel_kind
    u32 pick_count;
    u32 body_bytes;
    pledge *owed;        // of a message: the publisher's; told when all slots are back; origin only
    u32 failure;         // the first one of a slot that is back; origin only
    struct durable_hold *hold; // of an exchange; NULL = none
    publication message; // its pointers are into the body
    union {
        parcel_announce announce;
        parcel_retained retained;
        u64 topic_hash; // admit
    };
    parcel_slot slots[]; // then the picks, then the body
};

typedef struct outbox {
    parcel_slot *head, *tail;
} outbox;

// A stack of items: a publish uses the end of it, one inside a callback what lies behind.
typedef struct scratch {
    void *items;
    u32 used, size, item_bytes;
} scratch;

typedef struct match_cache match_cache;

// A subscription that matched.
typedef struct route_hit {
    const subscription *s;
    u32 next, last; // of the same subscriber; last is HIT_NONE in all but the first
} route_hit;

typedef struct route_pick {
    share_group *group;
    u32 target;
    share_mode mode;
} route_pick;

// What goes into the log (durable.c).
typedef struct durable_hold durable_hold;

typedef struct retained_expiring {
    message *message;
    u64 origin, published_ms; // of its record
    u32 expiry_s;
} retained_expiring;

typedef struct durable_part {
    store *log;          // NULL: nothing is kept
    scratch claims, ids; // of the record being made
    counter subscribers; // durable ones of this worker; any thread reads
    store_pos appended;  // the last record written for the message at hand
    u32 exchange_bytes;  // of it, kept until the other workers have confirmed
    durable_hold *unconfirmed; // exchanges that other workers have not confirmed, in the order of their positions
    durable_hold **unconfirmed_end;
    counter open;              // how many they are; any thread
    void (*confirmed)(void *context, store_pos pos); // they have; may be NULL
    void (*resumed)(void *context);
    void *context;       // of these
    bool resuming;       // those of an earlier life are being sent again
    u32 behind;          // sessions whose present state could not be written yet: nothing is promised to any
    int refused;         // because the log has no room (-EDQUOT) or has failed (-EIO); 0: only not just now
    u64 source_seen[LIMIT_WORKERS_MAX]; // position of the last record that came from each other worker
    u64 source_kept[LIMIT_WORKERS_MAX]; // the same, of those whose retained message is kept here
    // Of the message at hand, while it is placed in groups: the publisher's pledge, which waits for each place it
    // is sent to, NULL: nobody waits; its exchange, which goes along; whether it was a ring or the log that had no
    // room just now; and what the log said, when it did not take it.
    pledge *owed;
    durable_hold *hold;
    bool busy;
    int pick_failure;
    int claim_failure;   // a claim that there was no memory for
    retained_cursor *checkpoint; // walks the retained messages, NULL = none under way
    bool checkpoint_again;       // the one it stands on has not been written yet
    counter unreadable;  // records that made no sense at the start
    clock_steps steps;   // of the wall clock
    void (*clock_look)(void *context); // has one that was just made in `steps`; NULL: not yet
    void *clock_context;
    retained_expiring *expiring; // during the replay: retained messages whose age is not known yet
    u32 expiring_count, expiring_room;
} durable_part;

// What other workers have said of a topic while a session of theirs was full (admit.c).
typedef struct admit_verdict {
    u64 hash;    // of the topic
    u64 workers; // who was asked; 0 = nobody yet
    u64 at_ns;   // when the last one answered
    bool asked;  // not all have
    bool refused;
    bool used;   // a publisher has come again for it
} admit_verdict;

typedef struct admit_part {
    counter full; // sessions here that reject and whose queue is full; any thread reads
    bool refused; // by one of those asked just now
    admit_verdict verdicts[64];
} admit_part;

struct broker {
    worker *owner;
    u64 others_mask;     // the device workers except this one
    pool *memory;
    u64 memory_budget_bytes;
    trie *filters;
    table subscriptions; // by filter or group, and subscriber
    table clients;       // by client id (clients.c)
    table groups;        // by number
    u32 group_number;
    u64 subscriber_number; // the last one given
    u32 busy;            // depth of running callbacks: nothing is freed meanwhile
    u64 stamp;           // of the last collection of subscribers
    scratch found, hits, picks;
    match_cache *cache;
    subscription *ended; // to be freed when busy falls to 0
    interest *lagging;
    share_group *waiting;
    share_waiting *answered; // placed or given up: their publishers are to be told in a turn of the loop
    parcel_slot *stalled, *stalled_tail; // messages received that there was no memory for, and what follows
    u64 outbox_mask;     // workers with something in their outbox
    outbox outboxes[LIMIT_WORKERS_MAX];
    timer_node retry_timer;
    retained_part retained;
    retained_seen seen;
    durable_part durable;
    admit_part admit;
    counter subscription_count, shared_count, remote_filter_count, in_transit;
    counter message_count, message_bytes, shared_waiting, shared_handed_on, shared_dropped;
};

static inline u64 worker_bit(u32 index) {
    return 1ull << index;
}

// --- broker.c ---
// Room for one more item at the end of the stack. False: out of memory.
bool scratch_push_room(broker *b, scratch *s);
void broker_retry_later(broker *b);
void broker_retry_now(broker *b); // in the next turn of the loop

// --- subscribe.c ---
// Marks the start and end of code that may call back: between them ended subscriptions stay linked.
void broker_enter(broker *b);
void broker_leave(broker *b);
void subscription_end(broker *b, subscription *s);
// The record of a filter, made when absent. NULL when out of memory.
route_filter *filter_acquire(broker *b, const char *filter, u32 len);
route_filter *filter_find(const broker *b, const char *filter, u32 len);
// Frees it when nothing needs it any more.
void filter_release(broker *b, route_filter *f);
void ring_add(subscription **ring, subscription *s);
void ring_remove(subscription **ring, subscription *s);

// --- announce.c --- Brings what the other workers have been told in line with what is. Returns 0
// (also while something is in flight: the rest follows its return) or -ENOMEM: nothing was
// announced.
int announce_reconcile(broker *b, interest *it);
// The same, and when there is no memory tries again until it is done.
void announce_reconcile_surely(broker *b, interest *it);
bool announce_is_complete(const broker *b, const interest *it);
// A slot came back. May call `subscribed` callbacks.
void announce_returned(broker *b, const parcel_slot *slot);
// WM_SUBSCRIBE, WM_UNSUBSCRIBE of another worker.
void announce_received(broker *b, parcel_slot *slot);
void announce_retry(broker *b);

// --- shared.c ---
char *group_name(broker *b, share_group *g);
share_group *group_acquire(broker *b, route_filter *f, const char *name, u32 len);
share_group *group_find(broker *b, const route_filter *f, const char *name, u32 len);
share_group *group_of_id(const broker *b, u32 id);
// Frees it, and its filter's record, when nothing needs them any more.
void group_release(broker *b, share_group *g);
bool subscriber_is_online(const subscriber *s);
// A member's subscription goes into the ring it belongs to, or out.
void group_add(broker *b, subscription *s);
void group_unlink(subscription *s);
// It counts as a member, by one more or one less: of the ring it is in.
void group_count(share_group *g, const subscription *s, int change);
// Whether what the subscription is given is in the log has become known, or has changed.
void group_keeps(share_group *g, subscription *s);
// Whether a message may be put into the log for it, here or elsewhere.
bool group_needs_log(const broker *b, const share_group *g);
// Its counts are other ones than before.
void group_changed(broker *b, share_group *g);
void group_remote_set(broker *b, share_group *g, u32 from, const parcel_announce *a);

// --- shared_place.c ---
// The worker that is to give the message to one of its members, -1 when there is none left.
int group_choose(broker *b, share_group *g, u64 tried_mask, share_mode mode);
// To one local member. False: nobody took it. load (may be NULL): of the member that did.
bool group_deliver(broker *b, share_group *g, const publication *p, message **stored, share_mode mode, u32 *load);
// To any member anywhere, or it waits, or it is dropped and counted; as a part of its cases asks.
void group_place(broker *b, share_group *g, const publication *p, message **stored, u64 tried_mask, share_mode mode);
// Waits until a member has room. False: dropped and counted.
bool group_wait(broker *b, share_group *g, const publication *p, message **stored);
void group_drain(broker *b, share_group *g);
void group_waiting_free(broker *b, share_group *g);
void groups_retry(broker *b);
// Tells the publishers of messages that no longer wait.
void groups_answer(broker *b);
// The picks of a message for this worker; those of one that came back.
void picks_received(broker *b, parcel *p, message **stored);
void picks_returned(broker *b, parcel_slot *slot);

// --- match.c ---
// The filters that a topic matches, at the end of broker.found; within broker_enter, until match_end.
typedef struct route_match {
    u64 workers_mask; // other workers with plain subscriptions
    u32 base, count;  // in broker.found
    u32 plain, groups;
    bool no_memory;
} route_match;
// 0, -EINVAL: not a topic name, -ENOMEM.
int match_collect(broker *b, const char *topic, u32 len, route_match *match);
void match_end(broker *b, const route_match *match);
int match_cache_init(broker *b);
// A filter has come or is about to go.
void match_cache_invalidate(broker *b);

// --- deliver.c ---
// Gets ready to deliver to plain subscriptions: after it nothing can fail. 0 or -ENOMEM.
typedef struct route_hits {
    u32 base, count;  // in broker.hits; unused when one filter matches
    const route_filter *single;
    u32 *ids;         // for the longest overlap
    u32 ids_size;
    bool any;         // somebody gets it
} route_hits;
int hits_collect(broker *b, const route_match *match, const publication *p, route_hits *hits);
void hits_deliver(broker *b, route_hits *hits, const publication *p, message **stored);
// Offers it to the durable ones (durable_offer).
void hits_reserve(broker *b, const route_hits *hits, const publication *p, message **stored);
// Whether one of them refuses it.
bool hits_refused(broker *b, const route_hits *hits, const publication *p);
void hits_end(broker *b, const route_hits *hits);

// --- admit.c ---
// Whether a message that can be refused may go on: 0, -ENOBUFS (a session that rejects is full), -EAGAIN (others are
// being asked), -ENOMEM. workers_mask: the others that it would go to.
int admit_message(broker *b, const route_hits *hits, u64 workers_mask, const publication *p);
void admit_received(broker *b, parcel_slot *slot); // PARCEL_ADMIT
void admit_returned(broker *b, parcel_slot *slot);

// --- durable.c ---
// A delivery that is about to be made: takes the claim of a durable subscriber.
void durable_offer(broker *b, subscriber *who, delivery *d);
// Writes the record for the plain subscribers that claim it and, in an exchange, for `targets`. Returns 0 (*pos 0:
// nobody needs it) or -EAGAIN, -ENOSPC, -EIO, -EMSGSIZE, -ENOMEM: then nothing was written and nobody has a claim.
#define DURABLE_RECEIVED UINT64_MAX // targets: it came from another worker
int durable_store(broker *b, const publication *p, const route_hits *hits, u64 targets, message **stored,
                  store_pos *pos);
// Time of publishing and expiry, as a record has them.
void durable_times(const broker *b, const publication *p, message_record *r);
// --- durable_retained.c ---
int durable_retained_start(broker *b);
// Writes the retained message of p's topic, or that there is none. 0 (*pos 0: it is in memory only, and nobody was
// promised more) or the errors of durable_store.
int durable_retain(broker *b, const publication *p, store_pos *pos);
// --- durable_exchange.c --- QoS 2 from a durable publisher here to other workers.
// What a wait needs; NULL: no memory.
durable_hold *exchange_hold(broker *b);
void exchange_hold_free(durable_hold *h);
// Sends the parcel when its record here, of which part_bytes are kept for it, is on disk. The hold is given up.
void exchange_send(durable_hold *h, parcel *p, store_pos pos, u32 part_bytes, u64 targets);
// One more parcel carries it, to another worker than the first.
void exchange_goes_on(durable_hold *h);
// All slots of a parcel of it are back.
void exchange_returned(broker *b, const parcel *p);
// Whether a message from another worker's record has been met, now or in an earlier life. Its retained message has a
// record of its own, behind the one for sessions, and a power cut may come between them. keeps: it is kept here.
typedef enum exchange_known { EXCHANGE_NEW, EXCHANGE_NOT_KEPT, EXCHANGE_KNOWN } exchange_known;
exchange_known exchange_is_known(const broker *b, const publication *p, bool keeps);
// One more commit of this log that a pledge waits for; without memory for that it fails.
void pledge_on_log_too(broker *b, pledge *p, store_pos pos);
// The slot goes home when everything up to pos is on disk. The hold is given up.
void slot_hold_return(durable_hold *h, parcel_slot *slot, store_pos pos);

// --- parcel.c ---
// A parcel with a slot for each worker in the mask. NULL when out of memory.
parcel *parcel_create(broker *b, parcel_kind kind, u64 targets_mask, u32 pick_count,
                      u32 body_bytes);
parcel_pick *parcel_picks(parcel *p);
u8 *parcel_body(parcel *p);
// The serials in front of an announcement's body.
u64 *parcel_serials(parcel *p);
// The same with a message in it.
parcel *parcel_of_message(broker *b, const publication *p, u64 targets_mask, u32 pick_count);
// Posts every slot, as announcement or message.
void parcel_send(broker *b, parcel *p, worker_message kind);
// Sends a slot home.
void parcel_return(broker *b, parcel_slot *slot);
// One slot is back at its origin; frees the parcel with the last one.
void parcel_release(broker *b, parcel *p);
// Frees one that has not been sent.
void parcel_discard(broker *b, parcel *p);
// Posts what waits for room, as far as there is room.
void outbox_flush(broker *b);

// --- route.c ---
// Sends a message's slots.
void parcel_post(broker *b, parcel *p);
void route_received(broker *b, parcel_slot *slot);
// Keeps what came behind messages that wait for memory and must not overtake them: a read, a confirmation.
// False: none wait.
bool route_hold(broker *b, parcel_slot *slot);
void route_retry(broker *b);

// --- retained.c --- What messages of other workers ask of this part of the store.
int retained_ask(broker *b, u32 keeper, const publication *p); // as retained_admit
void retained_received(broker *b, parcel_slot *slot); // PARCEL_READ, PARCEL_PAGE
void retained_returned(broker *b, parcel_slot *slot);

#endif
