// SPDX-License-Identifier: Apache-2.0
// guard.h: a strict look at the text before the library parses it. The library reads a generous
// language: a key without '=' takes the next line as its value, text after the closing brace is
// ignored, a quote inside a comment hides the rest of the file, blocks nest 65,535 deep. None of
// this is a feature of Sluice's files: what could be read in two ways is refused here, with its
// line, and comments are blanked out.
#ifndef SLUICE_CONF_GUARD_H
#define SLUICE_CONF_GUARD_H

#include "conf/errors.h"

// Checks text (len bytes, UTF-8) and blanks comments and carriage returns in place; lines and
// offsets stay. Returns 0, or -EINVAL with the first mistake added to errors.
int guard_check(char *text, size_t len, conf_errors *errors);

#endif
