// SPDX-License-Identifier: Apache-2.0
// net_only.h: `sluice init --network-only`: the network and configuration part of init alone, in whatever
// network namespace it is started, for the tests in tests/netns. Reads no disk, sets no clock, starts no
// gateway; not shown by `sluice help`.
#ifndef SLUICE_INIT_NET_ONLY_H
#define SLUICE_INIT_NET_ONLY_H

// argv[1] is "--network-only"; then --dir DIR (resolv.conf, sluice.conf, state, init.sock are made there),
// -c FILE (stands for the baked default), --cloud NAME, --metadata ADDRESS:PORT, --words "KEY=VALUE ...".
int net_only_main(int argc, char **argv);

#endif
