// SPDX-License-Identifier: Apache-2.0
// passwd_command.c: see passwd_command.h. The file is written beside and renamed, so that a gateway that reads it, or
// a power cut, finds the old one or the new one whole. Passwords are asked for on the terminal without echo, or read
// from standard input; never from the command line, which other users can see.
#include "auth/passwd_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "auth/passwd_text.h"
#include "auth/policy.h"

#define CRYPT_ITERATIONS 5000u
#define SCRAM_ITERATIONS 4096u // RFC 7677 section 4
#define PASSWORD_BYTES 1024u

enum { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

static const char usage[] =
    "usage: sluice passwd [options] FILE USER\n"
    "       sluice passwd [options] --batch FILE\n"
    "\n"
    "Sets the password of a user in a password file (Mosquitto's format), or adds the user. The password is\n"
    "asked for without echo. The running gateway takes the file at its next reload (`sluice ctl reload`).\n"
    "\n"
    "  -c, --create      make the file; one that exists is not touched\n"
    "  -D, --delete      take the user out\n"
    "      --stdin       read the password from the first line of standard input\n"
    "      --batch       read lines USER:PASSWORD from standard input\n"
    "      --scram       write a SCRAM-SHA-256 line (for MQTT 5's enhanced authentication)\n"
    "      --both        write a $7$ and a SCRAM line\n"
    "  -I, --iterations N   of PBKDF2; default 5000 ($7$) and 4096 (SCRAM)\n"
    "\n"
    "Without --scram or --both a user keeps the kinds of lines it has; a new one gets a $7$ line.\n"
    "\n"
    "Exit status: 0 done; 1 it could not be done; 2 wrong command line.\n";

typedef struct options {
    const char *file, *user;
    bool create, remove, from_stdin, batch;
    u32 kinds; // 0: as they are
    u32 iterations;
} options;

static int wrong(const char *what, const char *argument) {
    fprintf(stderr, "sluice passwd: %s%s%s\n`sluice passwd --help` shows the options\n", what,
            argument != NULL ? " " : "", argument != NULL ? argument : "");
    return STATUS_USAGE;
}

static bool is(const char *argument, const char *brief, const char *name) {
    return strcmp(argument, brief) == 0 || strcmp(argument, name) == 0;
}

static int parse(int argc, char **argv, options *o) {
    *o = (options){0};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (is(a, "-c", "--create")) o->create = true;
        else if (is(a, "-D", "--delete")) o->remove = true;
        else if (strcmp(a, "--stdin") == 0) o->from_stdin = true;
        else if (strcmp(a, "--batch") == 0) o->batch = true;
        else if (strcmp(a, "--scram") == 0) o->kinds = PASSWD_SCRAM;
        else if (strcmp(a, "--both") == 0) o->kinds = PASSWD_CRYPT | PASSWD_SCRAM;
        else if (is(a, "-I", "--iterations")) {
            char *end = NULL;
            unsigned long n = ++i < argc ? strtoul(argv[i], &end, 10) : 0;
            if (n < 1 || n > LIMIT_AUTH_ITERATIONS_MAX || *end != '\0') return wrong("-I takes 1 to 10000000", NULL);
            o->iterations = (u32)n;
        } else if (a[0] == '-' && a[1] != '\0') return wrong("unknown option", a);
        else if (o->file == NULL) o->file = a;
        else if (o->user == NULL) o->user = a;
        else return wrong("unexpected argument", a);
    }
    if (o->file == NULL) return wrong("a file is missing", NULL);
    if ((o->user == NULL) != o->batch) return wrong(o->batch ? "--batch takes no user" : "a user is missing", NULL);
    if (o->remove && (o->create || o->batch || o->from_stdin || o->kinds != 0)) {
        return wrong("--delete stands alone", NULL);
    }
    const char *problem = o->user == NULL ? NULL : passwd_user_wrong(o->user);
    return problem != NULL ? wrong(problem, NULL) : STATUS_OK;
}

