/* bench_memtrace.c - measures speed and compression of the memtrace library.
 *
 * usage: bench_memtrace [EVENTS [PROGRAM]]      (default 20 million events, all programs)
 *
 * Prints for each program: events, nanoseconds per event to write (block map, encoding and zstd together) and to
 * read, stored bytes per event; then lines per second of classic text. Each is run once, so compare ratios on a quiet
 * machine. Nothing is checked; the tests do that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/bench/recorder.h"
#include "memtrace/memtrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char path[] = "/tmp/bench_memtrace.XXXXXX";

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const struct mt_error *err)
{
    fprintf(stderr, "bench_memtrace: %s\n", err->text);
    unlink(path);
    exit(1);
}

static double write_trace(const struct recording *r, uint64_t *bytes)
{
    struct mt_error err = {0};
    FILE *file = fopen(path, "wb");
    struct mt_writer *w = file ? mt_writer_new(fileno(file), NULL, &err) : NULL;
    if (!w)
        fail(&err);
    double start = seconds();
    recording_write(r, w);
    if (mt_writer_flush(w) != MT_OK)
        fail(mt_writer_error(w));
    double time = seconds() - start;
    *bytes = mt_writer_bytes(w);
    if (mt_writer_finish(w, MT_ENDING_EXIT, &err) != MT_OK)
        fail(&err);
    fclose(file);
    return time;
}

static double read_trace(uint64_t *count)
{
    struct mt_error err = {0};
    const struct mt_event *events;
    size_t n;
    int result;
    uint64_t sum = 0;
    double start = seconds();
    struct mt_reader *r = mt_open(path, MT_OPEN_DEFAULT, &err);
    if (!r)
        fail(&err);
    *count = 0;
    while ((result = mt_next(r, &events, &n)) == MT_MORE) {
        *count += n;
        sum += events[n - 1].addr;
    }
    if (result == MT_ERROR)
        fail(mt_reader_error(r));
    mt_close(r);
    (void)*(volatile uint64_t *)&sum;
    return seconds() - start;
}

static void write_text(const struct recording *r)
{
    FILE *file = fopen(path, "wb");
    size_t news = 0;
    for (size_t i = 0; file && i < r->count; i++) {
        bool is_new = r->sites[i] == EVENT_NEW;
        char letter = is_new ? 'N' : r->sites[i] == EVENT_FREE ? 'F' : r->sites[i] % 2 ? 'L' : 'S';
        uint64_t size = is_new ? r->sizes[news++] : letter == 'F' ? 0 : 8;
        fprintf(file, ">>> %c %llu %llu\n", letter, (unsigned long long)r->addrs[i],
                (unsigned long long)size);
    }
    if (file)
        fclose(file);
}

static void run(const struct program *p, size_t n)
{
    struct recording r = {0};
    uint64_t bytes, count, text_count;
    p->run(&r, n);
    double write_time = write_trace(&r, &bytes);
    double read_time = read_trace(&count);
    write_text(&r);
    double text_time = read_trace(&text_count);
    printf("%-12s %9.2f %10.2f %9.2f %12.3f %14.1f\n", p->name, (double)r.count * 1e-6,
           write_time * 1e9 / (double)r.count, read_time * 1e9 / (double)count, (double)bytes / (double)count,
           (double)r.count / text_time * 1e-6);
    fflush(stdout);
    recording_free(&r);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
    int fd = mkstemp(path);
    if (fd < 0 || n == 0) {
        fprintf(stderr, "usage: bench_memtrace [EVENTS [PROGRAM]]\n");
        return 2;
    }
    close(fd);
    printf("%-12s %9s %10s %9s %12s %14s\n", "program", "M events", "write ns", "read ns", "bytes/event",
           "text M lines/s");
    for (const struct program *p = programs; p->name; p++)
        if (argc < 3 || strcmp(argv[2], p->name) == 0)
            run(p, n);
    unlink(path);
    return 0;
}
