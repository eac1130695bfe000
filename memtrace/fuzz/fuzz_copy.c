/* fuzz_copy.c - fuzz target: any bytes as a memtrace whose operations are copied to an ops file.
 *
 * If the trace is valid, the file must contain the operations into which the trace is translated, and the list of
 * blocks that are never freed. If it is not, reading the file must end. Inputs that are ops files are read directly,
 * once completely and once skipping accesses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/fuzz/input.h"
#include "memtrace/ops/source.h"

struct source {
    char path[64];
    struct mt_reader *trace;
    struct ops_reader *ops;
    struct op_source *s;
};

static struct source of_trace(int fd, bool resizes)
{
    struct source o = {0};
    struct mt_error err;
    snprintf(o.path, sizeof o.path, "/proc/self/fd/%d", fd);
    o.trace = mt_open(o.path, 0, &err);
    if (o.trace)
        must((o.s = op_source_new(o.trace, NULL, (struct op_source_options){.resizes = resizes})));
    return o;
}

static struct source of_ops(int fd, bool passing)
{
    struct source o = {0};
    struct mt_error err;
    snprintf(o.path, sizeof o.path, "/proc/self/fd/%d", fd);
    o.ops = ops_open(o.path, OPS_ACCESS, &err);
    if (o.ops)
        must((o.s = op_source_new(NULL, o.ops, (struct op_source_options){0})));
    if (o.s && passing)
        op_source_skip_accesses(o.s);
    return o;
}

static void end(struct source *o)
{
    op_source_free(o->s);
    ops_close(o->ops);
    mt_close(o->trace);
}

/* Compute a sum over all operations. Returns their number and how reading ended. */
struct sum {
    uint64_t hash, count;
    int last;
};

static struct sum read_all(struct source o)
{
    struct sum sum = {.last = MT_ERROR};
    const struct op *ops;
    size_t n;
    while (o.s && (sum.last = op_source_next(o.s, &ops, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++, sum.count++)
            sum.hash = (sum.hash + ops[i].handle) * 31 + ops[i].addr * 7 + ops[i].size * 3 + ops[i].code;
    end(&o);
    return sum;
}

static int copy_to(int fd, int out, bool resizes)
{
    char path[64];
    struct mt_error err;
    int result = MT_ERROR;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mt_reader *r = mt_open(path, 0, &err);
    if (r && ops_can_copy(r)) {
        struct ops_copier *c = ops_copier_new(r, out, resizes, &err);
        must(c != NULL);
        while ((result = ops_copier_next(c)) == MT_MORE)
            ;
        must(ops_copier_finish(c, &err) == MT_OK);
    }
    mt_close(r);
    return result;
}

static bool shows_never_freed(int fd)
{
    char path[64];
    uint64_t *list;
    size_t n;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool found = ops_read_survivors(path, &list, &n);
    free(list);
    return found;
}

static void compare(int fd, bool resizes)
{
    int out = memfd_create("fuzz", 0);
    must(out >= 0);
    int result = copy_to(fd, out, resizes);
    struct sum direct = read_all(of_trace(fd, resizes)), copied = read_all(of_ops(out, false));
    if (result == MT_END && direct.last == MT_END)
        must(copied.last == MT_END && copied.hash == direct.hash && copied.count == direct.count &&
             shows_never_freed(out));
    read_all(of_ops(out, true));
    close(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = input_begin(data, size);
    compare(fd, false);
    compare(fd, true);
    read_all(of_ops(fd, false));
    read_all(of_ops(fd, true));
    shows_never_freed(fd);
    close(fd);
    return 0;
}
