/* encoder.c - encodes operations into the binary form.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/format/chunk.h"
#include "memtrace/ops/binary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Size of zstd's hash table. With 16 KB it stays in the cache with the other data, which is 10 to 20% faster than the
 * default of the level; files are 1 to 5% larger. */
#define HASH_LOG 12

static void write_header(struct ops_sink *sink, enum ops_kind kind)
{
    uint8_t header[OPS_MAGIC_SIZE + 1];
    memcpy(header, OPS_MAGIC, OPS_MAGIC_SIZE);
    header[OPS_MAGIC_SIZE] = (uint8_t)kind;
    ops_sink_write(sink, header, sizeof header);
}

static bool set_compression(ZSTD_CCtx *zstd)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, COMPRESSION_LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, HASH_LOG));
}

/* Initialize an encoder's memory of shapes; false when out of memory. */
static bool begin_shapes(struct ops_encoder *e)
{
    e->epoch = 1;
    e->n_lines = 1;
    if (!array_reserve_aligned(&e->lines, &e->lines_room, 1, sizeof *e->lines))
        return false;
    memset(e->lines, 0, sizeof *e->lines);
    return true;
}

struct ops_encoder *ops_encoder_new(struct ops_sink *sink, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err)
{
    struct ops_encoder *e = calloc(1, sizeof *e);
    size_t room = ZSTD_compressBound(OPS_BLOCK * OPS_LONGEST);
    if (e) {
        e->zstd = ZSTD_createCCtx();
        e->raw = malloc(OPS_BLOCK * OPS_LONGEST + UVARINT_BEYOND);
        e->packed = malloc(room);
        e->packed_room = room;
        e->kind = kind;
        e->total = piece.before;
        e->last = piece.last;
    }
    if (!e || !e->zstd || !e->raw || !e->packed || !set_compression(e->zstd) || !begin_shapes(e)) {
        mt_fail_memory(err);
        if (e)
            ops_encoder_finish(e, NULL);
        return NULL;
    }
    if (piece.first)
        write_header(sink, kind);
    return e;
}

/* Write a block header and its payload. */
static void write_block(struct ops_encoder *e, struct ops_sink *sink, size_t stored)
{
    uint8_t header[OPS_HEADER_SIZE] = {0};
    store_u32(header, e->count);
    store_u32(header + 4, (uint32_t)e->used);
    store_u32(header + 8, (uint32_t)stored);
    store_u64(header + 16, e->total);
    store_u64(header + 24, ops_block_hash(header, e->packed, stored));
    ops_sink_write(sink, header, sizeof header);
    ops_sink_write(sink, e->packed, stored);
}

/* Compress the current block and write it. */
static void compress_block(struct ops_encoder *e, struct ops_sink *sink)
{
    size_t stored = ZSTD_compress2(e->zstd, e->packed, e->packed_room, e->raw, e->used);
    if (ZSTD_isError(stored))
        mt_fail(&sink->err, MT_E_IO, sink->written, "cannot compress: %s", ZSTD_getErrorName(stored));
    else
        write_block(e, sink, stored);
    e->count = 0;
    e->used = 0;
}

static uint8_t *put_token(struct ops_encoder *e, uint8_t *to, enum ops_token kind)
{
    uint32_t run = e->run < TOKEN_RUN_LONG ? e->run : TOKEN_RUN_LONG;
    *to++ = (uint8_t)(OPS_RESERVED | run << 2 | kind);
    if (run == TOKEN_RUN_LONG)
        to = uvarint_write(to, e->run - run);
    e->run = 0;
    return to;
}

/* Encode steps: executions of up to `room` operations, for which the block has room. Returns the number of
 * operations. A run of predicted executions is written before anything else. */
static void end_run(struct ops_encoder *e)
{
    e->used = (size_t)(put_token(e, e->raw + e->used, TOKEN_RUN) - e->raw);
}

/* Write the block of the operations so far. */
static void end_block(struct ops_encoder *e, struct ops_sink *sink)
{
    if (e->run)
        end_run(e);
    e->total += e->count;
    compress_block(e, sink);
    memset(&e->predictor, 0, sizeof e->predictor);
    e->epoch++;
    e->names = e->previous = 0;
    e->lines[0].next[0] = e->lines[0].next[1] = 0;
}

