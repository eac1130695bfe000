/* jit_calls.c - calls of functions in C from the machine code of Lua traces.
 *
 * What such a function does belongs to the line of the call, which readers are to know. Most of the time they
 * do without being told: the thread's last access was one of the trace, at the same line. Only the other
 * calls become records. Whether they know is decided by what was coded last, since accesses to no block are
 * not coded: if all accesses of that segment are at the line of the call, so is the one that readers saw
 * last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

static bool is_lua(const struct mt_frame *f)
{
    return f && (f->kind == MT_FRAME_LUA || f->kind == MT_FRAME_LUA_INLINED);
}

/* Definitions are kept from id 1 on. */
static const struct mt_frame *frame_of(const struct mt_writer *w, uint32_t id)
{
    return id ? table_at(&w->frames, id - 1) : NULL;
}

static bool same_line(const struct mt_frame *a, const struct mt_frame *b)
{
    return is_lua(a) && a->line == b->line && a->file == b->file;
}

static bool is_at(const struct mt_writer *w, uint32_t site, const struct mt_frame *place)
{
    const struct mt_site *s = site ? table_at(&w->sites, site - 1) : NULL;
    return s && same_line(frame_of(w, s->frame), place);
}

/* Are all accesses of the segment coded last at the place? */
static bool all_at(const struct mt_writer *w, const struct mt_frame *place)
{
    const struct codebook *b = &w->enc.book;
    uint32_t name = b->names[w->enc.prev_line];
    if (w->enc.prev_line == NO_LINE)
        return false;
    if (name & 1)
        return is_at(w, name >> 1, place);
    const struct coded_segment *s = &b->segments[name >> 1];
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        if (!is_at(w, b->accesses[i].site, place))
            return false;
    return true;
}

/* The same calls come behind the same segments again and again. */
static struct told_call *told(struct mt_writer *w, uint32_t frame, const struct mt_frame *place)
{
    uint32_t line = w->enc.prev_line;
    struct told_call *t = &w->told[(line * 31 + frame) % WRITER_TOLD_CALLS];
    if (t->line != line || t->frame != frame)
        *t = (struct told_call){line, frame, 0, all_at(w, place)};
    return t;
}

/* Do readers know the line by the last access, or by the last call if there was no access since? */
static bool is_known(const struct mt_writer *w, const struct told_call *t, const struct mt_frame *place)
{
    bool accessed = writer_accesses(w) != w->call_accesses;
    return accessed ? t->same : same_line(frame_of(w, w->call_frame), place);
}

void mt_writer_call(struct mt_writer *w, uint32_t frame)
{
    const struct mt_frame *place = frame_of(w, frame);
    if (!is_lua(place))
        return;
    writer_sync_thread(w);
    struct told_call *t = told(w, frame, place);
    if (is_known(w, t, place))
        return;
    if (t->stack == 0)
        t->stack = mt_writer_stack(w, 0, frame);
    struct buffer *b = writer_begin_event(w, MT_CALL);
    if (!b)
        return;
    put_call(b, &(struct rec_call){t->stack});
    w->call_accesses = writer_accesses(w);
    w->call_frame = frame;
    writer_end_event(w);
}
