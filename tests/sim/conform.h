// SPDX-License-Identifier: Apache-2.0
// conform.h: the cases that every engine has to pass with the same transcript.
#ifndef SLUICE_TESTS_CONFORM_H
#define SLUICE_TESTS_CONFORM_H

#include "lab.h"

typedef struct conform_case {
    const char *name;
    void (*run)(lab *l);
} conform_case;

extern const conform_case conform_cases[];
extern const u32 conform_case_count;

#endif
