/* writable.c - which memory of the process can be written, by /proc/self/maps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/writable.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"

#include <fcntl.h>
#include <sys/syscall.h>

enum { MOST_RANGES = 1 << 16 };

static struct writable_range *s_ranges;
static uint32_t s_range_count;

static uint64_t read_hex(const char **at, const char *end)
{
    uint64_t number = 0;
    for (; *at < end; ++*at) {
        const char c = **at;
        if (c >= '0' && c <= '9')
            number = number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (uint64_t)(c - 'a' + 10);
        else
            break;
    }
    return number;
}

/* A line of /proc/self/maps: FROM-TO rwxp OFFSET DEVICE INODE ...  */
static void note_line(const char *at, const char *end)
{
    enum { OFFSET_AND_DEVICE = 3 };
    struct writable_range r;
    r.from = read_hex(&at, end);
    at++;
    r.to = read_hex(&at, end);
    const bool is_private = end - at > 4 && at[4] == 'p';
    if (end - at <= 2 || at[2] != 'w' || s_range_count == MOST_RANGES)
        return;
    at++;
    for (int blanks = 0; at < end && blanks < OFFSET_AND_DEVICE; at++)
        blanks += *at == ' ';
    r.anonymous = is_private && at < end && read_hex(&at, end) == 0;
    s_ranges[s_range_count++] = r;
}

/* Only the begin of a line matters, so long lines may be cut. */
bool writable_read(void)
{
    char bytes[KERNEL_PAGE], line[64];
    size_t used = 0;
    const long fd = kernel_call(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    long n;
    if (!s_ranges)
        s_ranges = native_memory(MOST_RANGES * sizeof *s_ranges);
    s_range_count = 0;
    while (fd >= 0 && s_ranges && (n = kernel_call(SYS_read, fd, (long)bytes, sizeof bytes, 0, 0, 0)) > 0)
        for (long i = 0; i < n; i++) {
            if (bytes[i] == '\n') {
                note_line(line, line + used);
                used = 0;
            } else if (used < sizeof line)
                line[used++] = bytes[i];
        }
    if (fd >= 0)
        kernel_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return s_range_count > 0;
}

/* The first range that ends after this address. */
static uint32_t find(uint64_t at)
{
    uint32_t low = 0, high = s_range_count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (s_ranges[middle].to <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool writable_has(uint64_t at)
{
    const uint32_t i = find(at);
    return i < s_range_count && at >= s_ranges[i].from;
}

bool writable_has_all(uint64_t at, uint64_t to)
{
    for (uint32_t i = find(at); at < to; at = s_ranges[i++].to)
        if (i >= s_range_count || at < s_ranges[i].from)
            return false;
    return true;
}

const struct writable_range *writable_ranges(uint32_t *n)
{
    *n = s_range_count;
    return s_ranges;
}
