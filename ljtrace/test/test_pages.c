/* test_pages.c - tests of what the collector sees of pages: of this process, and of ranges that are mapped and unmapped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/collector/pages.h"
#include "ljtrace/collector/regions.h"
#include "ljtrace/protocol/ring.h"

enum { PAGE = 4096 };

/* -- regions -- */

static void expect_regions(const struct regions *r, const struct mt_region *all, uint32_t n)
{
    assert_int_equal(r->count, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(r->of[i].start, all[i].start);
        assert_int_equal(r->of[i].size, all[i].size);
        assert_int_equal(r->of[i].stack, all[i].stack);
    }
}
#define EXPECT(r, ...)                                                                                       \
    expect_regions(r, (const struct mt_region[]){__VA_ARGS__},                                               \
                   sizeof((const struct mt_region[]){__VA_ARGS__}) / sizeof(struct mt_region))

static void regions_are_cut_and_replaced(void **state)
{
    struct regions r = {0};
    (void)state;
    regions_map(&r, 100, 100, 1);
    regions_map(&r, 300, 100, 2);
    regions_map(&r, 0, 50, 3);
    EXPECT(&r, {0, 50, 3}, {100, 100, 1}, {300, 100, 2});
    regions_unmap(&r, 120, 10); /* out of the middle */
    EXPECT(&r, {0, 50, 3}, {100, 20, 1}, {130, 70, 1}, {300, 100, 2});
    regions_map(&r, 110, 200, 4); /* over the ends of others */
    EXPECT(&r, {0, 50, 3}, {100, 10, 1}, {110, 200, 4}, {310, 90, 2});
    regions_unmap(&r, 40, 1000);
    EXPECT(&r, {0, 40, 3});
    regions_free(&r);
}

static void only_gaps_are_filled(void **state)
{
    struct regions r = {0};
    (void)state;
    regions_fill(&r, 100, 100, 1); /* there is none */
    regions_fill(&r, 300, 100, 2); /* after all others */
    struct regions copy = regions_copy(&r);
    regions_fill(&r, 50, 300, 3); /* before, between, and over the beginning of the last one */
    EXPECT(&r, {50, 50, 3}, {100, 100, 1}, {200, 100, 3}, {300, 100, 2});
    regions_fill(&r, 60, 200, 4); /* there is no gap */
    regions_fill(&r, 390, 20, 5);
    regions_fill(&r, 50, 0, 6);
    regions_fill(&r, UINT64_MAX - 8, 64, 6);
    EXPECT(&r, {50, 50, 3}, {100, 100, 1}, {200, 100, 3}, {300, 100, 2}, {400, 10, 5});
    EXPECT(&copy, {100, 100, 1}, {300, 100, 2});
    regions_free(&copy);
    copy = regions_copy(&(struct regions){0});
    assert_int_equal(copy.count, 0);
    regions_free(&copy);
    regions_free(&r);
}

static void what_is_no_region_changes_nothing(void **state)
{
    struct regions r = {0};
    (void)state;
    regions_unmap(&r, 0, UINT64_MAX);
    regions_map(&r, 8, 0, 1);
    regions_map(&r, UINT64_MAX - 8, 64, 1);
    regions_detach(&r, 8);
    assert_int_equal(r.count, 0);
    regions_map(&r, 100, 100, 1);
    regions_unmap(&r, 100, 0);
    regions_unmap(&r, 150, UINT64_MAX);
    regions_unmap(&r, 200, 50);
    regions_detach(&r, 150);
    EXPECT(&r, {100, 100, 1});
    regions_detach(&r, 100);
    assert_int_equal(r.count, 0);
    regions_free(&r);
}

/* -- pages -- */

struct trace {
    int fd;
    struct mt_writer *writer;
    struct mt_reader *reader;
};

static void begin(struct trace *t)
{
    *t = (struct trace){.fd = memfd_create("trace", 0)};
    t->writer = mt_writer_new(t->fd, NULL, NULL);
    assert_non_null(t->writer);
}

