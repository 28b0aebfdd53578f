// SPDX-License-Identifier: Apache-2.0
// passwd_command.h: `sluice passwd`: accounts of a password file.
#ifndef SLUICE_AUTH_PASSWD_COMMAND_H
#define SLUICE_AUTH_PASSWD_COMMAND_H

int passwd_main(int argc, char **argv);

#endif
