/* bench_ring.c - measure the CPU time that the collector takes for a recorded ring (ring_tap.c, record-ring).
 *
 * usage: bench_ring [-n ROUNDS] [-o TRACE] [-s] RING...
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each slab is copied to where it would be in a ring of RING_SLABS, and fed as the collector does, with a
 * thread for compression. The results are CPU times, not elapsed times, so they are valid on a busy machine:
 * that of the encoding thread and that of all threads, each the minimum of ROUNDS (3). With -s all accesses
 * are dropped, which leaves heap events and the walk over the segments. -o keeps the memtrace. This is not a
 * test; nothing is asserted.
 */
#include "ljtrace/collector/feed.h"
#include "ljtrace/protocol/ring.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A recorded ring in memory: for each slab, the number of its bytes, and the bytes. */
struct recorded {
    const char *name;
    uint8_t *bytes;
    size_t size;
};

struct settings {
    int rounds;
    const char *out;
    bool skip; /* drop accesses */
};

/* CPU time in seconds, and the totals of what was written. */
struct cost {
    double coder, all;
    struct mt_totals totals;
    uint64_t bytes;
};

static void fail(const char *name, const char *why)
{
    fprintf(stderr, "bench_ring: %s: %s\n", name, why);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct recorded load(const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        fail(name, "cannot be read");
    struct recorded r = {name, NULL, (size_t)st.st_size};
    r.bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (r.bytes == MAP_FAILED)
        fail(name, "cannot be mapped: it is empty or too large");
    return r;
}

static void feed(const struct recorded *r, struct feed *f, const void *bytes, size_t n)
{
    const char *wrong = feed_slab(f, bytes, n);
    if (wrong)
        fail(r->name, wrong);
}

/* Feed all slabs; the seconds that copying them took. */
static double feed_all(const struct recorded *r, struct feed *f, uint8_t *ring)
{
    double copying = 0;
    for (size_t i = 0, turn = 0; i < r->size; turn = (turn + 1) % RING_SLABS) {
        uint8_t *slab = ring + turn * RING_SLAB_BYTES;
        uint64_t n = r->size - i > sizeof n ? *(const raw_word *)(r->bytes + i) : RING_SLAB_BYTES + 1;
        i += sizeof n;
        if (n > RING_SLAB_BYTES || n > r->size - i)
            fail(r->name, "cut short, or no recorded ring");
        double before = seconds(CLOCK_THREAD_CPUTIME_ID);
        memcpy(slab, r->bytes + i, n);
        i += n;
        copying += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        feed(r, f, slab, n);
    }
    return copying;
}

static struct mt_writer *new_writer(const struct settings *s, int *fd)
{
    const struct mt_writer_options options = {.background = true};
    struct mt_error err = {0};
    *fd = open(s->out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct mt_writer *w = *fd < 0 ? NULL : mt_writer_new(*fd, &options, &err);
    if (!w)
        fail(s->out, "cannot be written");
    return w;
}

static void finish(struct feed *f, struct mt_writer *w, struct cost *c)
{
    struct mt_error err = {0};
    mt_writer_flush(w);
    mt_writer_totals(w, &c->totals);
    c->bytes = mt_writer_bytes(w);
    if (mt_writer_finish(w, feed_ending(f), &err) == MT_ERROR)
        fail("the trace", err.text);
    feed_free(f);
}

static struct cost replay(const struct recorded *r, const struct settings *s, uint8_t *ring)
{
    const uint64_t off = raw_header(RAW_SWITCH, 0, 0);
    struct cost c;
    int fd;
    double all = seconds(CLOCK_PROCESS_CPUTIME_ID), coder = seconds(CLOCK_THREAD_CPUTIME_ID);
    struct mt_writer *w = new_writer(s, &fd);
    struct feed *f = feed_new(w);
    if (s->skip)
        feed(r, f, &off, sizeof off);
    double copying = feed_all(r, f, ring);
    finish(f, w, &c);
    c.coder = seconds(CLOCK_THREAD_CPUTIME_ID) - coder - copying;
    c.all = seconds(CLOCK_PROCESS_CPUTIME_ID) - all - copying;
    close(fd);
    return c;
}

static void measure(const char *name, const struct settings *s, uint8_t *ring)
{
    struct recorded r = load(name);
    struct cost best = {.coder = 1e9};
    uint64_t events = 0;
    for (int i = 0; i < s->rounds; i++) {
        struct cost c = replay(&r, s, ring);
        best = c.coder < best.coder ? c : best;
    }
    for (int kind = 0; kind < MT_KINDS; kind++)
        events += best.totals.events[kind];
    printf("%s: coder %.3f s, all %.3f s, %.1f MB, %.3f ns/byte, %.1f M events, %.4f byte/event\n", name,
           best.coder, best.all, (double)r.size * 1e-6, best.coder * 1e9 / (double)r.size,
           (double)events * 1e-6, (double)best.bytes / (double)(events ? events : 1));
    munmap(r.bytes, r.size);
}

int main(int argc, char **argv)
{
    struct settings s = {3, "/dev/null", false};
    for (int c; (c = getopt(argc, argv, "n:o:s")) != -1;) {
        if (c == 'n')
            s.rounds = atoi(optarg);
        else if (c == 'o')
            s.out = optarg;
        else if (c == 's')
            s.skip = true;
        else
            return 2;
    }
    uint8_t *ring = aligned_alloc(4096, (size_t)RING_SLABS * RING_SLAB_BYTES);
    if (optind == argc || s.rounds < 1 || !ring) {
        fprintf(stderr, "usage: bench_ring [-n ROUNDS] [-o TRACE] [-s] RING...\n");
        return 2;
    }
    for (int i = optind; i < argc; i++)
        measure(argv[i], &s, ring);
    free(ring);
    return 0;
}
