/* opsource.c - operations from a memtrace or an ops file; see opsource.h.
 *
 * Events are translated in pieces of 2048, so that the operations (64 KB) stay in the cache until they are
 * used.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/opsource.h"

#include "steve/kernels/grow.h"

#define PIECE 2048
#define NOBODY UINT64_MAX
#define TIME_STEP 4096 /* instructions between the times of accesses */

struct op_source {
    struct mt_reader *trace;
    struct ops_reader *ops;
    const struct mt_event *events; /* read and not yet translated */
    size_t n_events;
    uint64_t *handles; /* by slot: the operations' handle of the live block, plus 1; 0 = none */
    size_t slots;
    uint64_t next_handle;
    uint64_t stray;
    bool out_of_memory;
    struct op_wishes wishes;
    uint64_t time; /* given last */
    bool skips;    /* accesses are not wanted */
    struct op buffer[2 * PIECE];
};

struct op_source *op_source_new(struct mt_reader *trace, struct ops_reader *ops, struct op_wishes wishes)
{
    struct op_source *s = calloc(1, sizeof *s);

    if (s) {
        s->trace = trace;
        s->ops = ops;
        s->wishes = wishes;
    }
    return s;
}

void op_source_free(struct op_source *s)
{
    if (s)
        free(s->handles);
    free(s);
}

static inline struct op *put(struct op *out, uint64_t handle, enum ops_code code, uint64_t addr,
                             uint64_t size)
{
    out->handle = handle;
    out->addr = addr;
    out->size = size;
    out->code = code;
    out->thread = 0;
    out->time = 0;
    return out + 1;
}

/* N with the next handle */
static struct op *put_new(struct op_source *s, struct op *out, const struct mt_event *e)
{
    if (!grow(&s->handles, &s->slots, (size_t)e->slot + 1, sizeof *s->handles)) {
        s->out_of_memory = true;
        return out;
    }
    s->handles[e->slot] = s->next_handle + 1;
    return put(out, s->next_handle++, OP_NEW, e->addr, e->size);
}

static inline uint64_t handle_in(const struct op_source *s, uint32_t slot)
{
    return slot < s->slots ? s->handles[slot] - 1 : NOBODY;
}

static struct op *put_free(struct op_source *s, struct op *out, const struct mt_event *e, uint64_t addr)
{
    uint64_t handle = handle_in(s, e->slot);

    if (handle == NOBODY) {
        s->stray++;
        return out;
    }
    s->handles[e->slot] = 0;
    return put(out, handle, OP_FREE, addr, 0);
}

static inline struct op *put_access(struct op_source *s, struct op *out, const struct mt_event *e)
{
    uint64_t handle = handle_in(s, e->slot);

    if (handle == NOBODY) {
        s->stray++;
        return out;
    }
    return put(out, handle, (enum ops_code)(OP_LOAD + (e->kind - MT_LOAD)), e->addr, e->size);
}

static struct op *put_resize(struct op_source *s, struct op *out, const struct mt_event *e)
{
    uint64_t handle = handle_in(s, e->slot);

    if (!s->wishes.resizes || handle == NOBODY)
        return put_new(s, put_free(s, out, e, e->old_addr), e);
    return put(out, handle, OP_RESIZE, e->addr, e->size);
}

static struct op *put_event(struct op_source *s, struct op *out, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        return put_access(s, out, e);
    case MT_NEW:
        return put_new(s, out, e);
    case MT_FREE:
        return put_free(s, out, e, e->addr);
    case MT_RESIZE:
        return put_resize(s, out, e);
    default:
        return out;
    }
}

/* Who did the operations from `from` on, and when. */
static void mark(struct op_source *s, struct op *from, const struct op *end, const struct mt_event *e)
{
    bool access = e->kind == MT_LOAD || e->kind == MT_STORE || e->kind == MT_MODIFY;

    if (!access || e->time - s->time >= TIME_STEP)
        s->time = e->time;
    for (; from < end; from++) {
        from->thread = s->wishes.threads ? e->thread : 0;
        from->time = s->wishes.times ? s->time : 0;
    }
}

/* With threads or times. */
static struct op *translate_marked(struct op_source *s, struct op *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct op *first = out;

        out = put_event(s, out, &s->events[i]);
        mark(s, first, out, &s->events[i]);
    }
    return out;
}

/* Without accesses. */
static struct op *translate_heap(struct op_source *s, struct op *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s->events[i].kind <= MT_RESIZE)
            out = put_event(s, out, &s->events[i]);
    return out;
}

/* Translate the next piece of what was read; how many operations that made. */
static size_t translate(struct op_source *s)
{
    size_t n = s->n_events < PIECE ? s->n_events : PIECE;
    struct op *out = s->buffer;

    bool marks = s->wishes.threads || s->wishes.times;

    if (s->skips && !marks)
        out = translate_heap(s, out, n);
    else if (!marks)
        for (size_t i = 0; i < n; i++)
            out = put_event(s, out, &s->events[i]);
    else
        out = translate_marked(s, out, n);
    s->events += n;
    s->n_events -= n;
    return (size_t)(out - s->buffer);
}

int op_source_next(struct op_source *s, const struct op **ops, size_t *n)
{
    if (s->ops)
        return ops_next(s->ops, ops, n);
    for (;;) {
        if (s->n_events == 0) {
            int result = !s->trace ? MT_END : mt_next(s->trace, &s->events, &s->n_events);

            if (result != MT_MORE)
                return result;
        }
        *n = translate(s);
        *ops = s->buffer;
        if (s->out_of_memory)
            return MT_ERROR;
        if (*n > 0)
            return MT_MORE;
    }
}

bool op_source_out_of_memory(const struct op_source *s)
{
    return s->out_of_memory;
}

void op_source_give(struct op_source *s, const struct mt_event *events, size_t n)
{
    s->events = events;
    s->n_events = n;
}

bool op_source_begin(struct op_source *s, const uint64_t *handles, size_t n, uint64_t next_handle)
{
    if (!grow(&s->handles, &s->slots, n, sizeof *s->handles))
        return false;
    if (n)
        memcpy(s->handles, handles, n * sizeof *handles);
    s->next_handle = next_handle;
    return true;
}

void op_source_skip_accesses(struct op_source *s)
{
    s->skips = true;
    if (s->trace)
        mt_pass_accesses(s->trace);
}

uint64_t op_source_stray(const struct op_source *s)
{
    return s->stray;
}
