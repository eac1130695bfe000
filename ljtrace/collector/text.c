/* text.c - read a memtrace that is being written, and print its events as classic text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Classic text is what the old patched tools wrote. It is for users who want to watch the events or have
 * scripts for this form. It has no stacks and no threads, and takes 100 times the bytes. `steve memtrace`
 * makes the same text from a memtrace file.
 */
#define _GNU_SOURCE
#include "ljtrace/collector/text.h"
#include "memtrace/memtrace.h"
#include <inttypes.h>
#include <stdio.h>

static void line(FILE *out, char letter, uint64_t addr, uint64_t size)
{
    fprintf(out, ">>> %c %" PRIu64 " %" PRIu64 "\n", letter, addr, size);
}

static void write_event(FILE *out, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        line(out, mt_kind_letter(e->kind), e->addr, e->size);
        break;
    case MT_FREE:
        line(out, 'F', e->addr, 0);
        break;
    case MT_RESIZE:
        line(out, 'F', e->old_addr, 0);
        line(out, 'N', e->addr, e->size);
        break;
    default: /* classic text has no other events */
        break;
    }
}

static int write_all(struct mt_reader *r, FILE *out)
{
    const struct mt_event *events;
    size_t n;
    int result;
    while ((result = mt_next(r, &events, &n)) == MT_MORE) {
        for (size_t i = 0; i < n; i++)
            write_event(out, &events[i]);
        if (fflush(out) != 0)
            return 1;
    }
    return result == MT_END ? 0 : 1;
}

int text_write(int in, int out, const char *process)
{
    char path[40];
    struct mt_error err;
    snprintf(path, sizeof path, "/proc/self/fd/%d", in);
    FILE *f = fdopen(out, "w");
    struct mt_reader *r = mt_open(path, MT_OPEN_DEFAULT, &err);
    if (!f || !r)
        return 1;
    fprintf(f, TEXT_FIRST_LINE, process);
    int status = write_all(r, f);
    mt_close(r);
    return fclose(f) != 0 || status;
}
