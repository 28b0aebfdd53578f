// SPDX-License-Identifier: Apache-2.0
// help.c: the pages of `sluice help`: usage, what it does, options, exit status. Kept short and
// exact; the reference of the configuration is docs/configuration.md.
#include "help.h"

#include <string.h>

#include "base/base.h"

const char help_head[] =
    "Sluice: a gateway for many long device connections, in one static binary.\n"
    "\n"
    "usage: sluice COMMAND [options]\n"
    "\n";

const char help_tail[] = "\n"
                         "`sluice help COMMAND` shows the options and exit statuses of a command.\n"
                         "`sluice run` with nothing else starts on defaults: MQTT on 127.0.0.1:1883, framed "
                         "devices on\n"
                         "127.0.0.1:7000, metrics on 127.0.0.1:9600, data in ./sluice-data.\n";

static const struct {
    const char *command;
    const char *text;
} pages[] = {
    {"run",
     "usage: sluice run [-c FILE] [--engine ENGINE] [--workers N]\n"
     "\n"
     "Runs the gateway in the foreground.\n"
     "\n"
     "  -c FILE           the configuration; without it the defaults (`sluice check --print`)\n"
     "  --engine ENGINE   auto, uring, epoll-et, epoll-lt, poll or select; overrides `engine`\n"
     "  --workers N       worker threads, 1 to 64; overrides `workers`\n"
     "\n"
     "Signals: SIGTERM and SIGINT stop accepting, send what is queued (at most `drain_timeout`) "
     "and\n"
     "end; a second one ends at once. SIGHUP reads the file again: connected clients stay, and a "
     "file\n"
     "with a mistake changes nothing. SIGUSR1 opens the log file anew.\n"
     "\n"
     "Exit status: 0 stopped in order; 1 could not start, or a worker failed; 2 wrong command line "
     "or\n"
     "configuration; 70 out of memory at start.\n"},
    {"check", "usage: sluice check [-c FILE] [--print]\n"
              "\n"
              "Reads a configuration as `sluice run` would, without starting anything, and reports "
              "every mistake with\n"
              "its line, what is wrong and what is allowed.\n"
              "\n"
              "  -c FILE   the file; without it the defaults are looked at\n"
              "  --print   also prints all settings in force, as a configuration file (tokens are "
              "not shown)\n"
              "\n"
              "Exit status: 0 the file is good, 2 it is not, it can not be read, or the command "
              "line is wrong.\n"},
    {"version", "usage: sluice version\n"
                "\n"
                "Prints version, commit, C library and the I/O engines this binary has. Which of "
                "them this machine\n"
                "allows is what `sluice probe` says.\n"
                "\n"
                "Exit status: 0.\n"},
    {"probe",
     "usage: sluice probe\n"
     "\n"
     "Tries io_uring end to end as the gateway would use it, and prints which engine `engine = "
     "auto`\n"
     "takes on this machine, the cause, and what to change where io_uring can not be used.\n"
     "\n"
     "Exit status: 0 io_uring works; 1 auto falls back to epoll-et; 2 wrong command line; 3 "
     "something\n"
     "is wrong that is not just a missing feature.\n"},
    {"help", "usage: sluice help [COMMAND]\n"
             "\n"
             "Lists the commands, or shows the page of one.\n"
             "\n"
             "Exit status: 0, or 2 for an unknown command.\n"},
};

const char *help_text(const char *command) {
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        if (strcmp(pages[i].command, command) == 0) return pages[i].text;
    }
    return NULL;
}
