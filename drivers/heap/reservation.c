/* reservation.c - keeps track of which pages of the reservation are usable, and of their positions in pictures.
 *
 * A table has four bytes per page of the reservation: its position plus 1, or 0 if the page is not usable. Only the
 * parts of the table that are accessed take memory. A page gets the next position when it is made usable; a page
 * that was dropped and is made usable again gets a new one. Pages that follow one another in memory and in position are
 * a run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/reservation.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MOST_RUNS = 1 << 20, SEEN = 4096 }; /* SEEN: how many pages one call of mincore looks at */

/* Pages that were made usable one after the other. Some may have been dropped since; of those that were then made usable
 * again, another run has the position. */
struct run {
    size_t page, count;
    uint32_t position; /* of its first page, as in s_positions */
};

static char *s_base;
static size_t s_pages;
static uint32_t *s_positions;     /* by page: 0 = not usable, otherwise position + 1 */
static uint32_t s_position_count; /* number of positions assigned */
static struct run *s_runs;
static size_t s_run_count;

static size_t page_of(const void *p)
{
    return (size_t)((const char *)p - s_base) / REGION_PAGE;
}

static size_t pages_of(size_t length)
{
    return (length + REGION_PAGE - 1) / REGION_PAGE;
}

bool reservation_contains(const void *p)
{
    return s_base && (const char *)p >= s_base && page_of(p) < s_pages;
}

long reservation_reserve(size_t length)
{
    if (s_base)
        return -ENOMEM;
    long p =
        raw_syscall(SYS_mmap, 0, (long)length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    s_positions = raw_map(pages_of(length) * sizeof *s_positions);
    s_runs = raw_map(MOST_RUNS * sizeof *s_runs);
    if (raw_failed(p) || !s_positions || !s_runs)
        return -ENOMEM;
    s_base = (char *)p;
    s_pages = pages_of(length);
    return p;
}

static bool is_inside(const void *p, size_t length)
{
    return reservation_contains(p) && pages_of(length) <= s_pages - page_of(p);
}

size_t reservation_missing(const void *p, size_t length)
{
    size_t n = 0, first = page_of(p);
    for (size_t i = first; is_inside(p, length) && i < first + pages_of(length); i++)
        n += s_positions[i] == 0;
    return n;
}

static void add_page(size_t page)
{
    struct run *last = s_run_count ? &s_runs[s_run_count - 1] : NULL;
    s_positions[page] = ++s_position_count;
    if (last && last->page + last->count == page)
        last->count++;
    else
        s_runs[s_run_count++] = (struct run){page, 1, s_position_count};
}

long reservation_use(void *p, size_t length)
{
    size_t first = page_of(p), n = pages_of(length);
    if (!is_inside(p, length) || s_run_count + n > MOST_RUNS)
        return -ENOMEM;
    long r = raw_syscall(SYS_mmap, (long)p, (long)(n * REGION_PAGE), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    for (size_t i = first; !raw_failed(r) && i < first + n; i++)
        if (!s_positions[i])
            add_page(i);
    return r;
}

long reservation_drop(void *p, size_t length, size_t *pages)
{
    size_t first = page_of(p), n = pages_of(length);
    *pages = 0;
    if (!is_inside(p, length))
        return -EINVAL;
    for (size_t i = first; i < first + n; i++) {
        *pages += s_positions[i] != 0;
        s_positions[i] = 0;
    }
    long r = raw_syscall(SYS_mmap, (long)p, (long)(n * REGION_PAGE), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return raw_failed(r) ? r : 0;
}

bool reservation_is_usable(const void *p, size_t length)
{
    const char *last = (const char *)p + (length ? length - 1 : 0);
    if (!reservation_contains(p) || !reservation_contains(last))
        return false;
    for (size_t i = page_of(p); i <= page_of(last); i++)
        if (!s_positions[i])
            return false;
    return true;
}

size_t reservation_offset(const void *p)
{
    return (size_t)(s_positions[page_of(p)] - 1) * REGION_PAGE +
           (size_t)((const char *)p - s_base) % REGION_PAGE;
}

/* Number of pages of a run that are in memory. Pages that were dropped do not count, nor do those that were made usable
 * again, which are in another run. */
static size_t count_run(struct run r)
{
    unsigned char seen[SEEN];
    size_t count = 0;
    for (size_t done = 0; done < r.count; done += SEEN) {
        size_t n = r.count - done < SEEN ? r.count - done : SEEN;
        char *at = s_base + (r.page + done) * REGION_PAGE;
        if (raw_failed(raw_syscall(SYS_mincore, (long)at, (long)(n * REGION_PAGE), (long)seen, 0, 0, 0)))
            continue;
        for (size_t i = 0; i < n; i++)
            count += (seen[i] & 1) && s_positions[r.page + done + i] == r.position + done + i;
    }
    return count;
}

size_t reservation_resident(void)
{
    size_t count = 0;
    for (size_t i = 0; i < s_run_count; i++)
        count += count_run(s_runs[i]);
    return count;
}
