// SPDX-License-Identifier: Apache-2.0
// log_command.h: `sluice log verify|dump|repair DIR`: looks into the logs of a data_dir that no gateway runs on.
#ifndef SLUICE_STORE_LOG_COMMAND_H
#define SLUICE_STORE_LOG_COMMAND_H

// Exit status: 0 nothing is wrong; 1 damage was found, or repaired; 2 usage; 3 the directory is in use or can
// not be read.
int log_command_main(int argc, char **argv);

#endif
