/* ending.c - how a recording has ended; see ending.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's tool writes an END record last, and how the program has ended into the header. The native library writes one
 * only if the program goes on. Else its launcher knows the status of the program, if that is its child; other processes
 * have announced their exit, or were killed by a signal.
 */
#define _GNU_SOURCE
#include "ljtrace/collector/ending.h"
#include "ljtrace/protocol/ring.h"

#include <stddef.h>
#include <sys/wait.h>

/* A wrapper such as env executes the program that the user means; a server may execute itself. */
static const char s_exec[] =
    "the program has executed another one (exec), which is not recorded: the trace ends there. Record that "
    "program itself, and give wrappers first: env VARIABLE=x ljtrace run PROGRAM. For a program that "
    "executes "
    "itself: `ljtrace attach PID` after that, or valgrind --tool=ljtrace --trace-children=yes";

/* Is the status of the program known? Store it, as waitpid has it. */
static bool has_status(const struct ending_known *k, int *status)
{
    *status = k->ended == RING_EXITED ? k->status : W_EXITCODE((int)(k->exiting & 0xff), 0);
    return k->ended == RING_EXITED || (k->ended == RING_RUNS && k->exiting);
}

/* The ending if the file has no limit. */
static enum mt_ending unlimited(const struct ending_known *k, bool has_status, int status)
{
    if (k->ended == RING_LEFT)
        return MT_ENDING_DETACHED;
    if (k->has_end || k->said == MT_ENDING_EXEC)
        return k->said;
    if (k->ended == RING_OVER)
        return MT_ENDING_UNKNOWN;
    if (!has_status)
        return k->said;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? MT_ENDING_KILLED : MT_ENDING_EXIT;
}

struct ending ending_of(const struct ending_known *k)
{
    int status;
    const bool known = has_status(k, &status);
    struct ending e = {.ending = unlimited(k, known, status)};
    if (known && (e.ending == MT_ENDING_EXIT || e.ending == MT_ENDING_KILLED)) {
        e.fact = WIFEXITED(status) ? "exit_status" : "signal";
        e.value = (uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    if (k->dropped)
        e.ending = MT_ENDING_LIMIT;
    if (k->native && !k->forked && e.ending == MT_ENDING_EXEC)
        e.note = s_exec;
    if (k->draft && e.ending == MT_ENDING_EXEC)
        e.file = ENDING_DISCARD;
    else if (k->native && !k->begun)
        e.file = ENDING_REMOVE;
    return e;
}
