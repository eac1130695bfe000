/* definitions.c - definitions of the writer: strings, frames, stacks, sites, heaps, facts.
 *
 * They are collected in a chunk of their own, which is written before the EVENTS chunk that may use them. An id
 * that is out of range (an error of the caller) is written as 0, "not known", so that readers accept the file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

#include <stdlib.h>
#include <string.h>

/* A DEFS chunk is ended at this size, long before the format's limit. */
#define DEFS_FULL (4u << 20)

/* -- ids of stacks --
 *
 * Most stacks are the only ones with their parents: the calls from the place that allocates into the allocator. So the
 * first one is found through its parent, whose memory is near, and only the others are in a hash table. A program with
 * many stacks would wait for memory there, once for each frame of a stack. */

enum { FIRST_SLOTS = 256 };

static bool same(const struct stack_table *t, uint32_t id, uint32_t parent, uint32_t frame)
{
    return t->nodes[id].parent == parent && t->nodes[id].frame == frame;
}

/* The slot of a stack, or the free one where it belongs. */
static uint32_t *find(const struct stack_table *t, uint32_t parent, uint32_t frame)
{
    const uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & t->mask;
    while (t->slots[i] && !same(t, t->slots[i], parent, frame))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

/* Use this number of slots. */
static bool allocate_slots(struct stack_table *t, uint32_t count)
{
    const struct stack_table old = *t;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    t->slots = slots;
    t->mask = count - 1;
    for (uint32_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i])
            *find(t, t->nodes[old.slots[i]].parent, t->nodes[old.slots[i]].frame) = old.slots[i];
    free(old.slots);
    return true;
}

/* Add the empty stack. False when out of memory. */
static bool stack_table_init(struct stack_table *t)
{
    *t = (struct stack_table){.count = 1};
    return array_grow(&t->nodes, &t->room, 1, sizeof *t->nodes) && allocate_slots(t, FIRST_SLOTS);
}

bool writer_defs_init(struct mt_writer *w)
{
    bool is_new;
    w->counts = (struct def_counts){.strings = 1, .frames = 1, .stacks = 1, .sites = 1, .heaps = 1};
    w->written = w->counts;
    w->frames.item_size = sizeof(struct mt_frame);
    w->sites.item_size = sizeof(struct mt_site);
    w->heaps.item_size = sizeof(struct mt_heap);
    w->infos.item_size = sizeof(struct info);
    w->modules.item_size = sizeof(struct mt_module);
    return intern_init(&w->strings) && intern(&w->strings, "", 0, &is_new) == 0 &&
           stack_table_init(&w->stacks);
}

/* Add the empty stack. False when out of memory. */
static void stack_table_free(struct stack_table *t)
{
    free(t->nodes);
    free(t->slots);
}

void writer_defs_free(struct mt_writer *w)
{
    intern_free(&w->strings);
    stack_table_free(&w->stacks);
    table_free(&w->frames);
    table_free(&w->sites);
    table_free(&w->heaps);
    table_free(&w->infos);
    table_free(&w->modules);
    buffer_free(&w->defs);
}

void writer_defs_flush(struct mt_writer *w)
{
    if (buffer_size(&w->defs) == 0)
        return;
    struct chunk_header h = {.type = CHUNK_DEFS,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->chunk_first_handle,
                             .instructions = w->chunk_instructions};
    chunk_writer_put(&w->out, &h, &w->defs);
    buffer_reset(&w->defs);
    w->written = w->counts;
}

struct buffer *writer_def_buffer(struct mt_writer *w, uint64_t count)
{
    if (writer_failed(w))
        return NULL;
    if (count >= MAX_DEFINITIONS) {
        mt_fail(&w->out.err, MT_E_MEMORY, w->out.written,
                "more than %u definitions of one kind: trace fewer call stacks", MAX_DEFINITIONS);
        return NULL;
    }
    if (buffer_size(&w->defs) > DEFS_FULL)
        writer_defs_flush(w);
    if (buffer_size(&w->defs) == 0) {
        struct def_counts *c = &w->written;
        struct rec_base base = {c->strings, c->frames, c->stacks, c->sites, c->heaps, c->infos};
        put_base(&w->defs, &base);
    }
    return &w->defs;
}

