/* pages.c - reads /proc/PID/smaps and /proc/PID/pagemap; see pages.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A mapping without a resident or swapped page, such as memory that is only reserved, is one run of pages that are not there,
 * and is not read page by page. Nor is one of more than SPARSE bytes: to read the 16 TB that a sanitizer reserves would take
 * minutes. Its pages are then not known, only its sums.
 *
 * At a mark the program waits, so only what must not change meanwhile is read then: which pages are there. Since Linux
 * 6.7 an ioctl of pagemap says so in a tenth of the time, because it need not look at the pages themselves; of memory
 * without a file, that is all. Sums that are divided among processes come from smaps, which takes as long as pagemap,
 * after the program has gone on. If pages are shared with other processes, as after a fork, pagemap is read then, too.
 * Before Linux 6.7, all is read at once.
 *
 * Whether it is time to look is asked often, since a peak may be short. Looks because of growth are few, however
 * much there is; those at regular times take a tenth of the collector's time at most. After the last look of a
 * phase of growth there is one more, when memory has not grown for a moment: what is in the pages changes then,
 * although their number does not.
 */
#define _GNU_SOURCE
#include "ljtrace/collector/pages.h"
#include "ljtrace/collector/arenas.h"
#include "ljtrace/collector/map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { REST = 10, ENTRIES = 1 << 15, RUN_BYTES = 10 };
enum { LOOK = 10, STEADY = 500, SELDOM = 1000 }; /* milliseconds */
/* How much of the time until a look passes until the next one at the latest: a LATER-th. */
enum { LATER = 4 };
#define SPARSE (256ULL << 30)
/* Bits of an entry of pagemap. */
#define ENTRY_PRESENT (1ULL << 63)
#define ENTRY_SWAPPED (1ULL << 62)
#define ENTRY_FILE (1ULL << 61)
#define ENTRY_ALONE (1ULL << 56)

/* The ioctl PAGEMAP_SCAN, for which the headers may be too old: ranges of pages of the same categories. */
struct scanned_range {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, ranges, ranges_count, most_pages, inverted, all_of, any_of,
        wanted;
};
#define SCAN _IOWR('f', 16, struct scan)
enum { SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4, SCAN_ZERO = 1 << 5, RANGES = 4096 };

/* A mapping, or one of its parts. */
struct seen {
    struct mt_mapping is; /* name, runs: not set */
    size_t name;          /* its place in `names`; 0 = none */
    size_t runs;          /* the place of the first in `runs` */
    bool is_scanned;      /* its pages are known by SCAN, and rss and swap are their numbers */
};

