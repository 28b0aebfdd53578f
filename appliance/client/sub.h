// SPDX-License-Identifier: Apache-2.0
// sub.h: `sluice sub`. argv[0] is "sub". Returns the exit status.
#ifndef SLUICE_CLIENT_SUB_H
#define SLUICE_CLIENT_SUB_H

int client_sub_main(int argc, char **argv);

#endif
