/* support_ops.c - writes operations to memory and reads them back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support_ops.h"

#include <unistd.h>

static size_t matching(const struct op *a, const struct op *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i].handle == b[i].handle && a[i].addr == b[i].addr && a[i].size == b[i].size &&
           a[i].code == b[i].code && a[i].thread == b[i].thread && a[i].time == b[i].time)
        i++;
    return i;
}

static struct result read_as(const void *data, size_t size, const struct op *expected, enum ops_kind hint,
                             bool passing)
{
    struct result out = {.last = MT_ERROR};
    const struct op *ops;
    size_t n;
    int fd = memory_file(data, size);
    struct ops_reader *r = ops_open(memory_path(fd), hint, &out.err);
    if (r && passing)
        ops_pass_accesses(r);
    while (r && (out.last = ops_next(r, &ops, &n)) == MT_MORE) {
        out.equal += out.equal == out.count ? matching(ops, expected + out.count, n) : 0;
        out.count += n;
    }
    if (r)
        out.err = *ops_reader_error(r);
    ops_close(r);
    close(fd);
    return out;
}

struct result read_back(const void *data, size_t size, const struct op *expected, enum ops_kind hint)
{
    return read_as(data, size, expected, hint, false);
}

struct result read_back_passing(const void *data, size_t size, const struct op *expected)
{
    return read_as(data, size, expected, OPS_UNKNOWN, true);
}

struct bytes packed(const struct op *ops, size_t n, enum ops_form form, enum ops_kind kind)
{
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, form, kind, NULL);
    assert_non_null(w);
    for (size_t i = 0, step = 1; i < n; i += step, step = step * 3 % 1009) {
        step = step < n - i ? step : n - i;
        ops_write(w, ops + i, step);
    }
    assert_int_equal(ops_writer_finish(w, NULL), MT_OK);
    struct bytes b = memory_bytes(fd);
    close(fd);
    return b;
}