struct pages {
    int pid;
    uint64_t every, page;
    /* Milliseconds: when to ask next whether it is time to look, when the last look ended, and how long it took. */
    uint64_t next, taken, took;
    uint64_t created;  /* likewise: when this began */
    uint64_t highest;  /* the most bytes that were resident at a look */
    bool grew;         /* the last look was the first or because of growth */
    bool any;          /* there was a look */
    uint32_t recorder; /* the stack of the recorder's regions; 0 = not defined yet */
    uint32_t heap;     /* the same of heaps of arenas */
    char problem[300];
    /* What this look has seen. */
    struct seen *seen;
    uint32_t count, room;
    uint32_t mappings; /* of these, by SCAN: mappings in the order of addresses; parts of them follow */
    uint64_t present;  /* bytes of pages in memory that were read from pagemap */
    char *names;       /* each with a zero at its end, from 1 on */
    size_t names_size, names_room;
    uint8_t *runs;
    size_t runs_size, runs_room;
    struct ring_range *heaps; /* of arenas */
    uint32_t heaps_count, heaps_room;
    uint64_t entries[ENTRIES];
    struct scanned_range ranges[RANGES];
    bool scans;     /* the kernel has SCAN */
    uint64_t began; /* when the look did */
    struct mt_pages head;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct pages *pages_new(int pid, uint64_t every)
{
    struct pages *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->pid = pid;
    p->every = every / 1000000;
    p->created = now();
    p->page = (uint64_t)sysconf(_SC_PAGESIZE);
    p->scans = true; /* unless it turns out that the kernel cannot */
    return p;
}

void pages_free(struct pages *p)
{
    if (!p)
        return;
    free(p->seen);
    free(p->names);
    free(p->runs);
    free(p->heaps);
    free(p);
}

const char *pages_problem(const struct pages *p)
{
    return p && p->problem[0] ? p->problem : NULL;
}

/* -- small files -- */

static size_t read_file(const struct pages *p, const char *name, char *to, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", p->pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, to, room - 1);
    if (fd >= 0)
        close(fd);
    to[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

/* The number after a word in a file of /proc; 0 = it is not there. */
static uint64_t number_in(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

/* Bytes that are resident; 0 = the process has ended. */
static uint64_t resident(const struct pages *p)
{
    char text[200];
    unsigned long long all = 0, in_memory = 0;
    if (!read_file(p, "statm", text, sizeof text) || sscanf(text, "%llu %llu", &all, &in_memory) != 2)
        return 0;
    return in_memory * p->page;
}

/* Note that a file cannot be read, unless the process has ended. errno says why. */
static void note_problem(struct pages *p, const char *file, const char *what_is_known)
{
    const int error = errno;
    if (!resident(p))
        return;
    errno = error;
    const char *why = errno == EACCES || errno == EPERM
                          ? "not permitted, since it runs as another user or hides its memory"
                          : strerror(errno);
    if (!p->problem[0])
        snprintf(p->problem, sizeof p->problem, "--pages: /proc/PID/%s of the program cannot be read: %s; %s",
                 file, why, what_is_known);
}

/* -- when -- */

int pages_wait(const struct pages *p)
{
    const uint64_t at = now();
    return at < p->next ? (int)(p->next - at) : 0;
}

const char *pages_due(struct pages *p)
{
    const uint64_t at = now();
    if (at < p->next)
        return NULL;
    p->next = at + LOOK;
    const uint64_t bytes = resident(p);
    if (!bytes)
        return NULL;
    if (!p->any)
        return "first";
    if (bytes > p->highest + p->highest / 10)
        return "growth";
    const uint64_t age = at - p->taken;
    if (age < REST * p->took)
        return NULL;
    if (p->grew && age >= STEADY)
        return "steady";
    if (p->every && age >= p->every)
        return "time";
    return age >= SELDOM && age >= (p->taken - p->created) / LATER ? "time" : NULL;
}

/* -- what the kernel says of mappings -- */

static size_t add_name(struct pages *p, const char *name)
{
    const size_t n = strlen(name) + 1;
    if (n == 1)
        return 0;
    p->names_size = p->names_size ? p->names_size : 1;
    if (p->names_size + n > p->names_room) {
        p->names_room = 2 * (p->names_size + n);
        p->names = grow(p->names, p->names_room, 1);
    }
    memcpy(p->names + p->names_size, name, n);
    p->names_size += n;
    return p->names_size - n;
}

static struct seen *add(struct pages *p, const struct seen *s)
{
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 256;
        p->seen = grow(p->seen, p->room, sizeof *p->seen);
    }
    p->seen[p->count] = *s;
    return &p->seen[p->count++];
}

/* The first line of a mapping. Returns false if it is another line. */
static bool begins_mapping(const char *line, struct seen *s, const char **name)
{
    static const struct {
        char letter;
        uint32_t flag;
    } rights[] = {
        {'r', MT_MAPPING_READ}, {'w', MT_MAPPING_WRITE}, {'x', MT_MAPPING_EXECUTE}, {'s', MT_MAPPING_SHARED}};
    char right[8];
    uint64_t start, end;
    int n = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*x:%*x %*u %n", &start, &end, right, &n) < 3 || !n ||
        end <= start)
        return false;
    *s = (struct seen){.is = {.start = start, .size = end - start}};
    for (size_t i = 0; i < 4 && right[i]; i++)
        s->is.flags |= right[i] == rights[i].letter ? rights[i].flag : 0;
    *name = line + n;
    return true;
}

/* Another line of it. */
static void take_sum(struct mt_mapping *m, const char *line)
{
    const struct {
        const char *name;
        uint64_t *sum;
    } sums[] = {{"Rss:", &m->rss},
                {"Pss:", &m->pss},
                {"Swap:", &m->swap},
                {"AnonHugePages:", &m->huge},
                {"ShmemPmdMapped:", &m->huge},
                {"FilePmdMapped:", &m->huge}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        const size_t n = strlen(sums[i].name);
        if (strncmp(line, sums[i].name, n) == 0)
            *sums[i].sum += strtoull(line + n, NULL, 10) * 1024;
    }
    if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " ht"))
        m->flags |= MT_MAPPING_HUGETLB;
}