/* Write marks if thread or time differ from those of the operation before. */
static uint8_t *put_marks(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    if (op->thread != p->thread) {
        *to++ = OPS_MARK_THREAD;
        to = uvarint_write(to, op->thread);
        p->thread = op->thread;
    }
    if (op->time != p->time) {
        *to++ = OPS_MARK_TIME;
        to = uvarint_write(to, zigzag((int64_t)(op->time - p->time)));
        p->time = op->time;
    }
    return to;
}

static uint8_t *put(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    to = put_marks(to, p, op);
    uint8_t *flags = to++;
    struct ops_guess guess = ops_guess(p, op->code);
    *flags = (uint8_t)op->code;
    if (op->handle == guess.handle)
        *flags |= OPS_HANDLE_KNOWN;
    else
        to = uvarint_write_any(to, zigzag((int64_t)(op->handle - guess.handle)));
    uint64_t *addr = ops_addr_guess(p, op->handle, op->code);
    if (op->addr == 0)
        *flags |= OPS_ADDR_ZERO;
    else
        to = uvarint_write_any(to, zigzag((int64_t)(op->addr - *addr)));
    if (op->size == guess.size)
        *flags |= OPS_SIZE_KNOWN;
    else
        to = uvarint_write_any(to, op->size);
    ops_learn(p, op);
    return to;
}

/* Is it a common lock or unlock: without address and size, and without marks? */
static inline bool is_plain_lock(const struct ops_predictor *p, const struct op *op)
{
    return op->code - OP_LOCK <= OP_UNLOCK - OP_LOCK &&
           !(op->addr | op->size | p->sizes[op->code] | (op->thread ^ p->thread) | (op->time ^ p->time));
}

/* The same as put for a plain lock whose handle takes at most two bytes. It has no branch, because branches would
 * be mispredicted here. NULL if the handle takes more bytes. */
static inline uint8_t *put_plain_lock(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    const uint64_t change = zigzag((int64_t)(op->handle - p->handle));
    const uint32_t stored = change != 0, two = change >= 0x80;
    if (change >= 0x4000)
        return NULL;
    to[0] = (uint8_t)(op->code | OPS_ADDR_ZERO | OPS_SIZE_KNOWN | (stored ? 0 : OPS_HANDLE_KNOWN));
    to[1] = (uint8_t)((change & 0x7f) | two << 7);
    to[2] = (uint8_t)(change >> 7);
    p->handle = op->handle;
    p->addrs[op->handle % OPS_PREDICTED] = 0;
    return to + 1 + stored + two;
}

static inline uint8_t *put_any(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    uint8_t *end = is_plain_lock(p, op) ? put_plain_lock(to, p, op) : NULL;
    return end ? end : put(to, p, op);
}

/* Report why an operation is not allowed in the file. */
static void refuse(const struct ops_encoder *e, struct ops_sink *sink, const struct op *op)
{
    if (!ops_allowed(e->kind, op->code))
        mt_fail(&sink->err, MT_E_FORMAT, sink->written, "operation %u is not allowed in this kind of file",
                op->code);
    else
        mt_fail(&sink->err, MT_E_FORMAT, sink->written, "%u is too large for a thread", op->thread);
}

/* Encode operations as long as the block has room, up to one that is not allowed. Returns their number. */
static size_t encode_some(struct ops_encoder *e, const struct op *ops, size_t n)
{
    uint8_t *to = e->raw + e->used;
    size_t i;
    for (i = 0; i < n && ops_allowed(e->kind, ops[i].code) && ops[i].thread <= OPS_MOST_THREADS; i++)
        to = put_any(to, &e->predictor, &ops[i]);
    e->used = (size_t)(to - e->raw);
    e->count += (uint32_t)i;
    return i;
}

void ops_encode(struct ops_encoder *e, struct ops_sink *sink, const struct op *ops, size_t n)
{
    if (n && e->run)
        end_run(e);
    while (n && sink->err.code == MT_E_NONE) {
        size_t room = OPS_BLOCK - e->count, done = encode_some(e, ops, n < room ? n : room);
        if (e->count == OPS_BLOCK)
            end_block(e, sink);
        else if (done < n)
            refuse(e, sink, ops + done);
        ops += done;
        n -= done;
    }
}

/* -- executions of shapes --
 *
 * A block ends after exactly OPS_BLOCK operations, so that parts of a file can be made in parallel. An execution that
 * does not fit into the block is written operation by operation. */

/* State of the loop over executions. Its address is passed to inline functions only, so that it stays in
 * registers. */
