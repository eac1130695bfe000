/* source.c - reads operations from an ops file, or translates a memtrace into operations.
 *
 * A trace is read in batches, and translated in pieces that stay in the cache until they are processed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "memtrace/ops/binary.h"
#include "memtrace/ops/source.h"
#include "memtrace/base/array.h"
#include "memtrace/base/id_list.h"

#define PIECE 1536 /* maximum number of operations made at a time; one step of a batch never makes more */
#define NO_HANDLE UINT64_MAX
#define TIME_STEP 4096 /* minimum number of instructions between two times of accesses */

struct op_source {
    struct mt_reader *trace;
    struct ops_reader *ops;
    struct mt_batch batch; /* the current batch. Not translated yet are its: */
    const struct mt_step *step, *steps_end;
    const struct mt_place *places;
    const struct mt_event *events;
    struct mt_step given; /* step for events that the caller gave */
    size_t n_given;       /* number of such events after that step */
    uint64_t *handles;    /* by slot: handle of the live block + 1; 0 = none */
    size_t slots;
    uint64_t *unseen; /* handles of blocks whose Free is missing, in a damaged trace that is salvaged */
    size_t n_unseen, unseen_room;
    uint64_t next_handle;
    uint64_t unmatched;
    bool out_of_memory;
    struct op_source_options options;
    uint64_t time; /* last time given to an operation */
    bool skips;    /* skip accesses */
    struct opshapes shapes;
    struct op buffer[PIECE];
};

struct op_source *op_source_new(struct mt_reader *trace, struct ops_reader *ops,
                                struct op_source_options options)
{
    struct op_source *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->options = options;
    s->trace = trace;
    if (ops && ops_reader_trace(ops)) {
        s->trace = ops_reader_trace(ops);
        s->options.resizes = ops_reader_resizes(ops);
    } else {
        s->ops = ops;
    }
    return s;
}