/* End the trace and read all of it. */
static void read_back(struct trace *t)
{
    char path[64];
    const struct mt_event *events;
    size_t n;
    assert_int_equal(mt_writer_finish(t->writer, MT_ENDING_EXIT, NULL), MT_OK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", t->fd);
    t->reader = mt_open(path, 0, NULL);
    assert_non_null(t->reader);
    while (mt_next(t->reader, &events, &n) == MT_MORE)
        ;
    assert_int_equal(mt_reader_error(t->reader)->code, MT_E_NONE);
}

static void end(struct trace *t)
{
    mt_close(t->reader);
    close(t->fd);
}

/* The mapping that begins at an address. */
static const struct mt_mapping *mapping_at(const struct trace *t, const void *at)
{
    const struct mt_pages *p = mt_pages(t->reader, 0);
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (mt_mapping(t->reader, p->first_mapping + i)->start == (uint64_t)at)
            return mt_mapping(t->reader, p->first_mapping + i);
    return NULL;
}

static char *map(size_t pages, int rights)
{
    /* The page before and after has other rights, so that the kernel does not join it with others. */
    char *at = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + PAGE, pages * PAGE, rights), 0);
    return at + PAGE;
}

static const struct ring_header s_ring = {.own_count = 3, .own = {{PAGE, 7 * PAGE}, {UINT64_MAX, 8}, {0, 0}}};

static void pages_are_those_that_were_touched(void **state)
{
    struct trace t;
    struct regions regions = {0};
    char *at = map(10, PROT_READ | PROT_WRITE);
    (void)state;
    begin(&t);
    at[2 * PAGE] = at[3 * PAGE] = at[9 * PAGE] = 1;
    regions_map(&regions, (uint64_t)at, 10 * PAGE, 0);
    struct pages *p = pages_new(getpid(), 0);
    assert_int_equal(pages_wait(p), 0);
    assert_string_equal(pages_due(p), "first");
    pages_take(p, t.writer, &regions, &s_ring, 77, "mark", "here");
    assert_null(pages_problem(p));
    assert_null(pages_due(p)); /* no time has passed, and little is new */
    read_back(&t);
    const struct mt_pages *look = mt_pages(t.reader, 0);
    const struct mt_mapping *m = mapping_at(&t, at);
    static const uint8_t runs[] = {2 << 4, 2 << 4 | 9, 5 << 4, 1 << 4 | 9};
    assert_int_equal(mt_count_pages(t.reader), 1);
    assert_int_equal(look->time, 77);
    assert_string_equal(mt_string(t.reader, look->reason), "mark");
    assert_string_equal(mt_string(t.reader, look->name), "here");
    assert_true(look->before && look->after && look->highest && look->threads == 1 && look->page == PAGE);
    assert_true(look->mappings == look->n_mappings && look->regions == look->n_regions);
    assert_non_null(m);
    assert_int_equal(m->size, 10 * PAGE);
    assert_int_equal(m->rss, 3 * PAGE);
    assert_int_equal(m->flags, MT_MAPPING_READ | MT_MAPPING_WRITE);
    assert_int_equal(m->runs_size, sizeof runs);
    assert_memory_equal(m->runs, runs, sizeof runs);
    assert_int_equal(look->n_regions, 2); /* those of the ring that are no ranges are left out */
    const struct mt_region *own = mt_region(t.reader, look->first_region + 1);
    assert_int_equal(own->start, PAGE);
    const struct mt_frame *frame = mt_frame(t.reader, mt_stack(t.reader, own->stack)->frame);
    assert_string_equal(mt_string(t.reader, frame->function), MT_RECORDER);
    end(&t);
    pages_free(p);
    regions_free(&regions);
    munmap(at - PAGE, 12 * PAGE);
}

/* Does the kernel have PAGEMAP_SCAN, so that the program need not wait for all? */
static bool kernel_scans(void)
{
    unsigned major = 0, minor = 0;
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
    return major > 6 || (major == 6 && minor >= 7);
}

