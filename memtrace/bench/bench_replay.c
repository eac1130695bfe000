/* bench_replay.c - measures how fast real traces are written and read.
 *
 * usage: bench_replay [-b BATCH] [-l LEVEL] TRACE...
 *
 * Each trace is read into memory, written again in batches, as the collector does, and read back. A trace does not
 * contain foreign accesses, so their time is not measured; real batches have some. Definitions are written without
 * names, which changes only the size. Nothing is checked.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/memtrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char path[] = "/tmp/bench_replay.XXXXXX";

/* A trace in memory: accesses, and the other events with the number of accesses before each. */
struct trace {
    uint32_t *sites;
    uint64_t *addrs;
    struct mt_event *others;
    size_t *before;
    size_t accesses, access_capacity, count, capacity;
    struct mt_reader *reader; /* for definitions */
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_replay: %s\n", what);
    exit(1);
}

static void *grow(void *p, size_t size)
{
    p = realloc(p, size);
    if (!p)
        fail("out of memory");
    return p;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void keep(struct trace *t, const struct mt_event *ev)
{
    bool access = ev->kind >= MT_LOAD && ev->kind <= MT_MODIFY && !ev->kernel;
    if (t->accesses == t->access_capacity) {
        t->access_capacity = t->access_capacity * 2 + 4096;
        t->sites = grow(t->sites, t->access_capacity * sizeof *t->sites);
        t->addrs = grow(t->addrs, t->access_capacity * sizeof *t->addrs);
    }
    if (t->count == t->capacity) {
        t->capacity = t->capacity * 2 + 4096;
        t->others = grow(t->others, t->capacity * sizeof *t->others);
        t->before = grow(t->before, t->capacity * sizeof *t->before);
    }
    if (access) {
        t->sites[t->accesses] = ev->ref;
        t->addrs[t->accesses++] = ev->addr;
    } else {
        t->before[t->count] = t->accesses;
        t->others[t->count++] = *ev;
    }
}

static void load(struct trace *t, const char *name)
{
    const struct mt_event *events;
    struct mt_error err;
    size_t n;
    *t = (struct trace){.reader = mt_open(name, 0, &err)};
    if (!t->reader)
        fail(err.text);
    int result;
    while ((result = mt_next(t->reader, &events, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++)
            keep(t, &events[i]);
    if (result == MT_ERROR)
        fail(mt_reader_error(t->reader)->text);
}

static void unload(struct trace *t)
{
    mt_close(t->reader);
    free(t->sites);
    free(t->addrs);
    free(t->others);
    free(t->before);
}

static void define(const struct trace *t, struct mt_writer *w)
{
    for (uint32_t i = 1; i < mt_count_sites(t->reader); i++) {
        struct mt_site s = *mt_site(t->reader, i);
        s.frame = 0;
        mt_writer_site(w, &s);
    }
    for (uint32_t i = 1; i < mt_count_stacks(t->reader); i++)
        mt_writer_stack(w, mt_stack(t->reader, i)->parent, mt_writer_frame(w, &(struct mt_frame){.ip = i}));
    for (uint32_t i = 1; i < mt_count_heaps(t->reader); i++)
        mt_writer_heap(w, mt_heap(t->reader, i));
}

static void write_other(struct mt_writer *w, const struct mt_event *ev)
{
    mt_writer_time(w, ev->time);
    mt_writer_thread(w, ev->thread);
    if (ev->kind == MT_NEW)
        mt_writer_block_new(w, ev->addr, ev->size, ev->heap, ev->how, ev->ref);
    else if (ev->kind == MT_FREE)
        mt_writer_block_free(w, ev->addr, ev->heap, ev->ref);
    else if (ev->kind == MT_RESIZE)
        mt_writer_block_resize(w, ev->old_addr, ev->addr, ev->size, ev->heap, MT_HOWS, ev->ref);
    else if (ev->kind <= MT_MODIFY)
        mt_writer_touch(w, ev->kind, ev->addr, ev->size);
}

static void write_events(const struct trace *t, struct mt_writer *w, size_t batch)
{
    size_t at = 0;
    for (size_t i = 0; i <= t->count; i++) {
        size_t end = i < t->count ? t->before[i] : t->accesses;
        for (; at < end; at += batch < end - at ? batch : end - at)
            mt_writer_accesses(w, t->sites + at, t->addrs + at, batch < end - at ? batch : end - at);
        if (i < t->count)
            write_other(w, &t->others[i]);
    }
}

static double write_trace(const struct trace *t, size_t batch, const struct mt_writer_options *options,
                          uint64_t *bytes)
{
    FILE *file = fopen(path, "wb");
    struct mt_error err;
    struct mt_writer *w = file ? mt_writer_new(fileno(file), options, &err) : NULL;
    if (!w)
        fail("cannot write to /tmp");
    define(t, w);
    mt_writer_flush(w);
    uint64_t definitions = mt_writer_bytes(w);
    double start = seconds();
    write_events(t, w, batch);
    mt_writer_flush(w);
    double time = seconds() - start;
    *bytes = mt_writer_bytes(w) - definitions;
    if (mt_writer_finish(w, MT_ENDING_EXIT, &err) != MT_OK)
        fail(err.text);
    fclose(file);
    return time;
}

static double read_trace(void)
{
    struct mt_error err;
    const struct mt_event *events;
    size_t n;
    uint64_t sum = 0;
    int result;
    double start = seconds();
    struct mt_reader *r = mt_open(path, 0, &err);
    if (!r)
        fail(err.text);
    while ((result = mt_next(r, &events, &n)) == MT_MORE)
        sum += events[n - 1].addr;
    if (result == MT_ERROR)
        fail(mt_reader_error(r)->text);
    mt_close(r);
    (void)*(volatile uint64_t *)&sum;
    return seconds() - start;
}

static void run(const char *name, size_t batch, const struct mt_writer_options *options)
{
    struct trace t;
    uint64_t bytes = 0;
    load(&t, name);
    double events = (double)(t.accesses + t.count), write_best = 1e9, read_best = 1e9;
    for (int i = 0; i < 3; i++) {
        double write_time = write_trace(&t, batch, options, &bytes), read_time = read_trace();
        write_best = write_time < write_best ? write_time : write_best;
        read_best = read_time < read_best ? read_time : read_best;
    }
    const char *slash = strrchr(name, '/');
    printf("%-20s %9.2f %8.2f %9.2f %9.1f %12.3f\n", slash ? slash + 1 : name, events * 1e-6,
           100 * (double)t.count / events, write_best * 1e9 / events, events / read_best * 1e-6,
           (double)bytes / events);
    fflush(stdout);
    unload(&t);
}

int main(int argc, char **argv)
{
    struct mt_writer_options options = {0};
    size_t batch = 8;
    int c;
    while ((c = getopt(argc, argv, "b:l:")) != -1) {
        if (c == 'b')
            batch = strtoull(optarg, NULL, 10);
        if (c == 'l')
            options.level = atoi(optarg);
        if (c == '?')
            return 2;
    }
    if (optind == argc || batch == 0) {
        fprintf(stderr, "usage: bench_replay [-b BATCH] [-l LEVEL] TRACE...\n");
        return 2;
    }
    int fd = mkstemp(path);
    if (fd < 0)
        fail("cannot make a file in /tmp");
    close(fd);
    printf("%-20s %9s %8s %9s %9s %12s\n", "trace", "M events", "% rare", "write ns", "read M/s",
           "bytes/event");
    for (; optind < argc; optind++)
        run(argv[optind], batch, &options);
    unlink(path);
    return 0;
}
