/* main.c - steve-replay: replay ops files on real allocators.
 *
 * The program is also its own worker: it starts itself anew for every run of a driver (worker.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/modes.h"
#include "drivers/supervise.h"
#include "drivers/worker.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int run(const struct options *o)
{
    switch (o->mode) {
    case MODE_LIST:
        return mode_list(o);
    case MODE_PEAKMEM:
        return mode_peakmem(o);
    case MODE_ALLOCSTATS:
        return o->documented ? mode_documented(o) : mode_allocstats(o);
    case MODE_MIN_HEAP:
        return mode_min_heap(o);
    default:
        return mode_memplot(o);
    }
}

int main(int argc, char **argv)
{
    struct options o;
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main();
    int status = options_read(&o, argc, argv);
    if (status != -1)
        return status;
    signal(SIGPIPE, SIG_IGN);
    supervise_prepare();
    status = run(&o);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "steve-replay: standard output cannot be written\n");
        return EXIT_BAD;
    }
    return status;
}