/* The kernel writes the file in pieces. A mapping that grows between two of them is there again, with its new end: what was
 * read before is replaced. Of one that begins before that, the rest is cut off. */
static void forget_from(struct pages *p, uint64_t start)
{
    while (p->count && p->seen[p->count - 1].is.start >= start)
        p->count--;
    struct mt_mapping *last = p->count ? &p->seen[p->count - 1].is : NULL;
    if (last && last->start + last->size > start)
        last->size = start - last->start;
}

static FILE *open_mappings(struct pages *p, const char *which)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", p->pid, which);
    FILE *file = fopen(path, "re");
    if (!file)
        note_problem(p, which, "nothing is known of its pages");
    return file;
}

/* Read all mappings, of smaps with their sums or of maps without. Returns false if that is not possible. */
static bool read_mappings(struct pages *p, const char *which)
{
    char *line = NULL;
    const char *name;
    size_t room = 0;
    ssize_t n;
    struct seen s, *last = NULL;
    FILE *file = open_mappings(p, which);
    while (file && (n = getline(&line, &room, file)) > 0) {
        line[n - 1] = line[n - 1] == '\n' ? 0 : line[n - 1];
        if (begins_mapping(line, &s, &name)) {
            forget_from(p, s.is.start);
            last = add(p, &s);
            last->name = add_name(p, name);
        } else if (last)
            take_sum(&last->is, line);
    }
    free(line);
    if (file)
        fclose(file);
    return p->count > 0;
}

/* -- pages -- */

static int open_pagemap(const struct pages *p)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", p->pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void put_run(struct pages *p, struct seen *s, uint64_t pages, uint32_t state)
{
    uint64_t v = pages << MT_PAGE_STATE_BITS | state;
    if (p->runs_size + RUN_BYTES > p->runs_room) {
        p->runs_room = 2 * (p->runs_size + RUN_BYTES);
        p->runs = grow(p->runs, p->runs_room, 1);
    }
    const size_t before = p->runs_size;
    for (; v >= 128; v >>= 7)
        p->runs[p->runs_size++] = (uint8_t)(v | 128);
    p->runs[p->runs_size++] = (uint8_t)v;
    s->is.runs_size += (uint32_t)(p->runs_size - before);
}

static uint32_t state_of(uint64_t entry)
{
    if (entry & ENTRY_SWAPPED)
        return MT_PAGE_SWAPPED;
    if (!(entry & ENTRY_PRESENT))
        return 0;
    return MT_PAGE_PRESENT | (entry & ENTRY_FILE ? MT_PAGE_FILE : 0) |
           (entry & ENTRY_ALONE ? MT_PAGE_ALONE : 0);
}

