// SPDX-License-Identifier: Apache-2.0
// help.h: the texts of `sluice help` for the commands whose module does not print its own.
#ifndef SLUICE_HELP_H
#define SLUICE_HELP_H

// The whole text of a command's page, or NULL when its module prints it (`sluice COMMAND --help`).
const char *help_text(const char *command);
// What stands around the list of commands.
extern const char help_head[];
extern const char help_tail[];

#endif
