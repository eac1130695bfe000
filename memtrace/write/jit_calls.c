/* jit_calls.c - records calls of C functions from the machine code of Lua traces.
 *
 * Readers assign what such a C function does to the line of the call, so they must know that line. In most cases they
 * know it already, because the last access of the thread was made by the trace at the same line. An event is written
 * only for the other calls. Accesses outside all blocks are not encoded, so readers do not see them. The check
 * therefore uses the segment that was encoded last: if all its accesses are at the line of the call, the last access
 * that readers saw is, too.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

static bool is_lua(const struct mt_frame *f)
{
    return f && (f->kind == MT_FRAME_LUA || f->kind == MT_FRAME_LUA_INLINED);
}

/* The definition of a frame; NULL for id 0, which is not stored. */
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

/* Are all accesses of the last encoded segment at the same line as `place`? */
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

/* Find or make the cache entry of a call. The same calls follow the same segments again and again. */
static struct call_memo *find_memo(struct mt_writer *w, uint32_t frame, const struct mt_frame *place)
{
    uint32_t line = w->enc.prev_line;
    struct call_memo *t = &w->call_memos[(line * 31 + frame) % WRITER_CALL_MEMOS];
    if (t->line != line || t->frame != frame)
        *t = (struct call_memo){line, frame, 0, all_at(w, place)};
    return t;
}

/* Can readers infer the line from the last access, or from the last call if there was no access since? */
static bool is_known(const struct mt_writer *w, const struct call_memo *t, const struct mt_frame *place)
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
    struct call_memo *t = find_memo(w, frame, place);
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