struct going {
    const struct mt_step *step, *counted; /* the current step; the first step that e->run does not count */
    const struct mt_place *places;
    struct ops_line *previous; /* see struct ops_encoder */
    uint32_t next;             /* see ops_put_recent */
};

/* The handles of blocks, by slot. */
struct handles {
    const uint64_t *of;
    size_t slots;
};

/* Write the name of a shape, or define it if it occurs for the first time in the block. */
static void enter_block(struct ops_encoder *e, struct ops_line *first)
{
    shape_forget(first, e->epoch);
    first->name = 0;
}

/* Which of the recent words have a handle with this low half? Bit i is for recent[i]. */
static uint32_t handles_equal(const struct ops_predictor *p, uint32_t low)
{
    uint32_t bits = 0;
#ifdef __SSE2__
    const __m128i *at = (const __m128i *)p->low, w = _mm_set1_epi32((int)low);
    const __m128i a = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(at), w),
                                      _mm_cmpeq_epi32(_mm_loadu_si128(at + 1), w)),
                  b = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(at + 2), w),
                                      _mm_cmpeq_epi32(_mm_loadu_si128(at + 3), w));
    bits = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(a, b));
#else
    for (unsigned i = 0; i < OPS_RECENT; i++)
        bits |= (uint32_t)(p->low[i] == low) << i;
#endif
    return bits;
}

/* The age of the latest recent word in a block, 1 .. OPS_RECENT - 1; 0 if there is none. */
static uint32_t find_recent(const struct ops_predictor *p, uint32_t next, uint64_t handle)
{
    uint32_t bits = handles_equal(p, (uint32_t)handle), turn = next % OPS_RECENT;
    if (!bits)
        return 0;
    for (bits = (bits >> turn | bits << (OPS_RECENT - turn)) & 0xfffe; bits;) {
        uint32_t highest = 31 - (uint32_t)__builtin_clz(bits);
        if (shape_recent(p, next, OPS_RECENT - highest).handle == handle)
            return OPS_RECENT - highest;
        bits ^= 1u << highest;
    }
    return 0;
}

/* Write a number that mostly takes one byte. The rest have unpredictable lengths. */
static inline uint8_t *put_far(uint8_t *to, uint64_t v)
{
    if (v >= 0x80)
        return uvarint_write_any(to, v);
    *to = (uint8_t)v;
    return to + 1;
}

/* Encode a word that is not as predicted. Returns its code and writes its data to *to. */
static __attribute__((noinline)) enum ops_word_code
code_word(struct ops_line *s, const struct ops_predictor *p, uint32_t next, struct ops_word w, uint8_t **to)
{
    struct ops_word other = shape_guess(s, p, next, true);
    if (other.addr == w.addr && other.handle == w.handle) {
        s->mode ^= SHAPE_FROM_RECENT;
        return SHAPE_OTHER;
    }
    uint32_t age = find_recent(p, next, w.handle);
    if (age) {
        uint64_t distance = w.addr - shape_recent(p, next, age).addr;
        *to = uvarint_write(*to, age);
        *to = uvarint_write(*to, zigzag((int64_t)distance));
        shape_learn_near(s, age, distance);
        return SHAPE_NEAR;
    }
    *to = put_far(*to, zigzag((int64_t)(w.handle - s->handle)));
    *to = put_far(*to, zigzag((int64_t)(w.addr - p->addrs[w.handle % OPS_PREDICTED])));
    return SHAPE_FAR;
}

/* Encode word `i`, which is not as predicted, and add its code to the codes. */
static __attribute__((noinline)) uint64_t miss_word(struct ops_encoder *e, struct ops_line *s, uint32_t next,
                                                    struct ops_word w, uint64_t codes, uint32_t i)
{
    if (codes == 0)
        e->about_end = e->about;
    return codes | (uint64_t)code_word(s, &e->predictor, next, w, &e->about_end) << i * SHAPE_WORD_BITS;
}

static uint8_t *put_definition(const struct ops_encoder *e, const struct ops_line *first, uint8_t *to)
{
    const struct ops_part *part = &e->parts[first->first];
    *to++ = first->count;
    *to++ = first->words;
    for (unsigned i = 0; i < first->count; i++, part++) {
        *to++ = (uint8_t)(part->code | part->word << 3);
        to = uvarint_write(to, part->offset);
        to = uvarint_write(to, part->size);
    }
    return to;
}

