/* dump.c - a whole trace as lines of text, for people and goldens.
 *
 * Definitions and totals are printed with the fields of memtrace/format/records.def. Events are printed as readers get
 * them, with the fields of memtrace/kinds.def: with handles and addresses instead of slots and differences. The INDEX
 * is omitted, because it repeats the rest and changes with the version of zstd.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

#include <stdlib.h>

/* -- show_FIELD: a field, or fields, of an event, as memtrace/kinds.def names them -- */

static void show_block(struct line *l, const struct mt_event *ev)
{
    line_number(l, "handle", ev->handle);
    line_hex(l, "addr", ev->addr);
    line_number(l, "size", ev->size);
}

static void show_old(struct line *l, const struct mt_event *ev)
{
    line_hex(l, "old_addr", ev->old_addr);
    line_number(l, "old_size", ev->old_size);
}

static void show_how(struct line *l, const struct mt_event *ev)
{
    line_word(l, "how", mt_how_name(ev->how));
}

static void show_implied(struct line *l, const struct mt_event *ev)
{
    if (ev->implied)
        line_number(l, "implied", 1);
}

static void show_earlier(struct line *l, const struct mt_event *ev)
{
    if (ev->beyond)
        line_number(l, "earlier", 1);
}

static void show_heap(struct line *l, const struct mt_event *ev)
{
    line_number(l, "heap", ev->heap);
}

static void show_access(struct line *l, const struct mt_event *ev)
{
    const bool beside = ev->beyond && ev->freed;
    if (beside && (int64_t)ev->offset < 0)
        line_number(l, "before", -ev->offset);
    else
        line_number(l, "offset", ev->offset);
    line_number(l, "site", ev->ref);
    if (ev->kernel)
        line_number(l, "kernel", 1);
    if (beside)
        line_number(l, "beside", 1);
    if (ev->beyond && !beside)
        line_number(l, "beyond", 1);
    if (ev->freed && !beside)
        line_number(l, "freed", 1);
}

static void show_string(struct line *l, const struct mt_event *ev)
{
    line_number(l, "string", ev->ref);
}

static void show_bad_free(struct line *l, const struct mt_event *ev)
{
    line_hex(l, "addr", ev->addr);
    line_word(l, "reason", mt_badfree_name(ev->how));
    if (ev->handle != MT_NO_HANDLE) {
        line_number(l, "handle", ev->handle);
        line_number(l, "offset", ev->offset);
    }
}

static void show_events(struct line *l, const struct mt_event *ev)
{
    line_number(l, "events", ev->size);
}

static void show_type(struct line *l, const struct mt_event *ev)
{
    line_word(l, "type", mt_type_name((enum mt_type)ev->ref));
}

static void show_vm(struct line *l, const struct mt_event *ev)
{
    line_word(l, "vm", mt_vm_name(ev->how));
}

static void show_trace(struct line *l, const struct mt_event *ev)
{
    if (ev->how == MT_VM_TRACE)
        line_number(l, "trace", ev->ref);
}

static void show_weight(struct line *l, const struct mt_event *ev)
{
    line_number(l, "weight", ev->size);
}

static void show_reach(struct line *l, const struct mt_event *ev)
{
    line_word(l, "reach", mt_reach_name((enum mt_reach)ev->ref));
}

static void line_event(struct line *l, const struct mt_event *ev)
{
    line_start(l, mt_kind_name(ev->kind), NO_ID);
    switch ((enum mt_kind)ev->kind) {
#define MT_KIND(NAME, name, shown)                                                                           \
    case MT_##NAME:                                                                                          \
        shown break;
#define MT_SHOW(field) show_##field(l, ev);
#define MT_STACK line_number(l, "stack", ev->ref);
#include "memtrace/kinds.def"
    case MT_KINDS:
        break;
    }
    line_number(l, "thread", ev->thread);
    line_number(l, "time", ev->time);
}

static int dump_events(struct mt_reader *r)
{
    const struct mt_event *ev;
    size_t n;
    int result;
    while ((result = mt_next(r, &ev, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++) {
            line_event(&r->hook.buffer, &ev[i]);
            r->hook.line(r->hook.ctx, r->hook.buffer.text);
        }
    return result;
}

int mt_dump(const char *path, unsigned flags, void (*line)(void *ctx, const char *text), void *ctx,
            struct mt_error *err)
{
    struct mt_reader *r = mt_open(path, flags | MT_OPEN_FREED, err);
    char *text = malloc(LINE_MAX_BYTES);
    int result = MT_ERROR;
    if (r && text) {
        r->hook = (struct record_hook){line, ctx, {text, 0}};
        result = dump_events(r);
        if (result == MT_ERROR && err)
            *err = r->err;
    } else if (r) {
        mt_fail_memory(err);
    }
    mt_close(r);
    free(text);
    return result;
}
