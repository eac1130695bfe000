/* unwind_preload.c - a library to preload into any program: it compares stacks of allocations with libgcc's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Every UNWIND_EVERY-th malloc of a thread (100, or what the environment says) is compared. At the end of the program a
 * line with the sums is written to the file that UNWIND_REPORT names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ljtrace/test/unwind_check.h"

void *__libc_malloc(size_t size);

static _Atomic unsigned long s_compared, s_wrong, s_frames;
static unsigned long s_every; /* 0: not begun, or ended */
static char s_first[2000];    /* the first difference */
static __thread unsigned long t_count;
static __thread int t_inside;

static void describe(const uint64_t *ips, uint32_t n, int difference)
{
    Dl_info info = {0};
    if (difference > 0 && (uint32_t)difference <= n)
        dladdr((void *)(uintptr_t)ips[difference - 1], &info);
    snprintf(s_first, sizeof s_first, "frame %d of %u differs, called by %s of %s", difference, n,
             info.dli_sname ? info.dli_sname : "?", info.dli_fname ? info.dli_fname : "?");
}

static __attribute__((noinline)) void compare(void)
{
    uint64_t ips[CHECK_DEPTH + 1], sps[CHECK_DEPTH + 1];
    uint32_t n;
    const int difference = unwind_difference(ips, sps, &n);
    s_frames += n;
    s_compared++;
    if (difference >= 0 && s_wrong++ == 0)
        describe(ips, n, difference);
}

void *malloc(size_t size)
{
    if (s_every && !t_inside && ++t_count % s_every == 0) {
        t_inside = 1;
        compare();
        t_inside = 0;
    }
    return __libc_malloc(size);
}

static __attribute__((constructor)) void begin(void)
{
    void *first[1];
    const char *every = getenv("UNWIND_EVERY");
    backtrace(first, 1); /* loads libgcc */
    s_every = every ? strtoul(every, NULL, 10) : 100;
}

static __attribute__((destructor)) void end(void)
{
    const char *path = getenv("UNWIND_REPORT");
    char line[3000];
    s_every = 0;
    const int n = snprintf(line, sizeof line, "%lu compared, %lu wrong, %lu frames: %s\n", s_compared,
                           s_wrong, s_frames, s_wrong ? s_first : "all the same");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(97);
    close(fd);
}