/* Keep a copy for forks; false when out of memory. */
static bool keep(struct mt_writer *w, struct table *t, const void *item)
{
    void *copy = table_add(t);
    if (copy)
        memcpy(copy, item, t->item_size);
    else
        mt_fail_memory(&w->out.err);
    return copy;
}

uint32_t mt_writer_string(struct mt_writer *w, const char *s, size_t len)
{
    bool is_new = false;
    size_t n = strnlen(s, len < MAX_STRING ? len : MAX_STRING);
    if (writer_failed(w))
        return 0;
    uint32_t id = intern(&w->strings, s, n, &is_new);
    if (id == INTERN_FAILED) {
        mt_fail_memory(&w->out.err);
        return 0;
    }
    struct buffer *b = is_new ? writer_def_buffer(w, w->counts.strings) : NULL;
    if (b) {
        put_string(b, &(struct rec_string){{s, n}});
        w->counts.strings++;
    }
    return id;
}

void writer_nth(struct buffer *b, uint16_t nth)
{
    if (nth)
        put_nth(b, &(struct rec_nth){nth});
}

uint32_t mt_writer_frame(struct mt_writer *w, const struct mt_frame *f)
{
    struct buffer *b = writer_def_buffer(w, w->counts.frames);
    uint64_t strings = w->counts.strings;
    if (!b)
        return 0;
    if (!keep(w, &w->frames, f))
        return 0;
    struct rec_frame r = {f->ip, known(f->function, strings), known(f->file, strings),
                          known(f->object, strings), f->line};
    if (f->kind == MT_FRAME_HOST) {
        put_frame(b, &r);
    } else {
        writer_nth(b, f->nth);
        put_luaframe(b, &(struct rec_luaframe){r.ip, r.function, r.file, r.object, r.line, f->defined,
                                               f->kind < MT_FRAME_KINDS ? f->kind : MT_FRAME_VM,
                                               f->approximate != 0, f->trace});
    }
    return (uint32_t)w->counts.frames++;
}

/* The id of a stack, which is added if it is new; *is_new says so. STACK_TABLE_FAILED when out of memory. */
static uint32_t stack_table_id(struct stack_table *t, uint32_t parent, uint32_t frame, bool *is_new)
{
    *is_new = false;
    if (!array_reserve(&t->nodes, &t->room, (size_t)t->count + 1, sizeof *t->nodes))
        return STACK_TABLE_FAILED;
    uint32_t *id = &t->nodes[parent].first;
    if (*id && !same(t, *id, parent, frame)) {
        if (t->hashed > t->mask / 2 && !allocate_slots(t, 2 * (t->mask + 1)))
            return STACK_TABLE_FAILED;
        id = find(t, parent, frame);
        t->hashed += !*id;
    }
    *is_new = !*id;
    if (*is_new) {
        *id = t->count;
        t->nodes[t->count++] = (struct stack_node){.parent = parent, .frame = frame};
    }
    return *id;
}

uint32_t mt_writer_stack(struct mt_writer *w, uint32_t parent, uint32_t frame)
{
    bool is_new = false;
    parent = known(parent, w->counts.stacks);
    frame = known(frame, w->counts.frames);
    if (writer_failed(w))
        return 0;
    uint32_t id = stack_table_id(&w->stacks, parent, frame, &is_new);
    if (id == STACK_TABLE_FAILED) {
        mt_fail_memory(&w->out.err);
        return 0;
    }
    struct buffer *b = is_new ? writer_def_buffer(w, w->counts.stacks) : NULL;
    if (b) {
        put_stack(b, &(struct rec_stack){parent, frame});
        w->counts.stacks++;
    }
    return id;
}