// --- passwords ---

// Reads a line without its end. False: none, too long, or with a zero byte.
static bool line_read(FILE *from, char out[PASSWORD_BYTES]) {
    if (fgets(out, PASSWORD_BYTES, from) == NULL) return false;
    size_t len = strlen(out);
    if (len == 0 || (out[len - 1] != '\n' && !feof(from))) return false;
    if (out[len - 1] == '\n') out[--len] = '\0';
    if (len > 0 && out[len - 1] == '\r') out[--len] = '\0';
    return true;
}

static bool ask(FILE *tty, const char *prompt, char out[PASSWORD_BYTES]) {
    struct termios was, quiet;
    int fd = fileno(tty);
    if (tcgetattr(fd, &was) < 0) return false;
    quiet = was;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    // Before the prompt: what is typed once it stands there is not flushed.
    if (tcsetattr(fd, TCSAFLUSH, &quiet) < 0) return false;
    fprintf(tty, "%s", prompt);
    fflush(tty);
    bool read = line_read(tty, out);
    tcsetattr(fd, TCSADRAIN, &was);
    fprintf(tty, "\n");
    return read;
}

static const char *password_read(const options *o, char out[PASSWORD_BYTES]) {
    static const char *const empty = "the password is empty";
    if (o->from_stdin) {
        if (!line_read(stdin, out)) return "no password on standard input, or one that is too long";
        return out[0] == '\0' ? empty : NULL;
    }
    FILE *tty = fopen("/dev/tty", "r+");
    if (tty == NULL) return "there is no terminal to ask on; --stdin reads the password from standard input";
    setvbuf(tty, NULL, _IONBF, 0);
    char again[PASSWORD_BYTES];
    const char *problem = NULL;
    if (!ask(tty, "Password: ", out) || !ask(tty, "Once more: ", again)) problem = "the password could not be read";
    else if (strcmp(out, again) != 0) problem = "the two passwords differ";
    else if (out[0] == '\0') problem = empty;
    secret_wipe(again, sizeof(again));
    fclose(tty);
    return problem;
}

// --- the file ---

static int file_failed(const char *path, const char *step) {
    fprintf(stderr, "sluice passwd: %s: %s: %s\n", path, step, errno_name(errno));
    return STATUS_FAILED;
}

