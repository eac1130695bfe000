/* region.c - keeps which pages of the heap are mapped, and finds room.
 *
 * There is one byte per page. Searching is memchr over these bytes. This is fast enough even for an allocator that
 * maps each large block separately.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/region.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/reservation.h"
#include "drivers/sdk/driver.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { FREE = 0, MAPPED = 1 };
static const size_t LARGEST_ALIGNMENT = (size_t)64 << 20;
static char *const FAVOURITE = (char *)0x100000000000;

static char *s_base;
static size_t s_reserved;      /* bytes reserved from s_base on */
static size_t s_size, s_pages; /* requested size in bytes; number of pages that may be mapped */
static unsigned char *s_map;   /* FREE or MAPPED for each page */
static unsigned char *s_seen;  /* buffer for mincore */
static size_t s_committed;     /* number of mapped pages */
static size_t s_lowest_free;   /* no lower page is free */
static size_t s_top;           /* no page from this one on is mapped */
static char *s_break;
static bool s_break_used, s_capture;
static bool s_stretches; /* more addresses than the heap has may be reserved */

static size_t pages_of(size_t bytes)
{
    return bytes / REGION_PAGE + (bytes % REGION_PAGE != 0);
}

/* Unmap what precedes and follows an aligned range of `size` bytes in the mapping at p, which is larger by
 * LARGEST_ALIGNMENT. */
static char *align(char *p, size_t size)
{
    char *at = (char *)(((uintptr_t)p + LARGEST_ALIGNMENT - 1) & ~(uintptr_t)(LARGEST_ALIGNMENT - 1));
    size_t before = (size_t)(at - p);
    if (before)
        raw_unmap(p, before);
    if (before < LARGEST_ALIGNMENT)
        raw_unmap(at + size, LARGEST_ALIGNMENT - before);
    return at;
}

static char *reserve_aligned(size_t size)
{
    char *p = raw_map_at(FAVOURITE, size);
    if (p)
        return p;
    p = raw_map(size + LARGEST_ALIGNMENT);
    return p ? align(p, size) : NULL;
}

bool region_reserve(size_t size)
{
    size_t pages = pages_of(size);
    if (size > (size_t)1 << 46)
        return false;
    s_base = s_break = reserve_aligned((pages + 1) * REGION_PAGE);
    s_reserved = (pages + 1) * REGION_PAGE;
    s_map = raw_map(pages);
    s_seen = raw_map_unshared(pages);
    s_size = size;
    s_pages = size / REGION_PAGE;
    return s_base && s_map && s_seen;
}

char *region_base(void)
{
    return s_base;
}

size_t region_size(void)
{
    return s_size;
}

size_t region_reserved(void)
{
    return s_reserved;
}

bool region_holds(const void *p, size_t length)
{
    if (reservation_contains(p))
        return reservation_is_usable(p, length);
    size_t at = (size_t)((const char *)p - s_base);
    return s_base && (const char *)p >= s_base && at <= s_size && length <= s_size - at;
}

size_t region_offset(const void *p)
{
    return reservation_contains(p) ? reservation_offset(p) : (size_t)((const char *)p - s_base);
}

void region_allow_reservation(void)
{
    s_stretches = true;
}

void region_capture(bool on)
{
    s_capture = on;
}

bool region_captures(void)
{
    return s_capture;
}

/* Large mappings get their natural alignment, as if the kernel had placed them well: allocators that need aligned
 * segments then waste no memory. */
static size_t alignment_of(size_t pages)
{
    size_t lowest_bit = pages & -pages, most = LARGEST_ALIGNMENT / REGION_PAGE;
    if (pages < ((size_t)2 << 20) / REGION_PAGE)
        return 1;
    return lowest_bit < most ? lowest_bit : most;
}

/* First page of the lowest run of n free pages, or s_pages. */
static size_t find_up(size_t n, size_t align)
{
    size_t i = s_lowest_free;
    while (i < s_pages) {
        unsigned char *free_page = memchr(s_map + i, FREE, s_pages - i);
        if (!free_page)
            break;
        i = ((size_t)(free_page - s_map) + align - 1) & ~(align - 1);
        if (i >= s_pages || n > s_pages - i)
            break;
        unsigned char *taken = memchr(s_map + i, MAPPED, n);
        if (!taken)
            return i;
        i = (size_t)(taken - s_map) + 1;
    }
    return s_pages;
}

/* First page of the highest run of n free pages, or s_pages. */
static size_t find_down(size_t n, size_t align)
{
    size_t end = s_pages;
    while (end >= n) {
        unsigned char *free_page = memrchr(s_map, FREE, end);
        if (!free_page || (size_t)(free_page - s_map) + 1 < n)
            break;
        size_t start = ((size_t)(free_page - s_map) + 1 - n) & ~(align - 1);
        unsigned char *taken = memrchr(s_map + start, MAPPED, n);
        if (!taken)
            return start;
        end = (size_t)(taken - s_map);
    }
    return s_pages;
}

static void take(size_t start, size_t n)
{
    for (size_t i = start; i < start + n; i++)
        s_committed += s_map[i] == FREE;
    memset(s_map + start, MAPPED, n);
    if (start + n > s_top)
        s_top = start + n;
    if (start == s_lowest_free)
        s_lowest_free = start + n;
}

