/* run_program.c - steve-replay --run PROGRAM [ARGUMENT...]: run a program and measure the memory and CPU time that it
 * takes.
 *
 * The kernel counts the memory that a process had before exec as its own. This process is small, so what it measures
 * is the program, which would not be so if steve, a Python program, started it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"
#include "drivers/base/outfile.h"
#include "drivers/commands/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t nanoseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* The allocator is in STEVE_PRELOAD, so that this process does not use it. */
static void start_program(char **words)
{
    const char *preload = getenv("STEVE_PRELOAD");
    if (preload && *preload)
        setenv("LD_PRELOAD", preload, 1);
    unsetenv("STEVE_PRELOAD");
    execvp(words[0], words);
    fprintf(stderr, "steve-replay: %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

int command_run(const struct options *o)
{
    struct rusage u;
    static const char *const inputs[] = {NULL};
    struct outfile file;
    int status = outfile_resolve(&file, o->output, inputs, o->force ? OUTFILE_ANY : OUTFILE_USAGE);
    if (status != EXIT_CONTINUE)
        return status;
    FILE *out = fopen(o->output, "w");
    if (!out) {
        fprintf(stderr, "steve-replay: %s: %s\n", o->output, strerror(errno));
        return EXIT_BAD;
    }
    uint64_t from = clock_wall();
    pid_t child = fork();
    if (child == 0)
        start_program(o->words);
    if (child < 0 || wait4(child, &status, 0, &u) != child) {
        fprintf(stderr, "steve-replay: %s: cannot be started: %s\n", o->words[0], strerror(errno));
        fclose(out);
        return EXIT_BAD;
    }
    fprintf(out,
            "{\"status\": %d, \"peak_resident\": %" PRIu64 ", \"user_ns\": %" PRIu64 ", \"system_ns\": %" PRIu64
            ", \"wall_ns\": %" PRIu64 ", \"page_faults\": %ld}\n",
            WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), (uint64_t)u.ru_maxrss * 1024,
            nanoseconds(u.ru_utime), nanoseconds(u.ru_stime), clock_wall() - from, u.ru_minflt);
    return fclose(out) == 0 ? EXIT_DONE : EXIT_BAD;
}