static bool write_all(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

// A new file is its owner's only; one that is replaced keeps owner and mode.
static int file_write(const char *path, const char *text, size_t len) {
    char beside[4096];
    struct stat st;
    bool existed = stat(path, &st) == 0;
    if ((size_t)snprintf(beside, sizeof(beside), "%s.new", path) >= sizeof(beside)) {
        errno = ENAMETOOLONG;
        return file_failed(path, "write");
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
        fprintf(stderr, "sluice passwd: %s is there: another run writes, or was ended while it did; then remove it\n",
                beside);
        return STATUS_FAILED;
    }
    if (fd < 0) return file_failed(beside, "create");
    bool ok = write_all(fd, text, len);
    if (ok && existed) ok = fchown(fd, st.st_uid, st.st_gid) == 0 && fchmod(fd, st.st_mode & 07777) == 0;
    ok = ok && fsync(fd) == 0;
    int error = errno;
    close(fd);
    if (ok && rename(beside, path) == 0) return STATUS_OK;
    if (!ok) errno = error;
    int status = file_failed(path, "write");
    unlink(beside);
    return status;
}

static int file_read(const options *o, char **text, size_t *len) {
    char why[512];
    if (o->create) {
        if (access(o->file, F_OK) == 0) {
            fprintf(stderr, "sluice passwd: %s: exists; without -c its users are kept\n", o->file);
            return STATUS_FAILED;
        }
        *text = calloc(1, 1);
        *len = 0;
        return *text == NULL ? STATUS_FAILED : STATUS_OK;
    }
    if (auth_file_read(o->file, text, len, why, sizeof(why)) == 0) return STATUS_OK;
    fprintf(stderr, "sluice passwd: %s%s\n", why, access(o->file, F_OK) < 0 ? "; -c makes it" : "");
    return STATUS_FAILED;
}

// Sets one user's lines in the text, which is replaced. False: out of memory.
static bool user_set(const options *o, const char *user, const char *password, char **text, size_t *len) {
    char lines[2 * PASSWD_LINE_BYTES] = "";
    u32 kinds = o->kinds != 0 ? o->kinds : passwd_kinds(*text, *len, user);
    if (kinds == 0) kinds = PASSWD_CRYPT;
    for (u32 kind = PASSWD_CRYPT; kind <= PASSWD_SCRAM && password != NULL; kind <<= 1) {
        u8 salt[PASSWD_SALT_BYTES];
        if ((kinds & kind) == 0) continue;
        if (getrandom(salt, sizeof(salt), 0) != (ssize_t)sizeof(salt)) return false;
        u32 standard = kind == PASSWD_CRYPT ? CRYPT_ITERATIONS : SCRAM_ITERATIONS;
        passwd_line(kind, user, password, o->iterations != 0 ? o->iterations : standard, salt,
                    lines + strlen(lines));
    }
    char *set = passwd_replace(*text, *len, user, password == NULL ? NULL : lines, len);
    if (set == NULL) return false;
    free(*text);
    *text = set;
    return true;
}

static int out_of_memory(void) {
    fprintf(stderr, "sluice passwd: out of memory\n");
    return STATUS_FAILED;
}

static int batch_set(const options *o, char **text, size_t *len) {
    char line[PASSWORD_BYTES];
    u32 number = 0;
    int status = STATUS_OK;
    for (; status == STATUS_OK && line_read(stdin, line); number++) {
        char *colon = strchr(line, ':');
        if (colon != NULL) *colon = '\0';
        const char *problem = colon == NULL ? "not of the form USER:PASSWORD" : passwd_user_wrong(line);
        if (problem == NULL && colon[1] == '\0') problem = "the password is empty";
        if (problem != NULL) {
            fprintf(stderr, "sluice passwd: line %u: %s\n", number + 1, problem);
            status = STATUS_FAILED;
        } else if (!user_set(o, line, colon + 1, text, len)) {
            status = out_of_memory();
        }
    }
    secret_wipe(line, sizeof(line));
    if (status == STATUS_OK && !feof(stdin)) {
        fprintf(stderr, "sluice passwd: line %u: too long\n", number + 1);
        status = STATUS_FAILED;
    }
    return status;
}

static int user_change(const options *o, char **text, size_t *len) {
    char password[PASSWORD_BYTES];
    if (o->remove) {
        if (passwd_kinds(*text, *len, o->user) == 0) {
            fprintf(stderr, "sluice passwd: %s: there is no user %s\n", o->file, o->user);
            return STATUS_FAILED;
        }
        return user_set(o, o->user, NULL, text, len) ? STATUS_OK : out_of_memory();
    }
    const char *problem = password_read(o, password);
    int status = STATUS_OK;
    if (problem != NULL) {
        fprintf(stderr, "sluice passwd: %s\n", problem);
        status = STATUS_FAILED;
    } else if (!user_set(o, o->user, password, text, len)) {
        status = out_of_memory();
    }
    secret_wipe(password, sizeof(password));
    return status;
}

int passwd_main(int argc, char **argv) {
    options o;
    if (argc > 1 && is(argv[1], "-h", "--help")) {
        fputs(usage, stdout);
        return STATUS_OK;
    }
    int status = parse(argc, argv, &o);
    if (status != STATUS_OK) return status;
    char *text = NULL;
    size_t len = 0;
    status = file_read(&o, &text, &len);
    if (status != STATUS_OK) return status;
    status = o.batch ? batch_set(&o, &text, &len) : user_change(&o, &text, &len);
    if (status == STATUS_OK) status = file_write(o.file, text, len);
    free(text);
    return status;
}
