// SPDX-License-Identifier: Apache-2.0
// main.c: one binary, several commands: finds the command and calls its module. A command's main
// gets the rest of the line with its own name as argv[0] and returns the exit status. Invariant:
// output that could not be written (a full disk, a closed pipe) is not reported as success.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/passwd_command.h"
#include "base/base.h"
#include "bench/bench.h"
#include "bench/tune.h"
#include "client/pub.h"
#include "client/sub.h"
#include "conf/check_command.h"
#include "conf/suggest.h"
#include "gateway.h"
#include "help.h"
#include "import/import.h"
#include "init/init.h"
#include "io/io.h"
#include "io/probe.h"
#include "ops/ctl.h"
#include "store/log_command.h"
#include "version.h"

#define STATUS_OK 0
#define STATUS_FAILED 1
#define STATUS_USAGE 2

static int version_main(int argc, char **argv);
static int help_main(int argc, char **argv);

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"run", gateway_main, "run the gateway"},
    {"check", check_main, "check a configuration file and print what is in force"},
    {"probe", probe_main, "which I/O engine this machine allows, and why"},
    {"tune", tune_main, "measure a load of yours on every engine and recommend one"},
    {"bench", bench_main, "generate load and measure latency, CPU and memory"},
    {"ctl", ctl_main, "look into a running gateway and steer it"},
    {"pub", client_pub_main, "publish MQTT messages to any broker"},
    {"sub", client_sub_main, "subscribe at any MQTT broker and print what comes"},
    {"log", log_command_main, "verify, dump or repair the durable log of a data_dir"},
    {"init", init_main, "PID 1 of the appliance, and supervisor in a container"},
    {"passwd", passwd_main, "accounts of a password file"},
    {"import", import_main, "a mosquitto.conf as a configuration of this gateway"},
    {"version", version_main, "version, commit and engines of this binary"},
    {"help", help_main, "this list, or the page of one command"},
};

static const command *find_command(const char *name) {
    static const struct {
        const char *option, *command;
    } spellings[] = {
        {"--version", "version"}, {"-V", "version"}, {"--help", "help"}, {"-h", "help"}};
    for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
        if (strcmp(name, spellings[i].option) == 0) name = spellings[i].command;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    }
    return NULL;
}

static int unknown_command(const char *name) {
    const char *near = NULL;
    u32 best = UINT32_MAX;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        suggest_offer(name, strlen(name), commands[i].name, &best, &near);
    }
    fprintf(stderr, "sluice: unknown command '%s'", name);
    if (near != NULL) fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\n`sluice help` lists the commands\n");
    return STATUS_USAGE;
}

static int version_main(int argc, char **argv) {
    if (argc > 1) {
        fprintf(stderr, "sluice version: unexpected argument %s\nusage: sluice version\n", argv[1]);
        return STATUS_USAGE;
    }
#ifdef __GLIBC__
    const char *libc = "glibc, development build";
#else
    const char *libc = "musl static";
#endif
    printf("sluice %s (%s) %s, engines:", SLUICE_VERSION, SLUICE_COMMIT, libc);
    for (io_kind kind = IO_URING; kind < IO_SIM; kind++) {
        printf("%s %s", kind == IO_URING ? "" : ",", io_kind_name(kind));
    }
    printf("\n");
    return STATUS_OK;
}

static void print_commands(void) {
    fputs(help_head, stdout);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    }
    fputs(help_tail, stdout);
}

// The page of a command: its text, or what its module says to --help.
static int print_page(const command *c) {
    char name[16], option[] = "--help";
    char *argv[] = {name, option, NULL};
    const char *text = help_text(c->name);
    if (text != NULL) {
        fputs(text, stdout);
        return STATUS_OK;
    }
    snprintf(name, sizeof(name), "%s", c->name);
    return c->run(2, argv);
}

static int help_main(int argc, char **argv) {
    if (argc < 2) {
        print_commands();
        return STATUS_OK;
    }
    const command *c = find_command(argv[1]);
    if (c == NULL) return unknown_command(argv[1]);
    return print_page(c);
}

// Names under which the kernel and services of the appliance start this binary.
static const command by_file_name[] = {
    {"init", init_main, ""},
    {"poweroff", init_poweroff_main, ""},
    {"reboot", init_poweroff_main, ""},
};

static const command *find_by_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < ARRAY_LEN(by_file_name); i++) {
        if (strcmp(by_file_name[i].name, name) == 0) return &by_file_name[i];
    }
    return NULL;
}

static int dispatch(int argc, char **argv) {
    const command *named = argc > 0 ? find_by_file_name(argv[0]) : NULL;
    if (named != NULL) return named->run(argc, argv);
    if (argc < 2) {
        fprintf(stderr,
                "sluice: a command is missing; `sluice run` starts the gateway, `sluice help` "
                "lists the commands\n");
        return STATUS_USAGE;
    }
    const command *c = find_command(argv[1]);
    if (c == NULL) return unknown_command(argv[1]);
    bool asks_help = argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
    if (asks_help && help_text(c->name) != NULL) return print_page(c);
    return c->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    int status = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "sluice: the output could not be written: %s\n", strerror(errno));
        if (status == STATUS_OK) status = STATUS_FAILED;
    }
    return status;
}
