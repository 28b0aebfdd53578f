// SPDX-License-Identifier: Apache-2.0
// pub.h: `sluice pub`. argv[0] is "pub". Returns the exit status.
#ifndef SLUICE_CLIENT_PUB_H
#define SLUICE_CLIENT_PUB_H

int client_pub_main(int argc, char **argv);

#endif
