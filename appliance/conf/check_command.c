// SPDX-License-Identifier: Apache-2.0
// check_command.c: `sluice check [-c FILE] [--print]`. Mistakes go to stderr, one line each; the
// verdict and the configuration in force go to stdout. With --print the verdict is a comment, so
// that the output is itself a configuration file. --reference, which help does not show, prints
// docs/configuration.md.
#include "conf/check_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/policy.h"
#include "conf/config.h"
#include "net/tls_context.h"

#define STATUS_OK 0
#define STATUS_WRONG 2

typedef struct check_options {
    const char *file; // NULL = the defaults
    bool print, reference;
} check_options;

static int usage(const char *what, const char *argument) {
    fprintf(stderr, "sluice check: %s%s%s\nusage: sluice check [-c FILE] [--print]\n", what,
            argument != NULL ? " " : "", argument != NULL ? argument : "");
    return STATUS_WRONG;
}

// Takes FILE of "-c FILE", "--config FILE" and "--config=FILE"; *next is the argument behind the
// option.
static int take_file(check_options *o, const char *arg, int argc, char **argv, int *next) {
    const char *equals = strchr(arg, '='), *file = NULL;
    if (o->file != NULL) return usage("the file is given twice:", arg);
    if (equals != NULL) file = equals + 1;
    else if (*next < argc) file = argv[(*next)++];
    if (file == NULL || file[0] == '\0') return usage("a file is missing after", arg);
    o->file = file;
    return STATUS_OK;
}

static int parse_options(check_options *o, int argc, char **argv) {
    for (int i = 1; i < argc;) {
        const char *arg = argv[i++];
        bool is_file = strcmp(arg, "-c") == 0 || strcmp(arg, "--config") == 0 ||
                       strncmp(arg, "--config=", strlen("--config=")) == 0;
        if (is_file) {
            int rc = take_file(o, arg, argc, argv, &i);
            if (rc != STATUS_OK) return rc;
        } else if (strcmp(arg, "--print") == 0) {
            o->print = true;
        } else if (strcmp(arg, "--reference") == 0) {
            o->reference = true;
        } else if (arg[0] == '-') {
            return usage("unknown option", arg);
        } else {
            return usage("unexpected argument (a file is given with -c):", arg);
        }
    }
    return STATUS_OK;
}

static void print_config(const config *c) {
    char *text = malloc(CONFIG_PRINT_BYTES);
    if (text == NULL) base_out_of_memory("the printed configuration", CONFIG_PRINT_BYTES);
    ssize_t bytes = config_print(c, text, CONFIG_PRINT_BYTES);
    ASSERT(bytes >= 0);
    fwrite(text, 1, (size_t)bytes, stdout);
    free(text);
}

// What the configuration names and the start would read.
static int check_tls_files(const config *c) {
    char why[768];
    int status = STATUS_OK;
    for (u32 i = 0; i < c->listener_count; i++) {
        tls_context *context = NULL;
        if (c->listeners[i].tls.cert[0] == '\0') continue;
        if (tls_context_load(&c->listeners[i], false, &context, why, sizeof(why)) < 0) {
            fprintf(stderr, "%s: %s\n", c->source, why);
            status = STATUS_WRONG;
        }
        tls_context_drop(context);
    }
    return status;
}

int check_main(int argc, char **argv) {
    check_options o = {0};
    int status = parse_options(&o, argc, argv);
    if (status != STATUS_OK) return status;
    if (o.reference) {
        config_print_reference();
        return STATUS_OK;
    }
    config *c = malloc(sizeof(*c));
    config_error *error = malloc(sizeof(*error));
    if (c == NULL || error == NULL)
        base_out_of_memory("the configuration", sizeof(*c) + sizeof(*error));
    if (o.file == NULL) {
        config_defaults(c);
    } else if (config_load(o.file, c, error) != 0 || auth_policies_load(c, error) != 0) {
        fprintf(stderr, "%s\n", error->text);
        status = STATUS_WRONG;
    }
    bool loaded = status == STATUS_OK;
    if (loaded) status = check_tls_files(c);
    if (status == STATUS_OK) {
        printf("%s%s: ok\n", o.print ? "# " : "", c->source);
        if (o.print) print_config(c);
    }
    if (loaded) auth_policies_release(c);
    free(error);
    free(c);
    return status;
}
