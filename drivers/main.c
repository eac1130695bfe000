/* main.c - steve-replay: replays ops files on real allocators.
 *
 * The program is also its own worker: it starts itself again for every run of a driver (worker.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/commands/commands.h"
#include "drivers/supervisor/supervise.h"
#include "drivers/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(const struct options *o)
{
    switch (o->command) {
    case COMMAND_LIST:
        return command_list(o);
    case COMMAND_PEAKMEM:
        return command_peakmem(o);
    case COMMAND_ALLOCSTATS:
        return o->legacy ? command_legacy_allocstats(o) : command_allocstats(o);
    case COMMAND_MEASURE:
        return command_measure(o);
    case COMMAND_CHECK:
        return command_check(o);
    case COMMAND_PLACES:
        return command_places(o);
    case COMMAND_MIN_HEAP:
        return command_min_heap(o);
    case COMMAND_SYSTEM:
        return command_system(o);
    case COMMAND_RUN:
        return command_run(o);
    default:
        return command_memplot(o);
    }
}

/* If a standard stream is closed, open /dev/null in its place. Otherwise the next file opened would get its
 * number, and output for the stream would go into that file. It is opened so that reading or writing fails as
 * before. */
static void occupy_standard_streams(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            abort();
}

int main(int argc, char **argv)
{
    struct options o;
    occupy_standard_streams();
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main();
    int status = options_read(&o, argc, argv);
    if (status == OPTIONS_GOOD) {
        signal(SIGPIPE, SIG_IGN);
        supervise_prepare();
        status = run(&o);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "steve-replay: standard output cannot be written\n");
        return EXIT_BAD;
    }
    return status;
}
