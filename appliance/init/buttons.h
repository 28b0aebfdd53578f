// SPDX-License-Identifier: Apache-2.0
// buttons.h: the power button and what hypervisors make of it: every input device that has KEY_POWER (ACPI
// button, GPIO keys of a device tree, a keyboard's power key), found by its capabilities, never by its name;
// devices that come later are found too. Pressing it is an ordered shutdown; pressing again makes it immediate.
//
// Ctrl-Alt-Del of a keyboard as well, which is also how some hypervisors ask for a restart: the kernel itself knows
// the combination only with virtual terminals, which the image does not have.
#ifndef SLUICE_INIT_BUTTONS_H
#define SLUICE_INIT_BUTTONS_H

#include "base/base.h"

// Opens the devices there are and watches for new ones. Returns how many are listened to, or -errno when new ones can
// not be watched for. device: what it calls itself, valid during the call.
int buttons_open(void (*on_power)(const char *device), void (*on_restart)(const char *device));
u32 buttons_count(void);

// What a key of one device means, given what is held down on it. value: 1 pressed, 2 held, 0 let go. For buttons.c
// and tests.
typedef enum button_action { BUTTON_NOTHING, BUTTON_POWER, BUTTON_RESTART } button_action;
typedef struct button_held {
    bool ctrl, alt;
} button_held;
button_action buttons_key(button_held *held, u16 code, i32 value);

#endif