/* A mapping has so many runs that what is left of it, from this address on, is another part. Returns that. */
static struct seen *divide(struct pages *p, struct seen *s, uint64_t at)
{
    const uint64_t end = s->is.start + s->is.size;
    const struct seen rest = {
        .is = {.start = at, .size = end - at, .flags = s->is.flags | MT_MAPPING_CONTINUED},
        .name = s->name,
        .runs = p->runs_size};
    s->is.size = at - s->is.start;
    return add(p, &rest);
}

/* Read the pages of a mapping into runs. Returns false if the file cannot be read. */
static bool read_pages(struct pages *p, int pagemap, uint32_t number)
{
    struct seen *s = &p->seen[number];
    const uint64_t start = s->is.start, end = start + s->is.size;
    uint64_t run = 0, at = start;
    uint32_t state = 0;
    s->runs = p->runs_size;
    while (at < end) {
        const uint64_t left = (end - at) / p->page;
        const size_t most = left < ENTRIES ? (size_t)left : ENTRIES;
        const ssize_t got =
            pread(pagemap, p->entries, most * sizeof *p->entries, (off_t)(at / p->page * sizeof *p->entries));
        const size_t n = got > 0 ? (size_t)got / sizeof *p->entries : 0;
        if (got < 0)
            return false;
        if (n == 0) /* the mapping is gone, or the file has nothing of it: [vsyscall] */
            break;
        for (size_t i = 0; i < n; i++, at += p->page) {
            const uint32_t is = state_of(p->entries[i]);
            if (run && is != state) {
                put_run(p, s, run, state);
                run = 0;
                if (s->is.runs_size + RUN_BYTES > MT_RUNS_MOST - RUN_BYTES)
                    s = divide(p, s, at);
            }
            state = is;
            run++;
            p->present += is & MT_PAGE_PRESENT ? p->page : 0;
        }
    }
    if (run)
        put_run(p, s, run, state);
    if (at < end)
        put_run(p, s, (end - at) / p->page, 0);
    return true;
}

/* -- pages by SCAN -- */

/* Is it private memory without a file? */
static bool is_anonymous(const struct pages *p, const struct seen *s)
{
    const char *name = s->name ? p->names + s->name : "";
    return !(s->is.flags & MT_MAPPING_SHARED) &&
           (!*name || strcmp(name, "[heap]") == 0 || strncmp(name, "[stack", 6) == 0 ||
            strncmp(name, "[anon:", 6) == 0);
}

/* Find the next ranges from `at` on. Returns how many, *at is moved; -1 = the kernel cannot. */
static long scan_on(struct pages *p, int pagemap, uint64_t *at, uint64_t end)
{
    struct scan s = {.size = sizeof s,
                     .start = *at,
                     .end = end,
                     .ranges = (uint64_t)(uintptr_t)p->ranges,
                     .ranges_count = RANGES,
                     .any_of = SCAN_PRESENT | SCAN_SWAPPED,
                     .wanted = SCAN_PRESENT | SCAN_SWAPPED | SCAN_ZERO};
    const long n = ioctl(pagemap, SCAN, &s);
    if (n < 0 || s.walk_end <= *at || n > RANGES)
        return -1;
    *at = s.walk_end;
    return n;
}

/* Pages of zeros that were only read are not counted by the kernel as resident. */
static uint32_t state_of_range(const struct scanned_range *r)
{
    return r->categories & SCAN_SWAPPED ? MT_PAGE_SWAPPED
           : r->categories & SCAN_ZERO  ? MT_PAGE_PRESENT
                                        : MT_PAGE_PRESENT | MT_PAGE_ALONE;
}

