// SPDX-License-Identifier: Apache-2.0
// update_helper.h: a helper process of init that says how it gets on: lines through a pipe while it works, its exit
// status at the end. One at a time for each update_helper. Init's loop only, but for update_helper_say.
#ifndef SLUICE_INIT_UPDATE_HELPER_H
#define SLUICE_INIT_UPDATE_HELPER_H

#include "init/loop.h"

#define UPDATE_HELPER_LINE_BYTES 320u

typedef struct update_helper update_helper;
struct update_helper {
    // Set by the owner before update_helper_start; run is executed in the child, its result the exit status.
    const char *name;
    int (*run)(update_helper *h);
    void (*on_line)(update_helper *h, const char *line); // may be NULL
    void (*on_end)(update_helper *h, int status);        // as of waitpid; h may be started again in it
    // The helper's.
    init_child child;
    init_watch report;
    int say_fd;
    char line[UPDATE_HELPER_LINE_BYTES];
    size_t len;
};

// 0 or -errno; on_end is called only after 0.
int update_helper_start(update_helper *h);
bool update_helper_is_running(const update_helper *h);
// Ends it at once; on_end follows.
void update_helper_kill(update_helper *h);
// In the child: one line to the owner. What does not fit is cut.
void update_helper_say(const update_helper *h, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
