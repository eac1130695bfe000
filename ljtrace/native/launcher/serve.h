/* serve.h - profiles of the running program: `ljtrace run` and `ljtrace attach` start `steve serve` for them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_SERVE_H
#define LJTRACE_NATIVE_LAUNCHER_SERVE_H

#include "ljtrace/native/launcher/launcher.h"

/* The options; NULL and 0 are not set. */
struct serve {
    const char *http;
    uint64_t every, high_water; /* bytes */
    int signal;
    pid_t process; /* 0 = it was not started */
};

/* Their entries in the table for getopt_long, each with the value `value`, and the lines of the help text. */
#define SERVE_OPTIONS(value)                                                                                 \
    {"http", required_argument, NULL, value}, {"dump-every", required_argument, NULL, value},                \
        {"dump-high-water", required_argument, NULL, value},                                                 \
    {                                                                                                        \
        "dump-signal", required_argument, NULL, value                                                        \
    }
#define SERVE_HELP                                                                                           \
    "  --http=PORT        serve profiles for pprof on 127.0.0.1:PORT, or on ADDRESS:PORT; port 0 is\n"       \
    "                     any free one: go tool pprof http://127.0.0.1:PORT/debug/pprof/heap\n"              \
    "  --dump-every=SIZE  write a profile of the heap, FILE.0001.pb.gz and so on, after each SIZE\n"         \
    "                     bytes allocated\n"                                                                 \
    "  --dump-high-water=SIZE  write one when SIZE bytes more are in use than at the last of these\n"        \
    "  --dump-signal=SIG  write one when this command gets the signal SIG: USR1, USR2 or HUP\n"

/* Is it one of these options? Then store its value; *wrong is what is wrong with it, NULL = nothing. */
bool serve_option(struct serve *s, const char *name, const char *value, const char **wrong);
/* Start `steve serve`, if an option asks for it, and wait until it answers. The collector has opened its output. Returns
 * false, after a message, if it cannot be started. */
bool serve_start(struct serve *s, const struct launcher *l);
/* Is this the signal for a dump? Then request it. */
bool serve_signalled(const struct serve *s, int signal);
/* The recording has ended: wait until the dumps are complete. */
void serve_end(struct serve *s);

#endif
