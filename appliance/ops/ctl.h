// SPDX-License-Identifier: Apache-2.0
// ctl.h: `sluice ctl`: a client of the admin API, over the unix socket of a gateway on this machine or over
// its admin port. Tables for people, --json for machines.
#ifndef SLUICE_OPS_CTL_H
#define SLUICE_OPS_CTL_H

// Exit statuses; documented in docs/operations.md.
enum {
    CTL_OK = 0,
    CTL_REFUSED = 1,    // the gateway answered that it can or will not
    CTL_USAGE = 2,
    CTL_NO_GATEWAY = 3, // nobody listens there
    CTL_BROKEN = 4,     // the connection ended early, took too long, or the answer makes no sense
};

// argv[0] is "ctl". Returns the exit status.
int ctl_main(int argc, char **argv);

#endif
