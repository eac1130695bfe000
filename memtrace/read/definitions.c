/* definitions.c - definitions read from a trace; see definitions.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/definitions.h"
#include "memtrace/format/chunk.h"
#include "memtrace/format/codebook.h"

#include <stdlib.h>
#include <string.h>

/* Most definitions of one kind that may be missing before a chunk when salvaging. */
#define MAX_HOLE (1u << 22)
#define ARENA_PIECE (256u << 10)

static const char no_memory[] = "out of memory for definitions";
static const char no_function[] = "a function's number on its line is not followed by the function";

/* -- strings -- */

struct arena_piece {
    struct arena_piece *before;
    char bytes[];
};

/* Room for n bytes; NULL when out of memory. */
static char *arena_room(struct arena *a, size_t n)
{
    if (a->size - a->used < n) {
        size_t size = n > ARENA_PIECE ? n : ARENA_PIECE;
        struct arena_piece *piece = malloc(sizeof *piece + size);
        if (!piece)
            return NULL;
        piece->before = a->last;
        *a = (struct arena){piece, 0, size};
    }
    char *room = a->last->bytes + a->used;
    a->used += n;
    return room;
}

/* A copy that ends in NUL; NULL when out of memory. */
static char *arena_copy(struct arena *a, struct text t)
{
    char *copy = arena_room(a, t.len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, t.bytes, t.len);
    copy[t.len] = 0;
    return copy;
}

/* Room for n numbers, aligned. */
static uint32_t *arena_numbers(struct arena *a, size_t n)
{
    char *room = arena_room(a, n * sizeof(uint32_t) + _Alignof(uint32_t) - 1);
    uintptr_t at = ((uintptr_t)room + _Alignof(uint32_t) - 1) & ~(uintptr_t)(_Alignof(uint32_t) - 1);
    return room ? (uint32_t *)at : NULL;
}

static void arena_free(struct arena *a)
{
    while (a->last) {
        struct arena_piece *before = a->last->before;
        free(a->last);
        a->last = before;
    }
}

/* -- applying records -- */

static const char *apply_base(struct defs *d, const struct rec_base *r, bool salvage)
{
    struct {
        struct table *table;
        uint64_t count;
    } kinds[] = {{&d->strings, r->strings}, {&d->frames, r->frames}, {&d->stacks, r->stacks},
                 {&d->sites, r->sites},     {&d->heaps, r->heaps},   {&d->infos, r->infos}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint64_t have = kinds[i].table->count;
        if (kinds[i].count != have && !salvage)
            return "definitions are missing or duplicate before this chunk";
        if (kinds[i].count < have || kinds[i].count - have > MAX_HOLE)
            return "definitions before this chunk do not fit";
        for (; have < kinds[i].count; have++)
            if (!table_add(kinds[i].table))
                return no_memory;
    }
    return NULL;
}

static const char *apply_string(struct defs *d, const struct rec_string *r)
{
    if (r->text.len > MAX_STRING)
        return "string is too long";
    if (memchr(r->text.bytes, 0, r->text.len))
        return "string holds a NUL byte";
    char *copy = arena_copy(&d->text, r->text);
    char **s = copy ? table_add(&d->strings) : NULL;
    if (!s)
        return no_memory;
    *s = copy;
    return NULL;
}

static const char *apply_module(struct defs *d, const struct rec_module *r)
{
    if (r->object >= d->strings.count || r->build_id.len > MT_BUILD_ID_MOST)
        return "object file with a name that is not defined, or with a build id that is too long";
    if (r->start + r->size < r->start)
        return "object file beyond the address space";
    struct mt_module *m = table_add(&d->modules);
    if (!m)
        return no_memory;
    *m = (struct mt_module){.start = r->start,
                            .size = r->size,
                            .bias = r->bias,
                            .mapped = r->time,
                            .unmapped = MT_NEVER,
                            .object = (uint32_t)r->object,
                            .build_id_size = (uint8_t)r->build_id.len};
    memcpy(m->build_id, r->build_id.bytes, r->build_id.len);
    return NULL;
}

/* The object file may be one that was lost with a damaged chunk. */
static const char *apply_unmapped(struct defs *d, const struct rec_unmapped *r)
{
    for (uint32_t i = d->modules.count; i-- > 0;) {
        struct mt_module *m = table_at(&d->modules, i);
        if (m->start == r->start && m->unmapped == MT_NEVER) {
            m->unmapped = r->time;
            break;
        }
    }
    return NULL;
}

