/* rewrite.c - copies a trace with other names of its code addresses; see memtrace/rewrite.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Accesses refer to sites, whose numbers do not change, so their streams are copied as they are. Definitions are made
 * anew. A code address may have more or fewer inlined functions than before, so strings, frames and stacks get new
 * ids. The rare records, which refer to them, are encoded again with these.
 *
 * A frame is defined in the copy when a stack or site first uses it. In a trace, a stack has the frame of a function
 * followed by those of the functions inlined in it. If the function gets new names, its stack becomes one with all of
 * its new frames, and the stacks of its old inlined frames become the same stack.
 */
#include "memtrace/rewrite.h"
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/base/intern.h"
#include "memtrace/format/records.h"
#include "memtrace/read/reader_impl.h"
#include "memtrace/write/chunk_writer.h"

#include <stdlib.h>
#include <string.h>

/* A frame of the trace in the copy. */
struct new_frame {
    uint32_t first,
        count; /* the ids of the function's frame and of those inlined in it, the outermost first */
    bool defined;
    bool renamed;
};

/* A stack of the trace in the copy. */
struct new_stack {
    uint32_t id;
    bool renamed; /* its innermost function that is not inlined has new names */
};

struct rewriter {
    struct mt_reader *trace;
    const struct mt_namer *namer;
    struct chunk_writer out;
    struct mt_error err;
    const char *wrong;        /* what is wrong with the current chunk; NULL = nothing */
    struct buffer defs, rare; /* streams that are encoded again */
    uint32_t *strings;        /* by id in the trace: id in the copy */
    struct new_frame *frames;
    struct new_stack *stacks;
    size_t strings_room, frames_room, stacks_room;
    uint32_t known_strings, known_frames, known_stacks; /* how many of the trace's have been met */
    uint32_t sites, heaps, infos;                       /* defined so far, in both files */
    uint16_t nth;                                       /* the value of an NTH that was read last */
    struct chunk_header last;                           /* of the chunk that was copied last */
    uint32_t new_frames, new_stacks;                    /* defined so far in the copy */
    struct intern texts;                                /* the strings of the copy */
};

static const char s_no_memory[] = "out of memory for the definitions of the copy";

static bool fail(struct rewriter *w, const char *wrong)
{
    if (!w->wrong)
        w->wrong = wrong;
    return false;
}

/* -- strings -- */

/* The id of a string in the copy, where it is defined if it is new. */
static uint32_t string_of(struct rewriter *w, const char *bytes, size_t n)
{
    bool is_new;
    n = n < MAX_STRING ? n : MAX_STRING;
    const uint32_t id = intern(&w->texts, bytes, n, &is_new);
    if (id == INTERN_FAILED) {
        fail(w, s_no_memory);
        return 0;
    }
    if (is_new)
        put_string(&w->defs, &(struct rec_string){{bytes, n}});
    return id;
}

static uint32_t string_of_name(struct rewriter *w, const char *name)
{
    return name ? string_of(w, name, strlen(name)) : 0;
}

static bool take_string(struct rewriter *w, const struct rec_string *r)
{
    if (!array_grow(&w->strings, &w->strings_room, (size_t)w->known_strings + 1, sizeof *w->strings))
        return fail(w, s_no_memory);
    w->strings[w->known_strings++] = string_of(w, r->text.bytes, r->text.len);
    return !w->wrong;
}

/* -- frames -- */

static void put_new_frame(struct rewriter *w, const struct mt_frame *f, uint8_t kind,
                          const struct mt_name *name)
{
    const struct rec_luaframe r = {.ip = f->ip,
                                   .function = string_of_name(w, name->function),
                                   .file = string_of_name(w, name->file),
                                   .object = w->strings[f->object],
                                   .line = name->line,
                                   .kind = kind};
    if (kind == MT_FRAME_HOST)
        put_frame(&w->defs, &(struct rec_frame){r.ip, r.function, r.file, r.object, r.line});
    else
        put_luaframe(&w->defs, &r);
    w->new_frames++;
}

/* Define a frame with the names that it had. */
static void put_old_frame(struct rewriter *w, const struct mt_frame *f)
{
    const struct rec_luaframe r = {.ip = f->ip,
                                   .function = w->strings[f->function],
                                   .file = w->strings[f->file],
                                   .object = w->strings[f->object],
                                   .line = f->line,
                                   .defined = f->defined,
                                   .kind = f->kind,
                                   .approximate = f->approximate,
                                   .trace = f->trace};
    if (f->nth)
        put_nth(&w->defs, &(struct rec_nth){f->nth});
    if (f->kind == MT_FRAME_HOST)
        put_frame(&w->defs, &(struct rec_frame){r.ip, r.function, r.file, r.object, r.line});
    else
        put_luaframe(&w->defs, &r);
    w->new_frames++;
}