void op_source_free(struct op_source *s)
{
    if (s) {
        free(s->handles);
        free(s->unseen);
        opshapes_free(&s->shapes);
    }
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

/* A New is in a slot that has a live block. Its Free is missing; keep its handle. */
static bool note_unseen(struct op_source *s, uint32_t slot)
{
    if (!array_grow(&s->unseen, &s->unseen_room, s->n_unseen + 1, sizeof *s->unseen))
        return false;
    s->unseen[s->n_unseen++] = s->handles[slot] - 1;
    return true;
}

/* Make an N with the next handle. */
static struct op *put_new(struct op_source *s, struct op *out, const struct mt_event *e)
{
    if (!array_grow(&s->handles, &s->slots, (size_t)e->slot + 1, sizeof *s->handles) ||
        (s->handles[e->slot] && !note_unseen(s, e->slot))) {
        s->out_of_memory = true;
        return out;
    }
    s->handles[e->slot] = s->next_handle + 1;
    return put(out, s->next_handle++, OP_NEW, e->addr, e->size);
}

static inline uint64_t handle_in(const struct op_source *s, uint32_t slot)
{
    return slot < s->slots ? s->handles[slot] - 1 : NO_HANDLE;
}

static struct op *put_free(struct op_source *s, struct op *out, const struct mt_event *e, uint64_t addr)
{
    uint64_t handle = handle_in(s, e->slot);

    if (handle == NO_HANDLE) {
        s->unmatched++;
        return out;
    }
    s->handles[e->slot] = 0;
    return put(out, handle, OP_FREE, addr, 0);
}

static inline struct op *put_access(struct op_source *s, struct op *out, const struct mt_event *e)
{
    uint64_t handle = handle_in(s, e->slot);

    if (handle == NO_HANDLE) {
        s->unmatched++;
        return out;
    }
    return put(out, handle, (enum ops_code)(OP_LOAD + (e->kind - MT_LOAD)), e->addr, e->size);
}

static struct op *put_resize(struct op_source *s, struct op *out, const struct mt_event *e)
{
    uint64_t handle = handle_in(s, e->slot);

    if (!s->options.resizes || handle == NO_HANDLE)
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

static bool is_access(const struct mt_event *e)
{
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY;
}

/* The time of an operation. An access gets the time of the operation before it if that is recent. */
static uint64_t time_of(struct op_source *s, uint64_t time, bool access)
{
    if (!access || time - s->time >= TIME_STEP)
        s->time = time;
    return s->options.times ? s->time : 0;
}

/* Set thread and time of the operations from `from` on. */
static void mark(struct op_source *s, struct op *from, const struct op *end, const struct mt_event *e)
{
    uint64_t time = time_of(s, e->time, is_access(e));

    for (; from < end; from++) {
        from->thread = s->options.threads ? e->thread : 0;
        from->time = time;
    }
}

static struct op *translate_events(struct op_source *s, struct op *out, size_t n)
{
    bool marks = s->options.threads || s->options.times;

    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = s->events++;
        struct op *first = out;

        if (s->skips && is_access(e))
            continue;
        out = put_event(s, out, e);
        if (marks)
            mark(s, first, out, e);
    }
    return out;
}

static struct op *translate_segment(struct op_source *s, struct op *out, const struct mt_step *step)
{
    const struct mt_segment_word *segment = &s->batch.segments[step->segment];
    const struct mt_segment_access *a = &s->batch.accesses[segment->first];
    const uint32_t thread = s->options.threads ? step->thread : 0;
    const uint64_t time = time_of(s, step->time, true);

    for (const struct mt_segment_access *end = a + segment->count; a < end; a++) {
        const struct mt_place *place = &s->places[a->word];
        uint64_t handle = handle_in(s, place->slot);

        if (handle == NO_HANDLE) {
            s->unmatched += place->slot != MT_NO_SLOT;
            continue;
        }
        out->handle = handle;
        out->addr = place->addr + a->offset;
        out->size = a->size;
        out->code = OP_LOAD + (a->kind - MT_LOAD);
        out->thread = thread;
        out->time = time;
        out++;
    }
    s->places += segment->words;
    return out;
}

/* Translate the current batch as long as there is room, and return the number of operations. */
static size_t translate(struct op_source *s)
{
    struct op *out = s->buffer;

    for (; s->step < s->steps_end; s->step++) {
        size_t most = s->step->segment == MT_STEP_EVENTS ? 2 * (size_t)s->step->count : s->step->count;

        if (most > (size_t)(s->buffer + PIECE - out))
            break;
        if (s->step->segment == MT_STEP_EVENTS)
            out = translate_events(s, out, s->step->count);
        else
            out = translate_segment(s, out, s->step);
    }
    return (size_t)(out - s->buffer);
}

/* Make a step of the next events that the caller gave, as many as a step can have. */
static int take_given(struct op_source *s)
{
    size_t n = s->n_given < MT_STEP_MOST ? s->n_given : MT_STEP_MOST;

    if (n == 0)
        return MT_END;
    s->given = (struct mt_step){.segment = MT_STEP_EVENTS, .count = (uint16_t)n};
    s->step = &s->given;
    s->steps_end = s->step + 1;
    s->n_given -= n;
    return MT_MORE;
}

/* Read the next batch. Returns what mt_next returns. */
static int read_batch(struct op_source *s)
{
    int result;

    if (!s->trace)
        return take_given(s);
    result = mt_next_batch(s->trace, &s->batch);
    if (result == MT_MORE) {
        s->step = s->batch.steps;
        s->steps_end = s->step + s->batch.n_steps;
        s->places = s->batch.places;
        s->events = s->batch.events;
    }
    return result;
}

int op_source_next(struct op_source *s, const struct op **ops, size_t *n)
{
    if (s->ops)
        return ops_next(s->ops, ops, n);
    for (;;) {
        int result = s->step < s->steps_end ? MT_MORE : read_batch(s);

        if (result != MT_MORE)
            return result;
        *n = translate(s);
        *ops = s->buffer;
        if (s->out_of_memory)
            return MT_ERROR;
        if (*n > 0)
            return MT_MORE;
    }
}

/* -- writing without making operations -- */

static void write_some(struct ops_writer *w, const struct op *ops, size_t n, struct op_quota *q)
{
    size_t passed = q->skip < n ? (size_t)q->skip : n, count = n - passed;

    count = count < q->left ? count : (size_t)q->left;
    q->skip -= passed;
    q->left -= count;
    ops_write(w, ops + passed, count);
}

/* The set of words of an execution that are in no block; STRAY if one has a slot without a live block. */
#define STRAY UINT32_MAX
static uint32_t absent_words(const struct op_source *s, const struct mt_place *places, uint32_t n)
{
    uint32_t absent = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (handle_in(s, places[i].slot) != NO_HANDLE)
            continue;
        if (places[i].slot != MT_NO_SLOT)
            return STRAY;
        absent |= 1u << i;
    }
    return absent;
}

/* The writer did not write the next step: find its shape. Returns false if the shape was right already, or if the
 * step has none. */
static bool find_shape(struct op_source *s, struct ops_writer *w)
{
    uint32_t segment = s->step->segment, absent;

    if (segment == MT_STEP_EVENTS)
        return false;
    absent = absent_words(s, s->places, s->batch.segments[segment].words);
    return absent != STRAY && opshapes_find(&s->shapes, w, &s->batch, segment, absent);
}

/* Write the next executions; false if the next step is not an execution of a shape. */
static bool write_executions(struct op_source *s, struct ops_writer *w, struct op_quota *q)
{
    struct ops_executions x = {.step = s->step,
                               .end = s->steps_end,
                               .places = s->places,
                               .shapes = s->shapes.latest,
                               .n_shapes = s->shapes.latest_room,
                               .handles = s->handles,
                               .slots = s->slots,
                               .left = q->left};

    ops_write_executions(w, &x);
    s->step = x.step;
    s->places = x.places;
    q->left = x.left;
    return x.step == x.end || find_shape(s, w);
}