/* The object file mapped last that contains a code address, as id + 1; 0 = not known. */
static uint32_t module_of(const struct defs *d, uint32_t object, uint64_t ip)
{
    for (uint32_t i = d->modules.count; object && i > 0; i--) {
        const struct mt_module *m = table_at(&d->modules, i - 1);
        if (m->object == object && ip - m->start < m->size)
            return i;
    }
    return 0;
}

static const char *apply_frame(struct defs *d, const struct rec_frame *r)
{
    uint64_t n = d->strings.count;
    if (r->function >= n || r->file >= n || r->object >= n || r->line > UINT32_MAX)
        return "frame names a string that is not defined";
    struct mt_frame *f = table_add(&d->frames);
    if (!f)
        return no_memory;
    *f = (struct mt_frame){.ip = r->ip,
                           .function = (uint32_t)r->function,
                           .file = (uint32_t)r->file,
                           .object = (uint32_t)r->object,
                           .line = (uint32_t)r->line,
                           .module = module_of(d, (uint32_t)r->object, r->ip)};
    return NULL;
}

static const char *apply_nth(struct defs *d, const struct rec_nth *r)
{
    if (r->nth == 0 || r->nth > UINT16_MAX)
        return "function with an impossible number on its line";
    d->nth = (uint16_t)r->nth;
    return NULL;
}

/* The number that the record before has given, once. */
static uint16_t take_nth(struct defs *d)
{
    uint16_t nth = d->nth;
    d->nth = 0;
    return nth;
}

static const char *apply_luaframe(struct defs *d, const struct rec_luaframe *r)
{
    struct rec_frame common = {r->ip, r->function, r->file, r->object, r->line};
    if (r->kind >= MT_FRAME_KINDS || r->approximate > 1 || r->defined > UINT32_MAX || r->trace > UINT32_MAX)
        return "frame of an unknown kind";
    const char *wrong = apply_frame(d, &common);
    if (wrong)
        return wrong;
    struct mt_frame *f = table_at(&d->frames, d->frames.count - 1);
    f->defined = (uint32_t)r->defined;
    f->trace = (uint32_t)r->trace;
    f->nth = take_nth(d);
    f->kind = (uint8_t)r->kind;
    f->approximate = (uint8_t)r->approximate;
    return NULL;
}

static const char *apply_stack(struct defs *d, const struct rec_stack *r)
{
    if (r->parent >= d->stacks.count || r->frame >= d->frames.count)
        return "stack names a stack or frame that is not defined";
    struct mt_stack *s = table_add(&d->stacks);
    if (!s)
        return no_memory;
    *s = (struct mt_stack){(uint32_t)r->parent, (uint32_t)r->frame};
    return NULL;
}

static const char *apply_site(struct defs *d, const struct rec_site *r)
{
    if (r->frame >= d->frames.count || r->size > UINT32_MAX)
        return "site names a frame that is not defined, or is too wide";
    if (r->kind < MT_LOAD || r->kind > MT_MODIFY)
        return "site of an unknown kind";
    struct mt_site *s = table_add(&d->sites);
    if (!s)
        return no_memory;
    *s = (struct mt_site){r->ip, (uint32_t)r->frame, (uint32_t)r->size, (uint8_t)r->kind};
    return NULL;
}

static const char *apply_heap(struct defs *d, const struct rec_heap *r)
{
    if (r->kind >= MT_HEAP_KINDS)
        return "heap of an unknown kind";
    struct mt_heap *h = table_add(&d->heaps);
    if (!h)
        return no_memory;
    *h = (struct mt_heap){r->id, (uint8_t)r->kind};
    return NULL;
}

/* Where the value of a fact that describes the sample belongs; NULL = another fact. */
static uint64_t *sample_fact(struct mt_sample *sample, const char *key)
{
    if (strcmp(key, MT_INFO_SAMPLE_MEAN) == 0)
        return &sample->mean;
    if (strcmp(key, MT_INFO_SAMPLE_EVERY) == 0)
        return &sample->every;
    return strcmp(key, MT_INFO_SAMPLE_SEED) == 0 ? &sample->seed : NULL;
}

static const char *apply_info(struct defs *d, const struct rec_info *r)
{
    if (r->key >= d->strings.count || r->value >= d->strings.count)
        return "fact names a string that is not defined";
    struct info *i = table_add(&d->infos);
    if (!i)
        return no_memory;
    *i = (struct info){(uint32_t)r->key, (uint32_t)r->value};
    uint64_t *fact = sample_fact(&d->sample, defs_string(d, i->key));
    if (fact)
        *fact = strtoull(defs_string(d, i->value), NULL, 10);
    return NULL;
}

