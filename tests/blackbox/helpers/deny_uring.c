// SPDX-License-Identifier: Apache-2.0
// deny_uring.c: runs a program under a seccomp filter that refuses io_uring, the way container run-times do.
//
// usage: deny_uring setup|enter|register|all ERROR program arguments...
// ERROR is the errno the calls get (EPERM, ENOSYS, EACCES, EINVAL), or KILL to end the process that tries.
// Needs no privilege: the filter is installed with no_new_privs.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

// The numbers are the same on every architecture.
enum { NR_SETUP = 425, NR_ENTER = 426, NR_REGISTER = 427 };

static const struct {
    const char *name;
    int value;
} errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EACCES", EACCES}, {"EINVAL", EINVAL}};

static int action_of(const char *name, unsigned *action) {
    if (strcmp(name, "KILL") == 0) {
        *action = SECCOMP_RET_KILL_PROCESS;
        return 0;
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (strcmp(name, errors[i].name) == 0) {
            *action = SECCOMP_RET_ERRNO | ((unsigned)errors[i].value & SECCOMP_RET_DATA);
            return 0;
        }
    }
    return -1;
}

static int range_of(const char *name, unsigned *low, unsigned *high) {
    *low = NR_SETUP, *high = NR_REGISTER;
    if (strcmp(name, "all") == 0) return 0;
    if (strcmp(name, "setup") == 0) *high = *low = NR_SETUP;
    else if (strcmp(name, "enter") == 0) *high = *low = NR_ENTER;
    else if (strcmp(name, "register") == 0) *high = *low = NR_REGISTER;
    else return -1;
    return 0;
}

int main(int argc, char **argv) {
    unsigned low, high, action;
    if (argc < 4 || range_of(argv[1], &low, &high) != 0 || action_of(argv[2], &action) != 0) {
        fprintf(stderr, "usage: deny_uring setup|enter|register|all ERROR|KILL program arguments...\n");
        return 2;
    }
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, high, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("deny_uring: seccomp");
        return 1;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 1;
}