/* Find the pages of a mapping: its runs and, in its first part, their sums. Returns false if the kernel cannot. */
static bool scan_pages(struct pages *p, int pagemap, uint32_t number)
{
    struct seen *s = &p->seen[number];
    const uint64_t end = s->is.start + s->is.size;
    uint64_t at = s->is.start, known = at, rss = 0, swap = 0;
    s->runs = p->runs_size;
    while (at < end) {
        const long n = scan_on(p, pagemap, &at, end);
        if (n < 0)
            return false;
        for (long i = 0; i < n; i++) {
            const struct scanned_range r = p->ranges[i];
            const uint32_t state = state_of_range(&r);
            if (r.start < known || r.end <= r.start || r.end > end)
                return false;
            if (s->is.runs_size + 3 * RUN_BYTES > MT_RUNS_MOST)
                s = divide(p, s, known);
            if (r.start > known)
                put_run(p, s, (r.start - known) / p->page, 0);
            put_run(p, s, (r.end - r.start) / p->page, state);
            rss += state & MT_PAGE_ALONE ? r.end - r.start : 0;
            swap += state == MT_PAGE_SWAPPED ? r.end - r.start : 0;
            known = r.end;
        }
    }
    if (known < end)
        put_run(p, s, (end - known) / p->page, 0);
    p->seen[number].is.rss = p->seen[number].is.pss = rss;
    p->seen[number].is.swap = swap;
    p->seen[number].is_scanned = true;
    return true;
}

/* Has a mapping any page? Where that is not known, it may have. */
static bool has_pages(struct pages *p, int pagemap, const struct seen *s)
{
    const uint64_t end = s->is.start + s->is.size;
    long n = 0;
    for (uint64_t at = s->is.start; at < end && n == 0;)
        n = scan_on(p, pagemap, &at, end);
    return n != 0;
}

/* Find the pages of all mappings. Of those with a file, which pages are the file's is read from pagemap. Returns false if the
 * kernel cannot; then all has to be read anew. */
static bool scan_all(struct pages *p, int pagemap)
{
    const uint32_t count = p->count;
    for (uint32_t i = 0; i < count; i++) {
        struct seen *s = &p->seen[i];
        if (is_anonymous(p, s)) {
            if (!scan_pages(p, pagemap, i))
                return false;
        } else if (!has_pages(p, pagemap, s)) {
            s->runs = p->runs_size;
            put_run(p, s, s->is.size / p->page, 0);
        } else if (s->is.size <= SPARSE) {
            p->present = 0;
            if (!read_pages(p, pagemap, i))
                return false;
            p->seen[i].is.rss = p->seen[i].is.pss = p->present;
        }
    }
    return true;
}

/* Parts of a mapping are added at the end of the list: put them in the order of addresses. */
static int by_address(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->is.start < y->is.start ? -1 : x->is.start > y->is.start;
}

static void read_all_pages(struct pages *p)
{
    const int pagemap = open_pagemap(p);
    const uint32_t count = p->count;
    bool good = pagemap >= 0;
    for (uint32_t i = 0; good && i < count; i++) {
        struct seen *s = &p->seen[i];
        const bool is_empty = !s->is.rss && !s->is.swap && !(s->is.flags & MT_MAPPING_HUGETLB);
        if (is_empty) {
            s->runs = p->runs_size;
            put_run(p, s, s->is.size / p->page, 0);
        } else if (s->is.size <= SPARSE)
            good = read_pages(p, pagemap, i);
    }
    if (!good) {
        note_problem(p, "pagemap",
                     "the sums of its mappings are known, but not which of their pages are resident");
        for (uint32_t i = 0; i < p->count; i++)
            p->seen[i].is.runs_size = 0;
    }
    if (pagemap >= 0)
        close(pagemap);
}

/* -- heaps of arenas -- */

static void find_heaps_of(struct pages *p, int memory, int pagemap, const struct mt_mapping *m)
{
    const uint64_t end = m->start + m->size,
                   first = (m->start + ARENA_ALIGNMENT - 1) & ~(ARENA_ALIGNMENT - 1);
    for (uint64_t at = first; at < end; at += ARENA_ALIGNMENT) {
        const uint64_t bytes = arena_heap_bytes(memory, pagemap, at, p->page);
        if (!bytes)
            continue;
        if (p->heaps_count == p->heaps_room) {
            p->heaps_room = p->heaps_room ? 2 * p->heaps_room : 64;
            p->heaps = grow(p->heaps, p->heaps_room, sizeof *p->heaps);
        }
        p->heaps[p->heaps_count++] = (struct ring_range){at, bytes < end - at ? bytes : end - at};
    }
}

