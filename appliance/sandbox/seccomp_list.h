// SPDX-License-Identifier: Apache-2.0
// seccomp_list.h: the system calls of a running gateway, and on what condition. The one place to look at, and to
// change when something new is called.
#ifndef SLUICE_SANDBOX_SECCOMP_LIST_H
#define SLUICE_SANDBOX_SECCOMP_LIST_H

#include "base/base.h"

// On which arguments a call is allowed. Another use of it is refused like a call that is not in the list.
typedef enum call_check {
    CALL_ALWAYS,
    CALL_SOCKET,    // unix, IPv4 and IPv6; streams and datagrams
    CALL_THREAD,    // clone: threads, no processes
    CALL_NO_EXEC,   // mmap, mprotect: no executable memory
    CALL_OWN_PID,   // signals to this process
    CALL_PRCTL,     // names of threads and of memory
    CALL_OWN_LIMIT, // prlimit64 of this process
    CALL_IOCTL,     // of sockets, pipes, and what isatty asks
    CALL_FATAL,     // ends the process: nothing of ours makes it, whoever does is an intruder
    CALL_ABSENT,    // ENOSYS: the C library then goes another way
} call_check;

typedef struct call_rule {
    u16 number;
    u8 check;
    const char *name;
} call_rule;

// Those made often come first: without the kernel's cache of allowed calls (5.11) the filter walks the list.
extern const call_rule seccomp_rules[];
extern const u32 seccomp_rule_count;

// The name of a call, also of one that is not in the list: "execve"; NULL when it is not known here.
const char *seccomp_call_name(u32 number);

#endif