/* Write the next step, operation by operation. */
static void write_step(struct op_source *s, struct ops_writer *w, struct op_quota *q)
{
    struct op *end = s->step->segment == MT_STEP_EVENTS ? translate_events(s, s->buffer, s->step->count)
                                                        : translate_segment(s, s->buffer, s->step);

    write_some(w, s->buffer, (size_t)(end - s->buffer), q);
    s->step++;
}

int op_source_write(struct op_source *s, struct ops_writer *w, struct op_quota *q)
{
    int result = s->step < s->steps_end ? MT_MORE : read_batch(s);

    while (result == MT_MORE && s->step < s->steps_end && q->left) {
        if (q->skip || !write_executions(s, w, q))
            write_step(s, w, q);
    }
    return s->out_of_memory ? MT_ERROR : result;
}

/* The ordinals of the list are the handles of the blocks here. */
bool op_source_write_survivors(struct op_source *s, struct ops_writer *w)
{
    for (size_t slot = 0; slot < s->slots; slot++)
        if (s->handles[slot] && !note_unseen(s, (uint32_t)slot))
            return false;
    id_list_sort(s->unseen, s->n_unseen);
    ops_writer_survivors(w, s->unseen, s->n_unseen);
    return true;
}

void op_source_give(struct op_source *s, const struct mt_event *events, size_t n)
{
    s->events = events;
    s->n_given = n;
}

bool op_source_out_of_memory(const struct op_source *s)
{
    return s->out_of_memory;
}

bool op_source_begin(struct op_source *s, const uint64_t *handles, size_t n, uint64_t next_handle)
{
    if (!array_grow(&s->handles, &s->slots, n, sizeof *s->handles))
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
    if (s->ops)
        ops_pass_accesses(s->ops);
}

uint64_t op_source_unmatched(const struct op_source *s)
{
    return s->unmatched;
}

/* -- finds the shape of an ops file for an execution of a segment of a trace. -- */

_Static_assert(OPS_SHAPE_MOST >= MT_SEGMENT_MOST && OPS_SHAPE_WORDS >= MT_SEGMENT_WORDS &&
                   MT_SEGMENT_WORDS <= 32,
               "a segment fits into a shape, and its words into a mask");

void opshapes_free(struct opshapes *o)
{
    free(o->latest);
    free(o->others_of);
    free(o->others);
}

static uint32_t define_shape(struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                             uint32_t absent)
{
    const struct mt_segment_word *all = &p->segments[segment];
    const struct mt_segment_access *a = &p->accesses[all->first];
    struct ops_part parts[OPS_SHAPE_MOST];
    uint8_t word[OPS_SHAPE_WORDS];
    unsigned n = 0, words = 0;

    for (unsigned i = 0; i < all->words; i++) {
        word[i] = (uint8_t)words;
        words += !(absent >> i & 1);
    }
    for (unsigned i = 0; i < all->count; i++)
        if (!(absent >> a[i].word & 1))
            parts[n++] =
                (struct ops_part){a[i].size, a[i].offset, OP_LOAD + (a[i].kind - MT_LOAD), word[a[i].word]};
    return ops_writer_shape(w, parts, n, words);
}

/* Find one of the other shapes of a segment; 0 if there is none. */
static uint32_t find_other(const struct opshapes *o, uint32_t segment, uint32_t absent)
{
    uint32_t i = o->others_of[segment];

    while (i && o->others[i].is.absent != absent)
        i = o->others[i].next;
    return i;
}

/* Move the latest shape of a segment to its other shapes. */
static bool keep(struct opshapes *o, uint32_t segment)
{
    if (!o->latest[segment].shape)
        return true;
    if (!array_grow(&o->others, &o->room, o->n + 2, sizeof *o->others))
        return false;
    o->others[++o->n] = (struct opshape){o->latest[segment], o->others_of[segment]};
    o->others_of[segment] = (uint32_t)o->n;
    return true;
}

static bool add(struct opshapes *o, uint32_t segment, struct ops_shape_of new)
{
    if (!new.shape || !keep(o, segment))
        return false;
    o->latest[segment] = new;
    return true;
}

bool opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                   uint32_t absent)
{
    struct ops_shape_of was;
    uint32_t other;

    if (!array_grow(&o->latest, &o->latest_room, (size_t)segment + 1, sizeof *o->latest) ||
        !array_grow(&o->others_of, &o->others_room, (size_t)segment + 1, sizeof *o->others_of))
        return false;
    was = o->latest[segment];
    if (was.shape && was.absent == absent)
        return false;
    other = find_other(o, segment, absent);
    if (!other)
        return add(o, segment, (struct ops_shape_of){define_shape(w, p, segment, absent), absent});
    o->latest[segment] = o->others[other].is;
    o->others[other].is = was;
    return true;
}
