/* busiest.c - an example of a reader in C: the functions that allocate most bytes in a memtrace.
 *
 *     cc -o busiest busiest.c $(pkg-config --cflags --libs memtrace)
 *     ./busiest app.ljt
 *
 * It prints the ten functions with most bytes, of those that call the allocator, and what is alive at the end. A
 * resize counts as an allocation of the new size. busiest.py does the same in Python.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <memtrace/memtrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sum {
    const char *function;
    uint64_t bytes, count;
};
struct sums {
    struct sum *list;
    size_t n;
};

/* The innermost frame of a stack that has a name. The string is the reader's, and lives until mt_close. */
static const char *function_of(const struct mt_reader *r, uint32_t id)
{
    while (id != 0) {
        const struct mt_stack *stack = mt_stack(r, id);
        const struct mt_frame *frame = stack ? mt_frame(r, stack->frame) : NULL;
        if (frame && frame->function)
            return mt_string(r, frame->function);
        id = stack ? stack->parent : 0;
    }
    return "(unknown)";
}

static void add(struct sums *sums, const char *function, uint64_t bytes)
{
    size_t i = 0;
    while (i < sums->n && strcmp(sums->list[i].function, function) != 0)
        i++;
    if (i == sums->n) {
        sums->list = realloc(sums->list, (sums->n + 1) * sizeof *sums->list);
        if (!sums->list)
            abort();
        sums->list[sums->n++] = (struct sum){.function = function};
    }
    sums->list[i].bytes += bytes;
    sums->list[i].count++;
}

static int by_bytes(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->function, y->function);
}

int main(int argc, char **argv)
{
    struct mt_error error;
    struct mt_reader *r = argc == 2 ? mt_open(argv[1], MT_OPEN_DEFAULT, &error) : NULL;
    if (!r) {
        fprintf(stderr, "busiest: %s\n", argc == 2 ? error.text : "usage: busiest FILE");
        return argc == 2 ? 1 : 2;
    }
    mt_pass_accesses(r); /* loads and stores are not needed, and reading is faster without them */
    struct sums sums = {0};
    uint64_t live = 0;
    const struct mt_event *events;
    size_t n;
    int result;
    while ((result = mt_next(r, &events, &n)) == MT_MORE) {
        for (const struct mt_event *e = events; e < events + n; e++) {
            if (e->kind == MT_NEW || e->kind == MT_RESIZE)
                add(&sums, function_of(r, e->ref), e->size);
            if (e->kind == MT_NEW)
                live += e->size;
            else if (e->kind == MT_RESIZE)
                live += e->size - e->old_size;
            else if (e->kind == MT_FREE)
                live -= e->size;
        }
    }
    qsort(sums.list, sums.n, sizeof *sums.list, by_bytes);
    for (size_t i = 0; i < sums.n && i < 10; i++)
        printf("%12" PRIu64 " bytes %9" PRIu64 " times  %s\n", sums.list[i].bytes, sums.list[i].count,
               sums.list[i].function);
    printf("%12" PRIu64 " bytes live at the end\n", live);
    if (result == MT_ERROR) /* what was read up to there is right */
        fprintf(stderr, "busiest: %s: %s\n", argv[1], mt_reader_error(r)->text);
    free(sums.list);
    mt_close(r);
    return result == MT_ERROR;
}
