// SPDX-License-Identifier: Apache-2.0
// killed.c: stands in for a program that the kernel kills, as it does when there is no memory left.
#include <signal.h>

int main(void) {
    return raise(SIGKILL);
}