/* What the program does after the first step is not in the look, though sums are read then. */
static void a_look_is_of_its_first_step(void **state)
{
    struct trace t;
    const struct regions none = {0};
    char *at = map(10, PROT_READ | PROT_WRITE), *gone = map(4, PROT_READ | PROT_WRITE);
    (void)state;
    if (!kernel_scans()) {
        print_message("Linux before 6.7 reads all in one step\n");
        skip();
    }
    begin(&t);
    at[2 * PAGE] = gone[0] = gone[PAGE] = 1;
    struct pages *p = pages_new(getpid(), 0);
    pages_begin(p);
    at[5 * PAGE] = 1;
    munmap(gone - PAGE, 6 * PAGE);
    pages_read_rest(p);
    pages_write(p, t.writer, &none, &s_ring, 1, "mark", "");
    read_back(&t);
    static const uint8_t runs[] = {2 << 4, 1 << 4 | 9, 7 << 4};
    const struct mt_mapping *m = mapping_at(&t, at), *other = mapping_at(&t, gone);
    assert_int_equal(m->rss, PAGE);
    assert_int_equal(m->pss, PAGE);
    assert_int_equal(m->runs_size, sizeof runs);
    assert_memory_equal(m->runs, runs, sizeof runs);
    assert_int_equal(other->rss, 2 * PAGE);
    end(&t);
    pages_free(p);
    munmap(at - PAGE, 12 * PAGE);
}

/* After a fork, both processes have the pages. */
static void pages_of_two_processes_are_shared(void **state)
{
    struct trace t;
    const struct regions none = {0};
    char *at = map(10, PROT_READ | PROT_WRITE);
    (void)state;
    begin(&t);
    at[2 * PAGE] = at[3 * PAGE] = 1;
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    at[3 * PAGE] = 2; /* this process has its own now */
    struct pages *p = pages_new(getpid(), 0);
    pages_take(p, t.writer, &none, &s_ring, 1, "time", "");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    read_back(&t);
    static const uint8_t runs[] = {2 << 4, 1 << 4 | 1, 1 << 4 | 9, 6 << 4};
    const struct mt_mapping *m = mapping_at(&t, at);
    assert_int_equal(m->rss, 2 * PAGE);
    assert_true(m->pss < 2 * PAGE && m->pss >= PAGE);
    assert_int_equal(m->runs_size, sizeof runs);
    assert_memory_equal(m->runs, runs, sizeof runs);
    end(&t);
    pages_free(p);
    munmap(at - PAGE, 12 * PAGE);
}

/* A mapping with more runs than a record may have is in parts, which are in the order of addresses. */
static void many_runs_are_in_parts(void **state)
{
    enum { PAGES = 2 * MT_RUNS_MOST };
    struct trace t;
    const struct regions none = {0};
    char *at = map(PAGES, PROT_READ | PROT_WRITE);
    uint64_t size = 0, rss = 0;
    (void)state;
    begin(&t);
    for (size_t i = 0; i < PAGES; i += 2)
        at[i * PAGE] = 1;
    struct pages *p = pages_new(getpid(), 0);
    pages_take(p, t.writer, &none, &s_ring, 1, "time", "");
    read_back(&t);
    const struct mt_mapping *m = mapping_at(&t, at);
    assert_non_null(m);
    assert_true(m->size < (uint64_t)PAGES * PAGE && m->runs_size <= MT_RUNS_MOST);
    for (uint64_t next = m->start; next < m->start + (uint64_t)PAGES * PAGE;) {
        const struct mt_mapping *part = mapping_at(&t, (const void *)next);
        assert_non_null(part);
        assert_int_equal(part->flags & MT_MAPPING_CONTINUED, part == m ? 0 : MT_MAPPING_CONTINUED);
        size += part->size;
        rss += part->rss;
        next += part->size;
    }
    assert_int_equal(size, (uint64_t)PAGES * PAGE);
    assert_int_equal(rss, (uint64_t)PAGES / 2 * PAGE);
    end(&t);
    pages_free(p);
    munmap(at - PAGE, ((size_t)PAGES + 2) * PAGE);
}

