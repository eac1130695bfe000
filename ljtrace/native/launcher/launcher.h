/* launcher.h - what `ljtrace run` and `ljtrace attach` share: options, the ring, the collector and its messages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_LAUNCHER_H
#define LJTRACE_NATIVE_LAUNCHER_LAUNCHER_H

#include "ljtrace/protocol/ring.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The exit status of these commands if they fail themselves, as that of env and nohup. */
enum { LAUNCHER_FAILED = 125 };

/* The entries of the options of both commands in the table for getopt_long, each with the value `value`, and the lines
 * of the help text. */
#define LAUNCHER_OPTIONS(value)                                                                              \
    {"out", required_argument, NULL, value}, {"stack-depth", required_argument, NULL, value},                \
        {"compress", required_argument, NULL, value}, {"max-size", required_argument, NULL, value},          \
        {"alloc-prefix", required_argument, NULL, value}, {"pool-fn", required_argument, NULL, value},       \
        {"keep", required_argument, NULL, value}, {"when-full", required_argument, NULL, value},             \
        {"sample-stacks", required_argument, NULL, value}, {"sample", optional_argument, NULL, value},       \
        {"trace-fork", required_argument, NULL, value}, {"universe", optional_argument, NULL, value},        \
        {"pages", optional_argument, NULL, value}, {"pages-signal", required_argument, NULL, value},         \
    {                                                                                                        \
        "sample-seed", required_argument, NULL, value                                                        \
    }
#define LAUNCHER_HELP                                                                                        \
    "  --out=FILE         write the memtrace to FILE (ljtrace.%p.ljt); %p is the process id,\n"              \
    "                     %q{VAR} the value of an environment variable; - is standard output\n"              \
    "  --stack-depth=N    record at most N frames of a stack, 0 to 500 (200)\n"                              \
    "  --compress=N       zstd level of the file, 1 to 19 (1)\n"                                             \
    "  --max-size=SIZE    end the recording at this size of the file, such as 500m or 2g\n"                  \
    "  --keep=first|last  which part of a longer recording is kept at --max-size (first)\n"                  \
    "  --alloc-prefix=PREFIX  record PREFIXmalloc, PREFIXfree and their relatives, too, which an\n"          \
    "                     allocator in the program or a library has; can be repeated\n"                      \
    "  --pool-fn=NAME:WHAT[:ARGS]  record the blocks of pools: the function NAME does WHAT, which is\n"      \
    "                     make, alloc, resize, free, clear, end, move or name; or --pool-fn=apr, nginx,\n"   \
    "                     talloc or postgres: those of this library or program; can be repeated\n"           \
    "  --when-full=wait|drop  what the program does while the recorder cannot write as fast as it\n"         \
    "                     allocates: wait, or go on unrecorded; steve then says what is missing (wait)\n"    \
    "  --sample[=SIZE]    record a sample: of each SIZE bytes that are allocated, one on average\n"          \
    "                     selects its block (512k); steve then shows estimates\n"                            \
    "  --sample-stacks=TIME  record the stack of each thread after each TIME of its CPU time, such\n"        \
    "                     as 10ms\n"                                                                         \
    "  --pages[=TIME]     look at the pages of the process, for steve resident: at marks, when a\n"          \
    "                     tenth more memory is resident than before, when a quarter more time has\n"         \
    "                     passed, at the end, and each TIME, such as 1s for a server\n"                      \
    "  --pages-signal=SIG  look when this command gets the signal SIG: USR1, USR2 or HUP\n"                  \
    "  --sample-seed=N    select the same blocks in each run of a program that does the same\n"

/* The ring and the collector of a recording. */
struct launcher {
    const char *out; /* the file's name, with %p and %q */
    struct recording recording;
    struct ring_header *ring;
    int memfd, socket; /* socket: to the collector */
    pid_t collector;
    bool collector_ended;
    size_t problems_shown;     /* bytes of ring->problems */
    int pages_signal;          /* that asks for a look at the pages; 0 = none does */
    struct rlimit descriptors; /* the limit before it was raised, for the program */
    sigset_t usual;            /* signals that were blocked before, for the processes that are started */
};

/* A number of /proc/PID/FOLDERstatus, the last of its line; the folder may be empty, or "task/TID/". -1 = it does not say. */
long launcher_status(pid_t process, const char *folder, const char *name);

/* Write a message of the command. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Is the text a number from least to most? */
bool launcher_is_number(const char *text, long least, long most);
/* Convert a size with a suffix k, m or g to a number of bytes. Returns false if it is none, or less than `least`. */
bool launcher_size(const char *text, uint64_t least, uint64_t *bytes);
/* The values of options that are not given. */
void launcher_defaults(struct launcher *l);
/* What is wrong with the options together; NULL = nothing. */
const char *launcher_conflict(const struct launcher *l);
/* Store the value of one of LAUNCHER_OPTIONS. Returns what is wrong with it; NULL = nothing. */
const char *launcher_option(struct launcher *l, const char *name, const char *value);
/* The number of a signal that a command may get: USR1, USR2 or HUP; 0 = it is none of these. */
int launcher_signal(const char *name);
/* Is this the signal for a look at the pages? Then request it. */
bool launcher_signalled(const struct launcher *l, int signal);
/* The path of a file beside this program, where the collector and the library are. */
bool launcher_part(char *to, size_t room, const char *name);

/* Make sure that no descriptor of this process is 0, 1 or 2, which messages go to, and that it may open some more;
 * returns false, after a message, if not. And: in a process that will be the program, restore the limit. */
bool launcher_prepare(struct launcher *l);
void launcher_restore(const struct launcher *l);

/* Make the ring. process: one whose seccomp filters the program has; they permit the recorder's system calls. Returns false,
 * after a message, if that is not possible. */
bool launcher_make_ring(struct launcher *l, pid_t process);
/* The process of the recording is known: start the collector and wait until it has opened its output. Returns false, after
 * a message, if it cannot. */
bool launcher_start_collector(struct launcher *l);
/* Look whether the collector has ended, with WNOHANG, or wait for it. If it could, it has sent why. */
void launcher_reap(struct launcher *l, int how);
/* Say what is known of the end, and the status that waitpid has returned if the program has exited. */
void launcher_put_end(const struct launcher *l, enum ring_ended ended, int status);
/* Show what the collector sends until it ends, and what the library has reported. */
void launcher_show_messages(struct launcher *l);
/* Show what the library has reported since the last call. */
void launcher_show_problems(struct launcher *l);

#endif