static bool is_host(const struct mt_frame *f)
{
    return f->kind == MT_FRAME_HOST || f->kind == MT_FRAME_INLINED;
}

/* A frame in the copy, where it is defined if this is its first use. */
static const struct new_frame *frame_of(struct rewriter *w, uint32_t id)
{
    struct new_frame *n = &w->frames[id];
    struct mt_name names[MT_NAMES_MOST];
    if (n->defined)
        return n;
    const struct mt_frame *f = mt_frame(w->trace, id);
    const size_t count = is_host(f) ? w->namer->find(w->namer->context, w->trace, f, names) : 0;
    *n = (struct new_frame){w->new_frames, count ? (uint32_t)count : 1, true, count > 0};
    for (size_t i = count; i-- > 0;)
        put_new_frame(w, f, i + 1 == count ? MT_FRAME_HOST : MT_FRAME_INLINED, &names[i]);
    if (!count)
        put_old_frame(w, f);
    return n;
}

/* The innermost of the frames that a frame has become. */
static uint32_t innermost(struct rewriter *w, uint32_t id)
{
    const struct new_frame *n = frame_of(w, id);
    return n->first + n->count - 1;
}

static bool take_frame(struct rewriter *w)
{
    if (!array_grow(&w->frames, &w->frames_room, (size_t)w->known_frames + 1, sizeof *w->frames))
        return fail(w, s_no_memory);
    w->frames[w->known_frames++] = (struct new_frame){0};
    return true;
}

/* -- stacks -- */

static uint32_t put_new_stack(struct rewriter *w, uint32_t parent, uint32_t frame)
{
    put_stack(&w->defs, &(struct rec_stack){parent, frame});
    return w->new_stacks++;
}

static bool take_stack(struct rewriter *w, const struct rec_stack *r)
{
    if (!array_grow(&w->stacks, &w->stacks_room, (size_t)w->known_stacks + 1, sizeof *w->stacks))
        return fail(w, s_no_memory);
    const struct new_stack parent = w->stacks[r->parent];
    const bool inlined = mt_frame(w->trace, (uint32_t)r->frame)->kind == MT_FRAME_INLINED;
    struct new_stack s = {parent.id, inlined && parent.renamed};
    if (!s.renamed) {
        const struct new_frame *n = frame_of(w, (uint32_t)r->frame);
        s.renamed = n->renamed;
        for (uint32_t i = 0; i < n->count; i++)
            s.id = put_new_stack(w, s.id, n->first + i);
    }
    w->stacks[w->known_stacks++] = s;
    return true;
}

/* -- definitions -- */

/* Ids in the copy. The reader has checked those of definitions, and the decoder those of rare records. */
static uint64_t new_string(struct rewriter *w, uint64_t id)
{
    return id < w->known_strings ? w->strings[id] : (fail(w, "a string is not defined"), 0);
}

static uint64_t new_frame(struct rewriter *w, uint64_t id)
{
    return id < w->known_frames ? innermost(w, (uint32_t)id) : (fail(w, "a frame is not defined"), 0);
}

static uint64_t new_stack(struct rewriter *w, uint64_t id)
{
    return id < w->known_stacks ? w->stacks[id].id : (fail(w, "a stack is not defined"), 0);
}

#define NEW_STRING(id) id = new_string(w, id)
#define NEW_FRAME(id) id = new_frame(w, id)
#define NEW_STACK(id) id = new_stack(w, id)
#define NEW_SITE(id)
#define NEW_U(v)
#define NEW_X(v)
#define NEW_Z(v)
#define NEW_A(v)
#define NEW_IP(v)
#define NEW_T(v)
#define NEW_TEXT(v)
#define NEW_BYTES(v)
#define NEW_KIND(v)
#define NEW_HOW(v)
#define NEW_HEAPKIND(v)
#define NEW_ENDING(v)
#define NEW_FRAMEKIND(v)
#define NEW_TYPE(v)
#define NEW_VM(v)
#define NEW_LINKKIND(v)
#define NEW_REACH(v)
#define NEW_COUNTS(counts) counts.kinds = 0 /* all that there are now */

/* Copy the record whose code has been read, with ids of the copy. */
static bool copy_record(struct rewriter *w, uint8_t code, struct cursor *in, struct buffer *out)
{
    switch (code) {
#define F(field, coding) NEW_##coding(r.field);
#define RECORD(NAME, name, code, fields)                                                                     \
    case REC_##NAME: {                                                                                       \
        struct rec_##name r;                                                                                 \
        if (!get_##name(in, &r))                                                                             \
            return fail(w, "a record is cut off");                                                           \
        fields put_##name(out, &r);                                                                          \
        return !w->wrong;                                                                                    \
    }
#include "memtrace/format/records.def"
#undef F
    default:
        return fail(w, "unknown record");
    }
}