/* Segments lost with a damaged chunk are known by the next one's number. */
static const char *fill_segments(struct defs *d, uint64_t segment, bool salvage)
{
    if (segment < d->segments.count || segment - d->segments.count > MAX_HOLE)
        return "segment is defined twice or out of order";
    if (segment != d->segments.count && !salvage)
        return "segments are missing before this one";
    while (d->segments.count < segment)
        if (!table_add(&d->segments))
            return no_memory;
    return NULL;
}

static const char *add_segment(struct defs *d, const struct mt_segment *s)
{
    struct defined_segment *made = table_add(&d->segments);
    if (!made)
        return no_memory;
    *made = (struct defined_segment){d->accesses.count, s->count, s->words};
    for (uint32_t i = 0; i < s->count; i++) {
        struct mt_access *a = table_add(&d->accesses);
        if (!a)
            return no_memory;
        *a = s->accesses[i];
    }
    return NULL;
}

static void show(struct record_hook *hook)
{
    hook->line(hook->ctx, hook->buffer.text);
}

/* The accesses of a segment, which follow it; false if they are not all there. */
static bool read_accesses(struct cursor *c, struct mt_access *accesses, uint64_t count,
                          struct record_hook *hook)
{
    struct rec_access r;
    int64_t site = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (cursor_byte(c) != REC_ACCESS || !get_access(c, &r) || r.word > UINT32_MAX ||
            r.distance != (int32_t)r.distance)
            return false;
        site = (int64_t)((uint64_t)site + (uint64_t)r.site);
        accesses[i] = (struct mt_access){(uint32_t)site, (uint32_t)r.word, (int32_t)r.distance};
        if (site != (uint32_t)site)
            return false;
        if (hook && hook->line) {
            r.site = site;
            dump_access(&hook->buffer, NO_ID, &r);
            show(hook);
        }
    }
    return true;
}

static const char *take_segment(struct defs *d, struct cursor *c, bool salvage, struct record_hook *hook)
{
    struct mt_access accesses[MT_SEGMENT_MOST];
    struct rec_segment r;
    if (!get_segment(c, &r) || r.accesses > MT_SEGMENT_MOST)
        return "segment is cut off or too long";
    if (hook && hook->line) {
        dump_segment(&hook->buffer, NO_ID, &r);
        show(hook);
    }
    const char *wrong = fill_segments(d, r.segment, salvage);
    if (wrong)
        return wrong;
    if (!read_accesses(c, accesses, r.accesses, hook))
        return "segment's accesses are cut off";
    const struct mt_segment s = {accesses, (uint32_t)r.accesses, r.words > UINT32_MAX ? 0 : (uint32_t)r.words,
                                 r.instructions > UINT32_MAX ? UINT32_MAX : (uint32_t)r.instructions};
    return segment_is_good(&s, d->sites.count) ? add_segment(d, &s) : "segment is invalid";
}

static uint32_t count_uvarints(struct text t)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < t.len; i++)
        n += !(t.bytes[i] & 0x80);
    return n;
}

/* The lines of a proto: zigzag differences, one for each instruction. NULL: they are not well-formed. */
static const uint32_t *unpack_lines(struct defs *d, struct text t, uint32_t count)
{
    struct cursor c = {.p = (const uint8_t *)t.bytes, .end = (const uint8_t *)t.bytes + t.len};
    uint32_t *lines = arena_numbers(&d->text, count);
    uint32_t line = 0;
    for (uint32_t i = 0; lines && i < count; i++)
        lines[i] = line += (uint32_t)get_Z(&c);
    return lines && !c.bad && c.p == c.end ? lines : NULL;
}

static const char *apply_proto(struct defs *d, const struct rec_proto *r)
{
    uint64_t n = d->strings.count;
    if (r->function >= n || r->file >= n || r->heap >= d->heaps.count || r->defined > UINT32_MAX ||
        r->offset > UINT32_MAX)
        return "proto names a string or heap that is not defined";
    if (r->lines.len > MAX_PROTO_LINES)
        return "proto with too many lines";
    uint32_t count = count_uvarints(r->lines);
    const uint32_t *lines = unpack_lines(d, r->lines, count);
    if (!lines)
        return "proto with lines that are not well-formed";
    struct mt_proto *p = table_add(&d->protos);
    if (!p)
        return no_memory;
    *p = (struct mt_proto){.handle = r->handle,
                           .heap = (uint32_t)r->heap,
                           .function = (uint32_t)r->function,
                           .file = (uint32_t)r->file,
                           .defined = (uint32_t)r->defined,
                           .nth = take_nth(d),
                           .offset = (uint32_t)r->offset,
                           .count = count,
                           .lines = lines};
    return NULL;
}