/* Find the heaps of glibc's arenas. If the memory of the process must not be read, none is known. */
static void find_heaps(struct pages *p)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", p->pid);
    const int memory = open(path, O_RDONLY | O_CLOEXEC), pagemap = open_pagemap(p);
    p->heaps_count = 0;
    for (uint32_t i = 0; i < p->count && memory >= 0 && pagemap >= 0; i++) {
        const struct mt_mapping *m = &p->seen[i].is;
        if (is_anonymous(p, &p->seen[i]) && (m->flags & MT_MAPPING_WRITE) && m->rss && m->size <= SPARSE)
            find_heaps_of(p, memory, pagemap, m);
    }
    if (memory >= 0)
        close(memory);
    if (pagemap >= 0)
        close(pagemap);
}

/* -- writing -- */

static uint32_t string(struct mt_writer *w, const char *text)
{
    return mt_writer_string(w, text, strlen(text));
}

/* The stack of regions that no call of the program has mapped: one frame with this function. *known: it, once it
 * is defined. */
static uint32_t special_stack(struct mt_writer *w, const char *function, uint32_t *known)
{
    const struct mt_frame frame = {.function = string(w, function)};
    if (!*known)
        *known = mt_writer_stack(w, 0, mt_writer_frame(w, &frame));
    return *known;
}

/* Copy the ranges of the recorder. The program may have written anything there. Returns how many there are. */
static uint32_t copy_own(const struct ring_header *ring, struct ring_range *to)
{
    const uint32_t count = __atomic_load_n(&ring->own_count, __ATOMIC_ACQUIRE);
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && i < RING_OWN; i++) {
        to[n] = ring->own[i];
        n += to[n].size && to[n].start + to[n].size >= to[n].start;
    }
    return n;
}

static void write_seen(struct pages *p, struct mt_writer *w, const struct regions *regions,
                       const struct ring_header *ring, struct mt_pages *head)
{
    struct ring_range own[RING_OWN];
    const uint32_t n = copy_own(ring, own), stack = special_stack(w, MT_RECORDER, &p->recorder);
    const uint32_t heap = p->heaps_count ? special_stack(w, MT_ARENA, &p->heap) : 0;
    head->mappings = p->count;
    head->regions = regions->count + n + p->heaps_count;
    mt_writer_pages(w, head);
    for (uint32_t i = 0; i < p->count; i++) {
        struct mt_mapping m = p->seen[i].is;
        m.name = p->seen[i].name ? string(w, p->names + p->seen[i].name) : 0;
        m.runs = p->runs + p->seen[i].runs;
        mt_writer_mapping(w, head->time, &m);
    }
    for (uint32_t i = 0; i < regions->count; i++)
        mt_writer_region(w, head->time, &regions->of[i]);
    for (uint32_t i = 0; i < n; i++)
        mt_writer_region(w, head->time, &(struct mt_region){own[i].start, own[i].size, stack});
    for (uint32_t i = 0; i < p->heaps_count; i++)
        mt_writer_region(w, head->time, &(struct mt_region){p->heaps[i].start, p->heaps[i].size, heap});
}

/* What a thread's stack reserves by default; 0 = it is not known, or has no limit. */
static uint64_t stack_limit(const struct pages *p)
{
    char text[4096];
    read_file(p, "limits", text, sizeof text);
    return number_in(text, "Max stack size ");
}

/* -- a look -- */

static void forget(struct pages *p)
{
    p->count = p->mappings = 0;
    p->names_size = p->runs_size = 0;
}

