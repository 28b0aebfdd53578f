// SPDX-License-Identifier: Apache-2.0
// timer.c: hashed hierarchical timer wheel (Varghese and Lauck 1987, scheme 7).
//
// Time is cut into ticks; a timer's tick is its due time rounded up, so it never fires early. A
// timer lives on the lowest level whose slots tell its tick from the wheel's present tick: level 0
// when the two differ only in the lowest 6 bits, level 1 when in the lowest 12, and so on; level 3
// takes the rest and goes round (a timer beyond its 63 slots is parked in the farthest and placed
// again when that comes up). Hence everything on a level is due before anything on the next one,
// and the next slot to look at is the first set bit of the lowest level in use. A jump of hours
// visits occupied slots only.
//
// timer_run first moves all due timers into one list, in order of their ticks, and then fires from
// its head. A callback may therefore cancel or move any timer, in that list too. What a callback
// arms in the past goes to the ready list of the next run: a callback that re-arms itself can not
// hold up the loop.
//
// Invariants: every timer in slots has a tick > wheel->tick; a slot's bit is set exactly while its
// list is not empty; a node is in at most one list, and node->next is NULL while it is in none.
#include "base/timer.h"

#include <stdlib.h>

#define LEVEL_BITS 6u
#define LEVEL_SLOTS (1u << LEVEL_BITS)
#define SLOT_MASK (LEVEL_SLOTS - 1)
#define LEVELS 4u
#define TOP (LEVELS - 1)

struct timer_wheel {
    u64 tick;                 // every slot up to this tick has been emptied
    u64 now_ns;               // time of the last run
    void *context;
    bool running;
    u64 bits[LEVELS];         // bit n: slot n of the level holds timers
    timer_node ready;         // due already when armed; heads of circular lists from here on
    timer_node expired;       // being fired by timer_run
    timer_node slots[LEVELS][LEVEL_SLOTS];
};

static void list_init(timer_node *head) {
    head->next = head->prev = head;
}

static bool list_is_empty(const timer_node *head) {
    return head->next == head;
}