/* Read a record whose meaning is in the definitions of the reader. */
#define TAKE(name, call)                                                                                     \
    {                                                                                                        \
        struct rec_##name r;                                                                                 \
        return get_##name(in, &r) ? call : fail(w, "a record is cut off");                                   \
    }

static bool take_proto(struct rewriter *w, struct cursor *in)
{
    if (w->nth)
        put_nth(&w->defs, &(struct rec_nth){w->nth});
    w->nth = 0;
    return copy_record(w, REC_PROTO, in, &w->defs);
}

/* The number of a frame's function on its line is written with the frame. */
static bool take_luaframe(struct rewriter *w)
{
    w->nth = 0;
    return take_frame(w);
}

static bool take_definition(struct rewriter *w, uint8_t code, struct cursor *in)
{
    switch (code) {
    case REC_STRING:
        TAKE(string, take_string(w, &r))
    case REC_FRAME:
        TAKE(frame, take_frame(w))
    case REC_LUAFRAME:
        TAKE(luaframe, take_luaframe(w))
    case REC_STACK:
        TAKE(stack, take_stack(w, &r))
    case REC_NTH:
        TAKE(nth, (w->nth = (uint16_t)r.nth, true))
    case REC_PROTO:
        return take_proto(w, in);
    default:
        w->sites += code == REC_SITE;
        w->heaps += code == REC_HEAP;
        w->infos += code == REC_INFO;
        return copy_record(w, code, in, &w->defs);
    }
}

static void take_definitions(struct rewriter *w, struct cursor in)
{
    const struct rec_base base = {.strings = w->texts.count,
                                  .frames = w->new_frames,
                                  .stacks = w->new_stacks,
                                  .sites = w->sites,
                                  .heaps = w->heaps,
                                  .infos = w->infos};
    struct rec_base old;
    buffer_reset(&w->defs);
    put_base(&w->defs, &base);
    bool good = cursor_byte(&in) == REC_BASE && get_base(&in, &old);
    while (good && in.p < in.end)
        good = take_definition(w, cursor_byte(&in), &in);
    if (!good || buffer_size(&w->defs) > MAX_CHUNK_RAW)
        fail(w, "the definitions of a chunk do not fit into one of the copy");
}

/* -- snapshots -- */

static bool take_link(struct rewriter *w, struct rec_link *r)
{
    if (link_has_string(r->kind))
        r->name = new_string(w, r->name);
    put_link(&w->rare, r);
    return !w->wrong;
}

static bool take_snapshot_record(struct rewriter *w, uint8_t code, struct cursor *in)
{
    if (code == REC_LINK)
        TAKE(link, take_link(w, &r))
    return copy_record(w, code, in, &w->rare);
}

static void take_snapshot(struct rewriter *w, struct cursor in)
{
    bool good = true;
    buffer_reset(&w->rare);
    while (good && in.p < in.end)
        good = take_snapshot_record(w, cursor_byte(&in), &in);
}

/* -- events -- */

/* Encode the rare records again. The time of the first is relative to that of the chunk. */
static void take_rare(struct rewriter *w, const struct chunk_header *h, struct cursor in)
{
    bool good = true;
    buffer_reset(&w->rare);
    in.time = w->rare.time = h->instructions;
    while (good && in.p < in.end)
        good = copy_record(w, cursor_byte(&in), &in, &w->rare);
}

/* Let the decoder check and apply the rare records of the chunk, which the reader needs to go on. */
static void apply_rare(struct rewriter *w, const struct chunk_header *h)
{
    struct decoder *d = &w->trace->binary.dec;
    struct mt_event e;
    while (!d->finished && !d->wrong)
        decoder_rare_event(d, &e);
    if (d->wrong)
        fail(w, d->wrong);
    w->trace->stats.events += h->events;
}

/* -- chunks -- */

static void copy_chunk(struct rewriter *w, const struct chunk_header *h, const uint8_t *payload,
                       unsigned stream, const struct buffer *anew)
{
    const struct buffer *streams[EVENT_STREAMS] = {0};
    streams[stream] = anew;
    if (anew && anew->failed)
        mt_fail_memory(&w->out.err);
    if (!w->wrong)
        chunk_writer_copy(&w->out, h, payload, streams);
}