uint32_t mt_writer_site(struct mt_writer *w, const struct mt_site *s)
{
    uint8_t kind = s->kind >= MT_LOAD && s->kind <= MT_MODIFY ? s->kind : MT_LOAD;
    struct buffer *b = writer_def_buffer(w, w->counts.sites);
    if (!b)
        return 0;
    if (!keep(w, &w->sites, s))
        return 0;
    if (!codebook_site(&w->enc.book, s->size, kind)) {
        mt_fail_memory(&w->out.err);
        return 0;
    }
    put_site(b, &(struct rec_site){s->ip, known(s->frame, w->counts.frames), s->size, kind});
    return (uint32_t)w->counts.sites++;
}

/* Write the accesses of a segment. Each has the difference of its site's id from that of the access before. */
static void put_accesses(struct buffer *b, const struct mt_segment *s)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct mt_access *a = &s->accesses[i];
        put_access(b, &(struct rec_access){(int32_t)(a->site - last), a->word, a->distance});
        last = a->site;
    }
}

bool writer_segment(void *writer, const struct mt_segment *s)
{
    struct mt_writer *w = writer;
    struct buffer *b = segment_is_good(s, w->counts.sites) ? writer_def_buffer(w, w->counts.segments) : NULL;
    if (!b)
        return false;
    if (!codebook_segment(&w->enc.book, s)) {
        mt_fail_memory(&w->out.err);
        return false;
    }
    put_segment(b, &(struct rec_segment){w->counts.segments, s->count, s->words, s->instructions});
    put_accesses(b, s);
    w->counts.segments++;
    return true;
}

uint32_t mt_writer_segment(struct mt_writer *w, const struct mt_segment *s)
{
    if (!writer_segment(w, s))
        return UINT32_MAX;
    if (!encoder_segment(&w->enc)) {
        mt_fail_memory(&w->out.err);
        return UINT32_MAX;
    }
    return w->enc.fusion.count - 1;
}

uint32_t mt_writer_heap(struct mt_writer *w, const struct mt_heap *h)
{
    struct buffer *b = writer_def_buffer(w, w->counts.heaps);
    if (!b || !keep(w, &w->heaps, h))
        return 0;
    put_heap(b, &(struct rec_heap){h->id, h->kind < MT_HEAP_KINDS ? h->kind : MT_HEAP_CUSTOM});
    return (uint32_t)w->counts.heaps++;
}

static void define_info(struct mt_writer *w, uint32_t k, uint32_t v)
{
    struct buffer *b = writer_def_buffer(w, w->counts.infos);
    if (!b || !keep(w, &w->infos, &(struct info){k, v}))
        return;
    put_info(b, &(struct rec_info){k, v});
    w->counts.infos++;
}

void mt_writer_info(struct mt_writer *w, const char *key, const char *value)
{
    uint32_t k = mt_writer_string(w, key, strlen(key));
    define_info(w, k, mt_writer_string(w, value, strlen(value)));
}

void mt_writer_module(struct mt_writer *w, const struct mt_module *m)
{
    struct buffer *b = writer_def_buffer(w, w->modules.count);
    struct mt_module module = *m;
    if (!b)
        return;
    module.unmapped = MT_NEVER;
    module.object = known(m->object, w->counts.strings);
    if (module.build_id_size > MT_BUILD_ID_MOST)
        module.build_id_size = 0;
    if (module.start + module.size < module.start)
        module.size = 0;
    if (keep(w, &w->modules, &module))
        put_module(b, &(struct rec_module){module.object,
                                           {(const char *)module.build_id, module.build_id_size},
                                           module.start,
                                           module.size,
                                           module.bias,
                                           w->totals.instructions});
}

