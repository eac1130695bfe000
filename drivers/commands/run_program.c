/* run_program.c - steve-replay --run PROGRAM [ARGUMENT...]: run a program and measure the memory and CPU time that it
 * takes.
 *
 * The kernel counts the memory that a process had before exec as its own. This process is small, so what it measures
 * is the program, which would not be so if steve, a Python program, started it.
 *
 * The peak and the CPU time are the kernel's. The mean and what is resident at the end are those of samples, of the process
 * that has most, if the program has several.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"
#include "drivers/base/outfile.h"
#include "drivers/base/resident.h"
#include "drivers/commands/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* Wait for the end of the process, and sample its memory meanwhile. Returns false if that is not possible. */
static bool await_program(pid_t child, int *status, struct rusage *u, struct resident_samples *samples)
{
    const int process = (int)syscall(SYS_pidfd_open, child, 0);
    pid_t ended;
    while ((ended = wait4(child, status, WNOHANG, u)) == 0) {
        struct pollfd p = {.fd = process, .events = POLLIN};
        resident_look(samples, child, true);
        poll(&p, 1, RESIDENT_EVERY_MS);
    }
    if (process >= 0)
        close(process);
    return ended == child;
}

int command_run(const struct options *o)
{
    struct resident_samples samples = {0};
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
    if (child < 0 || !await_program(child, &status, &u, &samples)) {
        fprintf(stderr, "steve-replay: %s: cannot be started: %s\n", o->words[0], strerror(errno));
        fclose(out);
        return EXIT_BAD;
    }
    fprintf(out,
            "{\"status\": %d, \"peak_resident\": %" PRIu64 ", \"user_ns\": %" PRIu64
            ", \"system_ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64 ", \"page_faults\": %ld",
            WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), (uint64_t)u.ru_maxrss * 1024,
            nanoseconds(u.ru_utime), nanoseconds(u.ru_stime), clock_wall() - from, u.ru_minflt);
    if (samples.at)
        fprintf(out, ", \"mean_resident\": %" PRIu64 ", \"end_resident\": %" PRIu64 "}\n",
                resident_mean(&samples), resident_end(&samples));
    else
        fprintf(out, ", \"mean_resident\": null, \"end_resident\": null}\n");
    return fclose(out) == 0 ? EXIT_DONE : EXIT_BAD;
}