/* Find mappings and pages by SCAN. Returns false if the kernel cannot. */
static bool read_by_scan(struct pages *p)
{
    const int pagemap = open_pagemap(p);
    forget(p);
    bool good = pagemap >= 0 && read_mappings(p, "maps");
    p->mappings = p->count;
    good = good && scan_all(p, pagemap);
    if (pagemap >= 0)
        close(pagemap);
    return good;
}

/* Find mappings with their sums, then pages. Returns false if that is not possible. */
static bool read_with_sums(struct pages *p)
{
    forget(p);
    if (!read_mappings(p, "smaps"))
        return false;
    read_all_pages(p);
    return true;
}

/* What smaps has of a mapping. Returns false if its pages have to be read by pagemap, since other processes have them, too. */
static bool take_sums(struct seen *s, const struct mt_mapping *sums, uint64_t page)
{
    s->is.huge = sums->huge;
    s->is.flags |= sums->flags;
    if (s->is_scanned)
        return sums->pss + page > sums->rss;
    s->is.rss = sums->rss;
    s->is.pss = sums->pss;
    s->is.swap = sums->swap;
    return true;
}

/* Add the sums of smaps to the mappings that were scanned. What is there no more keeps its own. Returns false as take_sums. */
static bool add_sums(struct pages *p)
{
    char *line = NULL;
    const char *name;
    size_t room = 0;
    ssize_t n;
    uint32_t i = 0;
    bool good = true, is_known = false;
    struct seen s = {0}, next;
    FILE *file = open_mappings(p, "smaps");
    while (file && good && (n = getline(&line, &room, file)) > 0) {
        line[n - 1] = line[n - 1] == '\n' ? 0 : line[n - 1];
        if (!begins_mapping(line, &next, &name)) {
            take_sum(&s.is, line);
            continue;
        }
        good = !is_known || take_sums(&p->seen[i], &s.is, p->page);
        s = next;
        while (i < p->mappings && p->seen[i].is.start < s.is.start)
            i++;
        is_known = i < p->mappings && p->seen[i].is.start == s.is.start;
    }
    good = good && (!is_known || take_sums(&p->seen[i], &s.is, p->page));
    free(line);
    if (file)
        fclose(file);
    return good;
}

void pages_begin(struct pages *p)
{
    char status[8192];
    p->began = now();
    p->head = (struct mt_pages){.page = (uint32_t)p->page, .before = resident(p), .reserved = stack_limit(p)};
    p->scans = p->scans && read_by_scan(p);
    if (!p->scans)
        read_with_sums(p);
    p->head.after = resident(p);
    read_file(p, "status", status, sizeof status);
    p->head.highest = number_in(status, "VmHWM:") * 1024;
    p->head.threads = (uint32_t)number_in(status, "Threads:");
}

void pages_read_rest(struct pages *p)
{
    if (p->scans && p->count && !add_sums(p)) {
        read_with_sums(p);
        p->head.after = resident(p);
    }
    if (p->count)
        qsort(p->seen, p->count, sizeof *p->seen, by_address);
    find_heaps(p);
    p->took = now() - p->began;
}

void pages_write(struct pages *p, struct mt_writer *w, const struct regions *regions,
                 const struct ring_header *ring, uint64_t time, const char *reason, const char *name)
{
    struct mt_pages *head = &p->head;
    if (!p->count)
        return;
    head->time = time;
    head->reason = string(w, reason);
    head->name = string(w, name);
    write_seen(p, w, regions, ring, head);
    const uint64_t most = head->before > head->after ? head->before : head->after;
    p->highest = most > p->highest ? most : p->highest;
    p->any = true;
    p->grew = strcmp(reason, "growth") == 0 || strcmp(reason, "first") == 0;
    p->taken = now();
    p->next = p->taken + LOOK;
}

void pages_take(struct pages *p, struct mt_writer *w, const struct regions *regions,
                const struct ring_header *ring, uint64_t time, const char *reason, const char *name)
{
    pages_begin(p);
    pages_read_rest(p);
    pages_write(p, w, regions, ring, time, reason, name);
}