static const char *apply_trace(struct defs *d, const struct rec_trace *r)
{
    if (r->heap >= d->heaps.count || r->frame >= d->frames.count || r->number > UINT32_MAX)
        return "trace names a heap or frame that is not defined";
    struct mt_trace *t = table_add(&d->traces);
    if (!t)
        return no_memory;
    *t = (struct mt_trace){r->addr,           r->size, r->time, (uint32_t)r->heap, (uint32_t)r->number,
                           (uint32_t)r->frame};
    return NULL;
}

static const char *apply_pages(struct defs *d, const struct rec_pages *r)
{
    const uint64_t n = d->strings.count;
    if (r->reason >= n || r->name >= n)
        return "pages with a name that is not defined";
    if (r->page < 512 || r->page > UINT32_MAX || (r->page & (r->page - 1)) || r->threads > UINT32_MAX ||
        r->mappings > UINT32_MAX || r->regions > UINT32_MAX)
        return "pages with a number that is not possible";
    struct mt_pages *p = table_add(&d->pages);
    if (!p)
        return no_memory;
    *p = (struct mt_pages){.time = r->time,
                           .reason = (uint32_t)r->reason,
                           .name = (uint32_t)r->name,
                           .page = (uint32_t)r->page,
                           .threads = (uint32_t)r->threads,
                           .before = r->before,
                           .after = r->after,
                           .highest = r->highest,
                           .reserved = r->reserved,
                           .mappings = (uint32_t)r->mappings,
                           .regions = (uint32_t)r->regions,
                           .first_mapping = d->mappings.count,
                           .first_region = d->regions.count};
    return NULL;
}

/* The PAGES that a record after it belongs to; NULL = it was lost with a damaged chunk. */
static struct mt_pages *pages_at(const struct defs *d, uint64_t time)
{
    struct mt_pages *p = d->pages.count ? table_at(&d->pages, d->pages.count - 1) : NULL;
    return p && p->time == time ? p : NULL;
}

/* Are the runs of pages well-formed, and are they all pages of a range? */
static bool are_all_pages(struct text runs, uint64_t pages)
{
    struct cursor c = {.p = (const uint8_t *)runs.bytes, .end = (const uint8_t *)runs.bytes + runs.len};
    while (c.p < c.end && !c.bad) {
        const uint64_t n = get_U(&c) >> MT_PAGE_STATE_BITS;
        if (n == 0 || n > pages)
            return false;
        pages -= n;
    }
    return !c.bad && pages == 0;
}

static const char *apply_mapping(struct defs *d, const struct rec_mapping *r)
{
    struct mt_pages *p = pages_at(d, r->time);
    if (r->name >= d->strings.count || r->flags > UINT32_MAX)
        return "mapping with a name that is not defined, or with unknown flags";
    if (!p)
        return NULL;
    if (r->size == 0 || r->start + r->size < r->start || (r->start | r->size) % p->page)
        return "mapping that is not of whole pages, or beyond the address space";
    if (r->runs.len > MT_RUNS_MOST || (r->runs.len && !are_all_pages(r->runs, r->size / p->page)))
        return "mapping with runs that are not its pages";
    char *runs = arena_copy(&d->text, r->runs);
    struct mt_mapping *m = runs ? table_add(&d->mappings) : NULL;
    if (!m)
        return no_memory;
    *m = (struct mt_mapping){.start = r->start,
                             .size = r->size,
                             .rss = r->rss,
                             .pss = r->pss,
                             .swap = r->swap,
                             .huge = r->huge,
                             .flags = (uint32_t)r->flags,
                             .name = (uint32_t)r->name,
                             .runs_size = (uint32_t)r->runs.len,
                             .runs = (const uint8_t *)runs};
    p->n_mappings++;
    return NULL;
}