void mt_writer_unmapped(struct mt_writer *w, uint64_t start)
{
    for (uint32_t i = w->modules.count; i-- > 0;) {
        struct mt_module *m = table_at(&w->modules, i);
        struct buffer *b = m->start == start && m->unmapped == MT_NEVER ? writer_def_buffer(w, 0) : NULL;
        if (!b)
            continue;
        m->unmapped = w->totals.instructions;
        put_unmapped(b, &(struct rec_unmapped){start, w->totals.instructions});
        return;
    }
}

/* -- pages -- */

void mt_writer_pages(struct mt_writer *w, const struct mt_pages *p)
{
    struct buffer *b = writer_def_buffer(w, 0);
    if (b)
        put_pages(b, &(struct rec_pages){p->time, known(p->reason, w->counts.strings),
                                         known(p->name, w->counts.strings), p->page, p->before, p->after,
                                         p->highest, p->threads, p->reserved, p->mappings, p->regions});
}

void mt_writer_mapping(struct mt_writer *w, uint64_t time, const struct mt_mapping *m)
{
    struct buffer *b = writer_def_buffer(w, 0);
    const uint32_t size = m->runs_size <= MT_RUNS_MOST ? m->runs_size : 0;
    if (b)
        put_mapping(b, &(struct rec_mapping){time,
                                             m->start,
                                             m->size,
                                             m->flags,
                                             known(m->name, w->counts.strings),
                                             m->rss,
                                             m->pss,
                                             m->swap,
                                             m->huge,
                                             {(const char *)m->runs, size}});
}

void mt_writer_region(struct mt_writer *w, uint64_t time, const struct mt_region *r)
{
    struct buffer *b = writer_def_buffer(w, 0);
    if (b)
        put_region(b, &(struct rec_region){time, r->start, r->size, known(r->stack, w->counts.stacks)});
}

/* -- copies for a fork -- */

static bool copy_interned(struct mt_writer *to, const struct mt_writer *from)
{
    const struct intern_entry **strings = intern_by_id(&from->strings);
    for (uint32_t i = 1; strings && i < from->strings.count; i++)
        mt_writer_string(to, (const char *)from->strings.keys.data + strings[i]->offset, strings[i]->len);
    for (uint32_t i = 0; i < from->modules.count; i++) {
        const struct mt_module *m = table_at(&from->modules, i);
        if (m->unmapped == MT_NEVER)
            mt_writer_module(to, m);
    }
    for (uint32_t i = 0; i < from->frames.count; i++)
        mt_writer_frame(to, table_at(&from->frames, i));
    for (uint32_t i = 1; i < from->stacks.count; i++)
        mt_writer_stack(to, from->stacks.nodes[i].parent, from->stacks.nodes[i].frame);
    free(strings);
    return strings;
}

/* Fused segments are not copied, because callers do not know them. */
static void copy_segments(struct mt_writer *to, const struct mt_writer *from)
{
    const struct codebook *e = &from->enc.book;
    for (uint32_t i = 0; i < from->enc.fusion.count; i++) {
        const struct coded_segment *s = &e->segments[from->enc.fusion.of[i].segment];
        mt_writer_segment(to,
                          &(struct mt_segment){&e->accesses[s->first], s->count, s->words, s->instructions});
    }
}

void writer_defs_copy(struct mt_writer *to, const struct mt_writer *from)
{
    if (!copy_interned(to, from)) {
        mt_fail_memory(&to->out.err);
        return;
    }
    for (uint32_t i = 0; i < from->sites.count; i++)
        mt_writer_site(to, table_at(&from->sites, i));
    copy_segments(to, from);
    for (uint32_t i = 0; i < from->heaps.count; i++)
        mt_writer_heap(to, table_at(&from->heaps, i));
    for (uint32_t i = 0; i < from->infos.count; i++) {
        const struct info *info = table_at(&from->infos, i);
        define_info(to, info->key, info->value);
    }
}