/* Write the name of a shape that is not the predicted one, or its definition. */
static uint8_t *put_name(struct ops_encoder *e, uint32_t line, uint8_t *to)
{
    struct ops_line *first = &e->lines[line], *previous = &e->lines[e->previous];
    if (first->name == 0) {
        first->name = ++e->names;
        to = put_definition(e, first, put_token(e, to, TOKEN_DEFINED));
    } else {
        to = put_token(e, to, TOKEN_NAMED);
        to = uvarint_write(to, previous->next[1] == line ? 0 : first->name);
    }
    shape_learn_next(previous, line);
    return to;
}

/* Write an execution that is not as predicted: its shape, its codes and the data of its words. */
static __attribute__((noinline)) void put_miss(struct ops_encoder *e, uint32_t line, uint64_t codes)
{
    uint8_t *to = e->raw + e->used;
    size_t n = codes ? (size_t)(e->about_end - e->about) : 0;
    if (e->lines[e->previous].next[0] != line)
        to = put_name(e, line, to);
    else
        to = put_token(e, to, TOKEN_WORDS);
    to = uvarint_write(to, codes);
    memcpy(to, e->about, n);
    e->used = (size_t)(to + n - e->raw);
}

/* Write an execution that is not as predicted, after `run` executions that were. */
static __attribute__((noinline)) void miss(struct ops_encoder *e, size_t run, const struct ops_line *previous,
                                           const struct ops_line *line, uint64_t codes)
{
    e->run += (uint32_t)run;
    e->previous = (uint32_t)(previous - e->lines);
    put_miss(e, (uint32_t)(line - e->lines), codes);
}

/* Find the handle of the block in a slot; false if there is none. */
static inline bool find_handle(struct handles h, uint32_t slot, uint64_t *handle)
{
    return slot < h.slots && !__builtin_sub_overflow(h.of[slot], 1, handle);
}

/* Execute a shape of n words; n is a constant where possible, so that the compiler unrolls the loops. False if a
 * word is in no block. */
__attribute__((always_inline)) static inline bool execute(struct ops_encoder *e, struct going *g,
                                                          struct ops_line *first, uint32_t line,
                                                          struct handles h, const struct mt_place *places,
                                                          const uint32_t n)
{
    uint64_t found[OPS_SHAPE_WORDS], codes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!find_handle(h, places[i].slot, &found[i]))
            return false;
    const bool known = g->previous->next[0] == line;
    if (__builtin_expect(!known && first->epoch != e->epoch, 0))
        enter_block(e, first);
    for (uint32_t i = 0; i < n; i++) {
        struct ops_line *s = &first[i];
        const struct ops_word guess = shape_guess(s, &e->predictor, g->next, false),
                              w = {places[i].addr, found[i]};
        if (__builtin_expect(guess.addr != w.addr || guess.handle != w.handle, 0))
            codes = miss_word(e, s, g->next, w, codes, i);
        shape_learn(s, &e->predictor, g->next++, w);
    }
    if (__builtin_expect(!known || codes, 0)) {
        miss(e, (size_t)(g->step - g->counted), g->previous, first, codes);
        g->counted = g->step + 1;
    }
    g->previous = first;
    return true;
}

/* Gather the places of the words that are in blocks. Exactly the words in `absent` must be in none; returns the
 * number of all words, 0 if that is not so. */
static __attribute__((noinline)) uint32_t gather_present(struct mt_place *to, const struct mt_place *places,
                                                         uint32_t present, uint32_t absent)
{
    uint32_t n = 0;
    for (; present || absent; n++, absent >>= 1) {
        if ((absent & 1) != (places[n].slot == MT_NO_SLOT))
            return 0;
        if (absent & 1)
            continue;
        *to++ = places[n];
        present--;
    }
    return n;
}

/* The same if all absent words follow the present ones, which then need not be moved. */
static inline uint32_t pass_absent(const struct mt_place *places, uint32_t present, uint32_t absent)
{
    const uint32_t n = 32 - (uint32_t)__builtin_clz(absent);
    for (uint32_t i = present; i < n; i++)
        if (places[i].slot != MT_NO_SLOT)
            return 0;
    return n;
}

/* The places of the words that are in blocks, when some words are absent. *all is the number of all words, 0 if
 * other words than these are absent. */
static inline const struct mt_place *find_present(struct mt_place *to, const struct mt_place *places,
                                                  uint32_t present, uint32_t absent, uint32_t *all)
{
    if (absent >> present << present == absent) {
        *all = pass_absent(places, present, absent);
        return places;
    }
    *all = gather_present(to, places, present, absent);
    return to;
}