static void take_events(struct rewriter *w, const struct chunk_header *h, const uint8_t *payload,
                        const uint8_t *raw, const uint32_t *sizes)
{
    for (unsigned i = 0; i < STREAM_RARE; i++)
        raw += sizes[i];
    apply_rare(w, h);
    if (!w->wrong)
        take_rare(w, h, (struct cursor){.p = raw, .end = raw + sizes[STREAM_RARE]});
    copy_chunk(w, h, payload, STREAM_RARE, &w->rare);
    if (w->wrong)
        w->trace->binary.dec.wrong = w->wrong;
}

/* END, if it has to be written again: files of an older version lack the counts of newer kinds of events. */
static const struct buffer *take_end(struct rewriter *w, struct cursor in)
{
    in.kinds = w->trace->binary.kinds;
    if (in.kinds == MT_KINDS)
        return NULL;
    buffer_reset(&w->rare);
    copy_record(w, cursor_byte(&in), &in, &w->rare);
    return &w->rare;
}

/* Copy a chunk that the reader has checked. The index is made anew. */
static void take(void *context, const struct chunk_header *h, const uint8_t *payload, const uint8_t *raw,
                 const uint32_t *sizes)
{
    struct rewriter *w = context;
    const struct cursor in = {.p = raw, .end = raw + sizes[0]};
    w->last = *h;
    switch (h->type) {
    case CHUNK_EVENTS:
        take_events(w, h, payload, raw, sizes);
        break;
    case CHUNK_DEFS:
        take_definitions(w, in);
        copy_chunk(w, h, payload, 0, &w->defs);
        break;
    case CHUNK_SNAPSHOT:
        take_snapshot(w, in);
        copy_chunk(w, h, payload, 0, &w->rare);
        break;
    case CHUNK_END:
        copy_chunk(w, h, payload, 0, take_end(w, in));
        break;
    case CHUNK_INDEX:
        break;
    default:
        copy_chunk(w, h, payload, 0, NULL);
    }
}

/* -- the file -- */

static bool begin(struct rewriter *w, struct mt_reader *r, int fd, const struct mt_namer *namer)
{
    *w = (struct rewriter){
        .trace = r, .namer = namer, .sites = 1, .heaps = 1, .new_frames = 1, .new_stacks = 1};
    if (!intern_init(&w->texts))
        return fail(w, s_no_memory);
    bool is_new;
    const struct rec_string empty = {{"", 0}};
    if (intern(&w->texts, "", 0, &is_new) == INTERN_FAILED || !take_string(w, &empty) || !take_frame(w) ||
        !array_grow(&w->stacks, &w->stacks_room, 1, sizeof *w->stacks))
        return fail(w, s_no_memory);
    w->frames[0] = (struct new_frame){.count = 1, .defined = true};
    w->known_stacks = 1;
    chunk_writer_init(&w->out, fd, 0);
    mt_pass_accesses(r);
    r->binary.taker = (struct chunk_taker){take, w};
    return true;
}

static void end(struct rewriter *w)
{
    w->trace->binary.taker = (struct chunk_taker){0};
    chunk_writer_free(&w->out);
    buffer_free(&w->defs);
    buffer_free(&w->rare);
    intern_free(&w->texts);
    free(w->strings);
    free(w->frames);
    free(w->stacks);
}

/* Copy all chunks. MT_END, or MT_ERROR with *err filled. */
static int copy_chunks(struct rewriter *w, struct mt_error *err)
{
    int result = MT_MORE;
    while (result == MT_MORE && !w->wrong && w->out.err.code == MT_E_NONE)
        result = binary_chunk(w->trace);
    if (w->out.err.code != MT_E_NONE)
        *err = w->out.err;
    else if (result == MT_ERROR)
        *err = *mt_reader_error(w->trace);
    else if (w->wrong)
        mt_fail(err, MT_E_CORRUPT, w->trace->binary.chunk_offset, "cannot copy the chunk at offset %llu: %s",
                (unsigned long long)w->trace->binary.chunk_offset, w->wrong);
    return err->code == MT_E_NONE ? MT_END : MT_ERROR;
}

int mt_rewrite_names(struct mt_reader *r, int fd, const struct mt_namer *namer, struct mt_error *err)
{
    struct rewriter w;
    *err = (struct mt_error){0};
    if (r->stats.is_text || r->flags & MT_OPEN_SALVAGE || r->binary.moved)
        return mt_fail(err, MT_E_CORRUPT, 0, "only a whole binary trace can be copied with other names");
    if (!begin(&w, r, fd, namer)) {
        end(&w);
        return mt_fail_memory(err);
    }
    if (copy_chunks(&w, err) == MT_END) {
        chunk_writer_index(&w.out, w.last.first_event, w.last.first_handle, w.last.instructions);
        *err = w.out.err;
    }
    end(&w);
    return err->code == MT_E_NONE ? MT_OK : MT_ERROR;
}
