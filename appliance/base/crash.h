// SPDX-License-Identifier: Apache-2.0
// crash.h: what is left behind when the process dies of SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT:
// a short summary and the registered flight recorders, on stderr (the newest records) and whole in
// <dir>/crash-<pid>.txt. Then the signal takes its default action, so that core dump and exit
// status are what they would be without the handler.
//
// The handler allocates nothing, uses no stdio and takes no lock. Several threads that crash at
// once: the first one dumps, the others wait for it.
#ifndef SLUICE_BASE_CRASH_H
#define SLUICE_BASE_CRASH_H

#include "base/base.h"
#include "base/recorder.h"
#include "limits.h"

#define CRASH_RECORDERS_MAX (LIMIT_WORKERS_MAX + 1) // the workers and the operations worker
#define CRASH_FILES_KEEP 8u       // crash-*.txt files left in dir by crash_start, newest first
#define CRASH_STDERR_RECORDS 64u  // of each recorder on stderr
#define CRASH_STDERR_WAIT_MS 1000 // in all, for a stderr that nobody reads

// Installs the handlers and prepares the calling thread (crash_thread_setup). dir: where the file
// goes, NULL = stderr only; it is opened now and stays usable after chdir or when descriptors run
// out. version: copied. Older crash files beyond CRASH_FILES_KEEP are removed. Returns 0 or -errno;
// the handlers are installed in any case, without the file when dir can not be opened. Main thread,
// once, in the process that is to be watched (the file's name carries its pid).
int crash_start(const char *dir, const char *version);

// Gives the calling thread its alternate signal stack, without which a stack overflow could not be
// reported. Each thread calls it first, and crash_thread_teardown last. Returns 0 or -ENOMEM.
int crash_thread_setup(void);
void crash_thread_teardown(void);

// Adds a recorder to what is dumped. name: static, or outliving the registration. Any thread.
// Returns 0 or -ENOSPC beyond CRASH_RECORDERS_MAX. It must be unregistered before it is freed.
int crash_register_recorder(const char *name, const recorder *rec);
void crash_unregister_recorder(const recorder *rec);

#endif