/* Growth by more than a tenth is a reason to look again; time is, if it was asked for. */
static void it_is_time_to_look_when_much_is_new(void **state)
{
    struct trace t;
    const struct regions none = {0};
    (void)state;
    begin(&t);
    struct pages *p = pages_new(getpid(), 0), *often = pages_new(getpid(), 1000000);
    pages_take(p, t.writer, &none, &s_ring, 1, "first", "");
    pages_take(often, t.writer, &none, &s_ring, 1, "first", "");
    while (pages_wait(p) || pages_wait(often))
        usleep(1000);
    assert_null(pages_due(p));
    const char *reason = NULL;
    while (!(reason = pages_due(often)))
        usleep(1000);
    assert_string_equal(reason, "time");
    char *at = map(1 << 15, PROT_READ | PROT_WRITE);
    memset(at, 1, (size_t)PAGE << 15);
    while (pages_wait(p))
        usleep(1000);
    assert_string_equal(pages_due(p), "growth");
    munmap(at - PAGE, ((size_t)PAGE << 15) + 2 * PAGE);
    pages_free(p);
    pages_free(often);
    read_back(&t);
    end(&t);
}

/* So is time, without being asked for: a second at least. What the look says of itself is "time". */
static void an_old_look_is_followed_by_another_one(void **state)
{
    struct trace t;
    const struct regions none = {0};
    const char *reasons[] = {NULL, NULL};
    struct timespec from, to;
    (void)state;
    begin(&t);
    struct pages *p = pages_new(getpid(), 0);
    pages_take(p, t.writer, &none, &s_ring, 1, "first", "");
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (uint64_t i = 0; i < 2; i++) {
        while (!(reasons[i] = pages_due(p)))
            usleep(1000);
        pages_take(p, t.writer, &none, &s_ring, i + 2, reasons[i], "");
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_string_equal(reasons[0], "steady");
    assert_string_equal(reasons[1], "time");
    assert_true((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 >= 1499);
    pages_free(p);
    read_back(&t);
    end(&t);
}

/* The first process is root's. */
static void what_cannot_be_read_is_said(void **state)
{
    struct trace t;
    const struct regions none = {0};
    const bool is_root = geteuid() == 0;
    (void)state;
    begin(&t);
    struct pages *p = pages_new(1, 0);
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    pages_take(p, t.writer, &none, &s_ring, 1, "end", "");
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_non_null(strstr(pages_problem(p), "smaps of the program cannot be read: not permitted"));
    read_back(&t);
    assert_int_equal(mt_count_pages(t.reader), 0);
    end(&t);
    pages_free(p);
}

/* A process that has ended is no problem: the program may be killed at any time. */
static void a_process_that_is_gone_is_not_looked_at(void **state)
{
    struct trace t;
    const struct regions none = {0};
    (void)state;
    begin(&t);
    struct pages *p = pages_new(INT32_MAX, 0);
    assert_null(pages_due(p));
    pages_take(p, t.writer, &none, &s_ring, 1, "end", "");
    assert_null(pages_problem(p));
    read_back(&t);
    assert_int_equal(mt_count_pages(t.reader), 0);
    end(&t);
    pages_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(regions_are_cut_and_replaced),
                                       cmocka_unit_test(only_gaps_are_filled),
                                       cmocka_unit_test(what_is_no_region_changes_nothing),
                                       cmocka_unit_test(pages_are_those_that_were_touched),
                                       cmocka_unit_test(a_look_is_of_its_first_step),
                                       cmocka_unit_test(pages_of_two_processes_are_shared),
                                       cmocka_unit_test(many_runs_are_in_parts),
                                       cmocka_unit_test(it_is_time_to_look_when_much_is_new),
                                       cmocka_unit_test(an_old_look_is_followed_by_another_one),
                                       cmocka_unit_test(what_cannot_be_read_is_said),
                                       cmocka_unit_test(a_process_that_is_gone_is_not_looked_at)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