/* Encode the current execution. False if it is not of the shape that its segment had last. */
__attribute__((always_inline)) static inline bool execute_step(struct ops_encoder *e, struct going *g,
                                                               struct ops_line *lines, struct handles h,
                                                               struct ops_shape_of shape,
                                                               struct mt_place *present)
{
    struct ops_line *first = &lines[shape.shape];
    const uint32_t n = first->words;
    const struct mt_place *places = g->places;
    uint32_t all = n;
    if (n == 1 && !shape.absent) {
        g->places++;
        return execute(e, g, first, shape.shape, h, places, 1);
    }
    if (shape.absent) {
        places = find_present(present, places, n, shape.absent, &all);
        if (all == 0)
            return false;
    }
    g->places += all;
    return execute(e, g, first, shape.shape, h, places, n);
}

/* Copy the state of the loop back to the encoder and the caller. */
static inline void end_executions(struct ops_encoder *e, struct ops_executions *x, const struct going *g)
{
    if (g->step > x->step)
        e->predictor.handle = g->previous[g->previous->words - 1].handle;
    e->run += (uint32_t)(g->step - g->counted);
    e->previous = (uint32_t)(g->previous - e->lines);
    e->predictor.recent_next = g->next;
    x->step = g->step;
    x->places = g->places;
}

/* Encode steps: executions of up to `room` operations, for which the block has room. Returns the number of
 * operations. A run of predicted executions is written before anything else. */
static uint32_t execute_some(struct ops_encoder *e, struct ops_executions *x, uint32_t room)
{
    struct going g = {x->step, x->step, x->places, &e->lines[e->previous], e->predictor.recent_next};
    const struct handles h = {x->handles, x->slots};
    const struct ops_shape_of *shapes = x->shapes;
    const struct mt_step *end = x->end;
    const size_t n_shapes = x->n_shapes;
    struct mt_place present[OPS_SHAPE_WORDS];
    struct ops_line *lines = e->lines;
    uint32_t left = room;
    for (; g.step < end; g.step++) {
        const uint32_t segment = g.step->segment, count = g.step->count;
        const struct mt_place *places = g.places;
        if (count > left || segment >= n_shapes || shapes[segment].shape == 0)
            break;
        if (!execute_step(e, &g, lines, h, shapes[segment], present)) {
            g.places = places;
            break;
        }
        left -= count;
    }
    end_executions(e, x, &g);
    return room - left;
}

void ops_encode_executions(struct ops_encoder *e, struct ops_sink *sink, struct ops_executions *x)
{
    bool ended;
    do {
        uint32_t room = OPS_BLOCK - e->count;
        uint32_t done = execute_some(e, x, x->left < room ? (uint32_t)x->left : room);
        e->count += done;
        x->left -= done;
        ended = e->count == OPS_BLOCK;
        if (ended)
            end_block(e, sink);
    } while (ended && x->step < x->end && sink->err.code == MT_E_NONE);
}

void ops_encode_survivors(struct ops_encoder *e, struct ops_sink *sink, const uint64_t *ordinals, size_t n)
{
    uint64_t next = 0;
    if (e->kind != OPS_ACCESS || !e->last)
        return;
    if (e->count)
        end_block(e, sink);
    do {
        e->used = id_list_write(e->raw, &ordinals, &n, &next);
        compress_block(e, sink);
    } while (n && sink->err.code == MT_E_NONE);
}

void ops_encoder_finish(struct ops_encoder *e, struct ops_sink *sink)
{
    if (sink && e->count)
        end_block(e, sink);
    if (sink && e->count == 0 && e->last)
        write_block(e, sink, 0);
    ZSTD_freeCCtx(e->zstd);
    free(e->raw);
    free(e->packed);
    free(e->lines);
    free(e->parts);
    free(e);
}

uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words)
{
    uint32_t line = e->n_lines;
    if (!array_reserve_aligned(&e->lines, &e->lines_room, line + words, sizeof *e->lines) ||
        !array_reserve(&e->parts, &e->parts_room, e->n_parts + count, sizeof *e->parts))
        return 0;
    memset(&e->lines[line], 0, words * sizeof *e->lines);
    e->lines[line].first = e->n_parts;
    e->lines[line].count = (uint8_t)count;
    e->lines[line].words = (uint8_t)words;
    memcpy(e->parts + e->n_parts, parts, count * sizeof *parts);
    e->n_parts += count;
    e->n_lines = line + words;
    return line;
}
