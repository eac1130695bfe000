/* resident.c - resident memory of another process, sampled while it runs.
 *
 * Nothing of the process is stopped or changed: the kernel counts its pages anyway.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/resident.h"
#include "drivers/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_PROCESSES = 256 };

static uint64_t resident_pages(pid_t process)
{
    char path[32];
    unsigned long long size, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &pages) != 2)
        pages = 0;
    fclose(f);
    return pages;
}

/* Append the children of a process. Returns the new number. */
static size_t add_children(pid_t process, pid_t *to, size_t n)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *f = fopen(path, "re"); /* some kernels do not have it: then there is only the process itself */
    while (f && n < MOST_PROCESSES && fscanf(f, "%d", &child) == 1)
        to[n++] = child;
    if (f)
        fclose(f);
    return n;
}

static void add(struct resident_samples *s, pid_t process, uint64_t bytes)
{
    const uint64_t now = clock_wall();
    const double passed = s->at ? (double)(now - s->at) : RESIDENT_EVERY_MS * 1e6;
    s->sum += (double)bytes * passed;
    s->time += passed;
    s->at = now;
    if (bytes > s->most) {
        s->most = bytes;
        s->process = process;
    }
    if (process != s->process)
        return;
    s->before = s->last;
    s->last = bytes;
}

void resident_look(struct resident_samples *s, pid_t process, bool tree)
{
    pid_t all[MOST_PROCESSES] = {process}, largest = 0;
    size_t n = 1;
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t pages = resident_pages(all[i]);
        if (pages > most) {
            most = pages;
            largest = all[i];
        }
        if (tree)
            n = add_children(all[i], all, n);
    }
    if (most)
        add(s, largest, most * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t resident_mean(const struct resident_samples *s)
{
    return s->time > 0 ? (uint64_t)(s->sum / s->time) : 0;
}

uint64_t resident_end(const struct resident_samples *s)
{
    return s->last > s->before ? s->last : s->before;
}