static void list_append(timer_node *head, timer_node *node) {
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

// Moves all of from behind the last of into.
static void list_splice(timer_node *into, timer_node *from) {
    if (list_is_empty(from)) return;
    from->next->prev = into->prev;
    into->prev->next = from->next;
    from->prev->next = into;
    into->prev = from->prev;
    list_init(from);
}

timer_wheel *timer_wheel_create(u64 now_ns, void *context) {
    timer_wheel *wheel = calloc(1, sizeof(*wheel));
    if (wheel == NULL) return NULL;
    wheel->tick = now_ns / TIMER_TICK_NS;
    wheel->now_ns = now_ns;
    wheel->context = context;
    list_init(&wheel->ready);
    list_init(&wheel->expired);
    for (u32 level = 0; level < LEVELS; level++) {
        for (u32 slot = 0; slot < LEVEL_SLOTS; slot++) list_init(&wheel->slots[level][slot]);
    }
    return wheel;
}

void timer_wheel_destroy(timer_wheel *wheel) {
    free(wheel);
}

static u64 tick_of_due(u64 due_ns) {
    return due_ns / TIMER_TICK_NS + (due_ns % TIMER_TICK_NS != 0);
}

// Puts a node with a tick beyond wheel->tick into its slot.
static void wheel_place(timer_wheel *wheel, timer_node *node, u64 tick) {
    u64 differs = tick ^ wheel->tick; // not 0
    u32 top_bit = 63u - (u32)__builtin_clzll(differs);
    u32 level = MIN(top_bit / LEVEL_BITS, TOP);
    u64 unit = tick >> (level * LEVEL_BITS);
    if (level == TOP) unit = MIN(unit, (wheel->tick >> (TOP * LEVEL_BITS)) + SLOT_MASK);
    u32 slot = (u32)(unit & SLOT_MASK);
    list_append(&wheel->slots[level][slot], node);
    wheel->bits[level] |= 1ull << slot;
}

static void node_unlink(timer_wheel *wheel, timer_node *node) {
    timer_node *prev = node->prev, *next = node->next;
    prev->next = next;
    next->prev = prev;
    node->next = node->prev = NULL;
    if (prev != next) return;
    // The list may have fallen empty: then prev is its head. Only heads of slots have a bit to
    // clear.
    const timer_node *first = &wheel->slots[0][0];
    uintptr_t offset = (uintptr_t)prev - (uintptr_t)first;
    if (offset >= sizeof(wheel->slots)) return;
    u32 index = (u32)(offset / sizeof(timer_node));
    wheel->bits[index / LEVEL_SLOTS] &= ~(1ull << (index % LEVEL_SLOTS));
}

void timer_arm(timer_wheel *wheel, timer_node *node, u64 due_ns) {
    ASSERT(node->callback != NULL);
    if (timer_is_armed(node)) node_unlink(wheel, node);
    node->due_ns = due_ns;
    u64 tick = tick_of_due(due_ns);
    if (due_ns <= wheel->now_ns || tick <= wheel->tick) list_append(&wheel->ready, node);
    else wheel_place(wheel, node, tick);
}

void timer_cancel(timer_wheel *wheel, timer_node *node) {
    if (timer_is_armed(node)) node_unlink(wheel, node);
}

typedef struct wheel_slot {
    u32 level, slot;
    u64 tick; // at which the slot's time begins
} wheel_slot;

// The first occupied slot in time. False when there is none.
static bool wheel_first_slot(const timer_wheel *wheel, wheel_slot *first) {
    for (u32 level = 0; level < LEVELS; level++) {
        u64 bits = wheel->bits[level];
        if (bits == 0) continue;
        u32 shift = level * LEVEL_BITS;
        u64 unit = wheel->tick >> shift;
        u32 position = (u32)(unit & SLOT_MASK);
        // Rotate so that bit 0 is the slot behind the present one. Below the top level no occupied
        // slot lies at or before the present one, so the same search serves all.
        u32 turn = (position + 1) & SLOT_MASK;
        u64 turned = turn == 0 ? bits : bits >> turn | bits << (LEVEL_SLOTS - turn);
        u32 ahead = (u32)__builtin_ctzll(turned) + 1;
        *first = (wheel_slot){
            .level = level,
            .slot = (position + ahead) & SLOT_MASK,
            .tick = (unit + ahead) << shift,
        };
        return true;
    }
    return false;
}

// Moves what is due up to now_tick to the expired list and brings the wheel to that tick.
static void wheel_advance(timer_wheel *wheel, u64 now_tick) {
    wheel_slot at;
    while (wheel_first_slot(wheel, &at) && at.tick <= now_tick) {
        wheel->tick = at.tick;
        wheel->bits[at.level] &= ~(1ull << at.slot);
        timer_node *head = &wheel->slots[at.level][at.slot];
        if (at.level == 0) {
            list_splice(&wheel->expired, head);
            continue;
        }
        // Cascade. The nodes are taken off first: a parked one may go back into the same slot.
        timer_node moving;
        list_init(&moving);
        list_splice(&moving, head);
        while (!list_is_empty(&moving)) {
            timer_node *node = moving.next;
            moving.next = node->next;
            node->next->prev = &moving;
            u64 tick = tick_of_due(node->due_ns);
            if (tick <= wheel->tick) list_append(&wheel->expired, node);
            else wheel_place(wheel, node, tick);
        }
    }
    wheel->tick = MAX(wheel->tick, now_tick);
}

u32 timer_run(timer_wheel *wheel, u64 now_ns) {
    ASSERT(!wheel->running);
    wheel->now_ns = MAX(wheel->now_ns, now_ns);
    list_splice(&wheel->expired, &wheel->ready);
    wheel_advance(wheel, wheel->now_ns / TIMER_TICK_NS);
    u32 fired = 0;
    wheel->running = true;
    while (!list_is_empty(&wheel->expired)) {
        timer_node *node = wheel->expired.next;
        node_unlink(wheel, node);
        fired++;
        node->callback(node, wheel->context);
    }
    wheel->running = false;
    return fired;
}

u64 timer_next_ns(const timer_wheel *wheel) {
    if (!list_is_empty(&wheel->ready)) return 0;
    wheel_slot first;
    if (!wheel_first_slot(wheel, &first)) return UINT64_MAX;
    if (first.tick > UINT64_MAX / TIMER_TICK_NS) return UINT64_MAX - 1;
    return first.tick * TIMER_TICK_NS;
}