/* Note that the pages from `start` on are free. */
static void lower_top(size_t start)
{
    unsigned char *last = start ? memrchr(s_map, MAPPED, start) : NULL;
    s_top = last ? (size_t)(last - s_map) + 1 : 0;
}

static void give_back(size_t start, size_t n)
{
    for (size_t i = start; i < start + n; i++)
        s_committed -= s_map[i] == MAPPED;
    memset(s_map + start, FREE, n);
    raw_renew(s_base + start * REGION_PAGE, n * REGION_PAGE);
    if (start < s_lowest_free)
        s_lowest_free = start;
    if (start + n >= s_top)
        lower_top(start);
}

/* Convert a range of addresses to page numbers. False if it is not in the region or not aligned. */
static bool range(const void *p, size_t length, size_t *start, size_t *n)
{
    size_t at = (size_t)((const char *)p - s_base);
    *start = at / REGION_PAGE;
    *n = pages_of(length);
    return (const char *)p >= s_base && at % REGION_PAGE == 0 && *start <= s_pages && *n <= s_pages - *start;
}

static size_t place(size_t n)
{
    size_t align = alignment_of(n);
    return s_break_used || s_stretches ? find_down(n, align) : find_up(n, align);
}

long region_map(void *where, size_t length, bool fixed)
{
    size_t start, n = pages_of(length);
    if (n == 0)
        return -EINVAL;
    if (fixed) {
        if (!range(where, length, &start, &n))
            return -ENOMEM;
        raw_renew(where, n * REGION_PAGE);
    } else if (n > s_pages - s_committed || (start = place(n)) == s_pages) {
        return -ENOMEM;
    }
    take(start, n);
    return (long)(s_base + start * REGION_PAGE);
}

long region_reserve_more(size_t length)
{
    return s_stretches && length > s_size ? reservation_reserve(length) : -ENOMEM;
}

long region_use(void *p, size_t length)
{
    size_t more = reservation_missing(p, length);
    if (more > s_pages - s_committed)
        return -ENOMEM;
    long r = reservation_use(p, length);
    s_committed += raw_failed(r) ? 0 : more;
    return r;
}

long region_unmap(void *p, size_t length)
{
    size_t start, n;
    if (reservation_contains(p)) {
        long r = reservation_drop(p, length, &n);
        s_committed -= n;
        return r;
    }
    if (!range(p, length, &start, &n))
        return -EINVAL;
    give_back(start, n);
    return 0;
}

/* Move pages to new addresses and replace them by new ones. */
static long move_pages(size_t from, size_t n, size_t wanted)
{
    size_t to = place(wanted);
    if (to == s_pages)
        return -ENOMEM;
    char *old = s_base + from * REGION_PAGE, *new = s_base + to *REGION_PAGE;
    long r = raw_syscall(SYS_mremap, (long)old, (long)(n * REGION_PAGE), (long)(n * REGION_PAGE),
                         MREMAP_MAYMOVE | MREMAP_FIXED, (long)new, 0);
    if (raw_failed(r))
        return r;
    take(to, wanted);
    give_back(from, n);
    return (long)new;
}

long region_remap(void *p, size_t old_length, size_t length, bool may_move)
{
    size_t start, n, wanted = pages_of(length);
    if (!range(p, old_length, &start, &n) || wanted == 0 || n == 0)
        return -EINVAL;
    if (wanted <= n) {
        give_back(start + wanted, n - wanted);
        return (long)p;
    }
    size_t more = wanted - n, end = start + n;
    if (more <= s_pages - end && !memchr(s_map + end, MAPPED, more)) {
        take(end, more);
        return (long)p;
    }
    return may_move ? move_pages(start, n, wanted) : -ENOMEM;
}

long region_break(void *end)
{
    char *wanted = end;
    if (wanted < s_base || wanted > s_base + s_pages * REGION_PAGE)
        return (long)s_break;
    size_t now = pages_of((size_t)(s_break - s_base)), then = pages_of((size_t)(wanted - s_base));
    if (then > now && memchr(s_map + now, MAPPED, then - now))
        return (long)s_break;
    if (then > now)
        take(now, then - now);
    else
        give_back(then, now - then);
    s_break_used |= then > now; /* a query of the break does not move it */
    s_break = wanted;
    return (long)s_break;
}

size_t region_committed(void)
{
    return s_committed * REGION_PAGE;
}

char *region_top(void)
{
    if (s_stretches)
        return s_base + s_committed * REGION_PAGE;
    return s_base + s_top * REGION_PAGE;
}

size_t region_resident(void)
{
    size_t pages = pages_of(s_size), count = 0;
    if (raw_failed(raw_syscall(SYS_mincore, (long)s_base, (long)s_size, (long)s_seen, 0, 0, 0)))
        return 0;
    for (size_t i = 0; i < pages; i++)
        count += s_seen[i] & 1;
    return (count + (s_stretches ? reservation_resident() : 0)) * REGION_PAGE;
}

uint64_t region_extent(const struct steve_driver *d)
{
    char *top = d->highest ? d->highest() : NULL;
    return (uint64_t)((top ? top : region_top()) - region_base());
}