static const char *apply_region(struct defs *d, const struct rec_region *r)
{
    struct mt_pages *p = pages_at(d, r->time);
    if (r->stack >= d->stacks.count || r->start + r->size < r->start)
        return "region with a stack that is not defined, or beyond the address space";
    if (!p)
        return NULL;
    struct mt_region *region = table_add(&d->regions);
    if (!region)
        return no_memory;
    *region = (struct mt_region){r->start, r->size, (uint32_t)r->stack};
    p->n_regions++;
    return NULL;
}

/* Read, dump and apply a record of one kind; `id` is its number in the dump. */
#define TAKE_RECORD(NAME, name, id)                                                                          \
    case REC_##NAME: {                                                                                       \
        struct rec_##name r;                                                                                 \
        if (!get_##name(c, &r))                                                                              \
            return "definition is cut off";                                                                  \
        const char *wrong = apply_##name(d, &r);                                                             \
        if (!wrong && hook && hook->line) {                                                                  \
            dump_##name(&hook->buffer, id, &r);                                                              \
            hook->line(hook->ctx, hook->buffer.text);                                                        \
        }                                                                                                    \
        return wrong;                                                                                        \
    }
#define DEFINITION(NAME, name, table) TAKE_RECORD(NAME, name, d->table.count - 1)

static const char *apply_record(struct defs *d, struct cursor *c, bool salvage, struct record_hook *hook)
{
    uint8_t code = cursor_byte(c);
    if (d->nth && code != REC_LUAFRAME && code != REC_PROTO)
        return no_function;
    switch (code) {
        DEFINITION(STRING, string, strings)
        DEFINITION(FRAME, frame, frames)
        DEFINITION(STACK, stack, stacks)
        DEFINITION(SITE, site, sites)
        DEFINITION(HEAP, heap, heaps)
        DEFINITION(INFO, info, infos)
    case REC_SEGMENT:
        return take_segment(d, c, salvage, hook);
        DEFINITION(LUAFRAME, luaframe, frames)
        DEFINITION(PROTO, proto, protos)
        DEFINITION(TRACE, trace, traces)
        TAKE_RECORD(NTH, nth, NO_ID)
        DEFINITION(MODULE, module, modules)
        TAKE_RECORD(UNMAPPED, unmapped, NO_ID)
        TAKE_RECORD(PAGES, pages, NO_ID)
        TAKE_RECORD(MAPPING, mapping, NO_ID)
        TAKE_RECORD(REGION, region, NO_ID)
    default:
        return "unknown record among definitions";
    }
}

const char *defs_apply(struct defs *d, struct cursor *c, bool salvage, struct record_hook *hook)
{
    struct rec_base base;
    if (cursor_byte(c) != REC_BASE || !get_base(c, &base))
        return "definitions do not begin with their base";
    const char *wrong = apply_base(d, &base, salvage);
    while (!wrong && c->p < c->end)
        wrong = apply_record(d, c, salvage, hook);
    if (!wrong && d->nth)
        wrong = no_function;
    d->nth = 0;
    return wrong;
}

bool defs_init(struct defs *d)
{
    *d = (struct defs){.strings.item_size = sizeof(char *),
                       .frames.item_size = sizeof(struct mt_frame),
                       .stacks.item_size = sizeof(struct mt_stack),
                       .sites.item_size = sizeof(struct mt_site),
                       .heaps.item_size = sizeof(struct mt_heap),
                       .infos.item_size = sizeof(struct info),
                       .segments.item_size = sizeof(struct defined_segment),
                       .accesses.item_size = sizeof(struct mt_access),
                       .protos.item_size = sizeof(struct mt_proto),
                       .traces.item_size = sizeof(struct mt_trace),
                       .modules.item_size = sizeof(struct mt_module),
                       .pages.item_size = sizeof(struct mt_pages),
                       .mappings.item_size = sizeof(struct mt_mapping),
                       .regions.item_size = sizeof(struct mt_region)};
    return table_add(&d->strings) && table_add(&d->frames) && table_add(&d->stacks) && table_add(&d->sites) &&
           table_add(&d->heaps);
}

void defs_free(struct defs *d)
{
    table_free(&d->strings);
    table_free(&d->frames);
    table_free(&d->stacks);
    table_free(&d->sites);
    table_free(&d->heaps);
    table_free(&d->infos);
    table_free(&d->segments);
    table_free(&d->accesses);
    table_free(&d->protos);
    table_free(&d->traces);
    table_free(&d->modules);
    table_free(&d->pages);
    table_free(&d->mappings);
    table_free(&d->regions);
    arena_free(&d->text);
}
