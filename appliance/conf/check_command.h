// SPDX-License-Identifier: Apache-2.0
// check_command.h: `sluice check`: reads a configuration as `sluice run` would, and says what it
// found.
#ifndef SLUICE_CONF_CHECK_COMMAND_H
#define SLUICE_CONF_CHECK_COMMAND_H

// argv[0] is "check". Returns the exit status: 0 the file is good, 2 it is not, it can not be read,
// or the command line is wrong.
int check_main(int argc, char **argv);

#endif
