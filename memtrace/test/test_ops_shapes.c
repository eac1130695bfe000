/* test_ops_shapes.c - executions of shapes in binary ops files. They are read as the operations that they contain,
 * the bytes do not depend on the number of writers, and no crafted block yields more operations than its header says.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support_ops.h"

#include "memtrace/ops/binary.h"
#include "memtrace/ops/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHAPES = 40, STEPS = 200000, MOST = STEPS * 6 };

struct shape {
    struct ops_part parts[OPS_SHAPE_MOST];
    unsigned count, words;
};

/* A history of executions and single operations. */
struct history {
    struct shape shapes[SHAPES];
    struct {
        int shape; /* -1: the next operation is a single one */
        struct ops_word words[OPS_SHAPE_WORDS];
    } steps[STEPS];
    struct op *ops; /* all operations */
    size_t n;
};

static void make_shape(struct shape *s, uint64_t *seed, bool large)
{
    s->words = 1 + (unsigned)random_below(seed, large ? OPS_SHAPE_WORDS : 3);
    s->count = s->words + (unsigned)random_below(seed, large ? OPS_SHAPE_MOST - s->words + 1 : 3);
    for (unsigned i = 0; i < s->count; i++)
        s->parts[i] = (struct ops_part){.size = large ? (uint32_t)random_next(seed) : 8,
                                        .offset = (uint16_t)random_next(seed),
                                        .code = (uint8_t)(OP_LOAD + random_below(seed, 3)),
                                        .word = (uint8_t)(i < s->words ? i : random_below(seed, s->words))};
}

/* The place of a word, as programs use them: in loops over arrays, in fields of recent objects, and anywhere. */
static struct ops_word place(uint64_t *seed, size_t step, unsigned word, struct ops_word before)
{
    switch (random_below(seed, 8)) {
    case 0:
        return (struct ops_word){random_next(seed) >> random_below(seed, 64),
                                 random_next(seed) >> random_below(seed, 64)};
    case 1:
        return (struct ops_word){before.addr + 24, before.handle};
    default:
        return (struct ops_word){4096 * (word + 1) + 8 * step, word};
    }
}

static struct op alone(uint64_t *seed, uint64_t handle)
{
    static const uint32_t codes[] = {OP_NEW, OP_FREE, OP_RESIZE, OP_LOAD};
    return (struct op){
        handle, random_next(seed) >> 20, random_below(seed, 100), codes[random_below(seed, 4)], 0, 0};
}

static void expand(struct history *h, const struct shape *s, const struct ops_word *words)
{
    for (unsigned i = 0; i < s->count; i++) {
        const struct ops_part *p = &s->parts[i];
        h->ops[h->n++] =
            (struct op){words[p->word].handle, words[p->word].addr + p->offset, p->size, p->code, 0, 0};
    }
}

static void add_step(struct history *h, size_t i, uint64_t *seed)
{
    struct ops_word before = {0, 0};
    h->steps[i].shape =
        random_below(seed, 20) ? (int)(random_below(seed, 9) ? i % 7 : random_below(seed, SHAPES)) : -1;
    if (h->steps[i].shape < 0) {
        h->ops[h->n++] = alone(seed, i);
        return;
    }
    const struct shape *s = &h->shapes[h->steps[i].shape];
    for (unsigned w = 0; w < s->words; w++)
        before = h->steps[i].words[w] = place(seed, i, w, before);
    expand(h, s, h->steps[i].words);
}

static struct history *make_history(void)
{
    struct history *h = calloc(1, sizeof *h);
    uint64_t seed = 5;
    h->ops = calloc(MOST, sizeof *h->ops);
    for (unsigned i = 0; i < SHAPES; i++)
        make_shape(&h->shapes[i], &seed, i >= SHAPES - 4);
    for (size_t i = 0; i < STEPS; i++)
        add_step(h, i, &seed);
    assert_true(h->n > 2 * OPS_PIECE && h->n <= MOST);
    return h;
}

static void free_history(struct history *h)
{
    free(h->ops);
    free(h);
}

/* Executions as in a trace: shape k is segment k + 1, and each word has a slot of its own. */
struct batch {
    struct mt_step steps[STEPS];
    struct mt_place places[STEPS * OPS_SHAPE_WORDS];
    uint64_t handles[STEPS * OPS_SHAPE_WORDS];
    struct ops_shape_of shapes[SHAPES + 1];
    size_t n, used;
};

static void gather(struct batch *b, struct ops_writer *w, const struct history *h, size_t i)
{
    int k = h->steps[i].shape;
    const struct shape *s = &h->shapes[k];
    if (b->shapes[k + 1].shape == 0)
        b->shapes[k + 1].shape = ops_writer_shape(w, s->parts, s->count, s->words);
    b->steps[b->n++] = (struct mt_step){.segment = (uint32_t)k + 1, .count = (uint16_t)s->count};
    for (unsigned word = 0; word < s->words; word++, b->used++) {
        b->places[b->used] = (struct mt_place){h->steps[i].words[word].addr, (uint32_t)b->used};
        b->handles[b->used] = h->steps[i].words[word].handle + 1;
    }
}

/* The next execution, operation by operation. */
static void write_alone(struct ops_writer *w, const struct history *h, struct ops_executions *x)
{
    const struct shape *s = &h->shapes[x->step->segment - 1];
    struct op ops[OPS_SHAPE_MOST];
    for (unsigned i = 0; i < s->count; i++) {
        const struct mt_place *place = &x->places[s->parts[i].word];
        ops[i] = (struct op){x->handles[place->slot] - 1,
                             place->addr + s->parts[i].offset,
                             s->parts[i].size,
                             s->parts[i].code,
                             0,
                             0};
    }
    ops_write(w, ops, s->count);
    x->step++;
    x->places += s->words;
}

/* Write the gathered executions; those for which a block of the file has no room, operation by operation. */
static void write_batch(struct ops_writer *w, const struct history *h, struct batch *b)
{
    struct ops_executions x = {b->steps,   b->steps + b->n, b->places, b->shapes,
                               SHAPES + 1, b->handles,      b->used,   UINT64_MAX};
    while (x.step < x.end) {
        ops_write_executions(w, &x);
        if (x.step < x.end)
            write_alone(w, h, &x);
    }
    b->n = b->used = 0;
}

/* Write the operations from `from` to `to`; executions that cross a border, operation by operation. */
static void write_part(const struct history *h, struct ops_writer *w, size_t from, size_t to)
{
    struct batch *b = calloc(1, sizeof *b);
    for (size_t i = 0, at = 0, n; i < STEPS && at < to; i++, at += n) {
        int k = h->steps[i].shape;
        n = k < 0 ? 1 : h->shapes[k].count;
        if (at + n <= from)
            continue;
        size_t first = at > from ? at : from, end = at + n < to ? at + n : to;
        if (k >= 0 && end - first == n) {
            gather(b, w, h, i);
            write_batch(w, h, b);
        } else
            ops_write(w, h->ops + first, end - first);
    }
    free(b);
}

/* The bytes of one piece of a file. */
static struct bytes piece_of(const struct history *h, size_t from, size_t to)
{
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_piece piece = {from, from == 0, to == h->n};
    struct ops_writer *w = ops_writer_piece(fd, OPS_BINARY, OPS_ACCESS, piece, &err);
    write_part(h, w, from, to);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    struct bytes b = memory_bytes(fd);
    close(fd);
    return b;
}

static void test_read_back(void **state)
{
    struct history *h = make_history();
    struct bytes file = piece_of(h, 0, h->n), plain = packed(h->ops, h->n, OPS_BINARY, OPS_ACCESS);
    struct result out = read_back(file.data, file.size, h->ops, OPS_UNKNOWN);
    assert_int_equal(out.last, MT_END);
    assert_int_equal(out.count, h->n);
    assert_int_equal(out.equal, h->n);
    assert_true(file.size < plain.size);
    free(file.data);
    free(plain.data);
    free_history(h);
}

static void test_passing_accesses(void **state)
{
    struct history *h = make_history();
    struct bytes file = piece_of(h, 0, h->n);
    size_t kept = 0;
    for (size_t i = 0; i < h->n; i++)
        if (h->ops[i].code < OP_LOAD || h->ops[i].code > OP_MODIFY) {
            h->ops[kept] = h->ops[i];
            h->ops[kept++].addr = 0;
        }
    struct result out = read_back_passing(file.data, file.size, h->ops);
    assert_int_equal(out.last, MT_END);
    assert_true(kept > 0 && kept < h->n);
    assert_int_equal(out.count, kept);
    assert_int_equal(out.equal, kept);
    free(file.data);
    free_history(h);
}

/* All executions in one batch and one by one: the bytes are the same. */
static struct bytes executions_of(const struct history *h, size_t batch)
{
    struct batch *b = calloc(1, sizeof *b);
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, OPS_BINARY, OPS_ACCESS, &err);
    for (size_t i = 0; i < STEPS; i++) {
        if (h->steps[i].shape >= 0)
            gather(b, w, h, i);
        if (b->n == batch)
            write_batch(w, h, b);
    }
    write_batch(w, h, b);
    free(b);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    struct bytes bytes = memory_bytes(fd);
    close(fd);
    return bytes;
}

/* Steps that cannot be written remain: events, an unknown shape, a word in no block or absent although the shape
 * has it, and more operations than requested. Words that the shape omits are skipped. */
static void test_what_stays(void **state)
{
    struct mt_error err;
    const struct ops_part parts[] = {{8, 0, OP_LOAD, 0}, {8, 0, OP_LOAD, 1}};
    struct ops_writer *w = ops_writer_open(memory_file("", 0), OPS_BINARY, OPS_ACCESS, &err);
    const struct ops_shape_of shapes[] = {{0, 0},
                                          {ops_writer_shape(w, parts, 2, 2), 0},
                                          {ops_writer_shape(w, parts, 1, 1), 2},
                                          {0, 0},
                                          {ops_writer_shape(w, parts, 1, 1), 1}};
    const uint64_t handles[] = {7, 0};
    const struct mt_place both[] = {{64, 0}, {72, 0}}, dead[] = {{64, 0}, {72, 1}},
                          one[] = {{64, 0}, {0, MT_NO_SLOT}}, last[] = {{0, MT_NO_SLOT}, {64, 0}},
                          none[] = {{0, MT_NO_SLOT}, {0, MT_NO_SLOT}};
    const struct {
        uint32_t segment;
        const struct mt_place *places;
        uint64_t left;
        bool taken;
    } cases[] = {{1, both, 2, true},   {1, both, 1, false}, {1, dead, 2, false}, {1, one, 2, false},
                 {2, one, 2, true},    {2, both, 2, false}, {2, none, 2, false}, {3, both, 2, false},
                 {99, both, 2, false}, {0, both, 2, false}, {4, last, 2, true},  {4, both, 2, false},
                 {4, one, 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mt_step step = {.segment = cases[i].segment,
                                     .count = shapes[cases[i].segment % 5].absent ? 1 : 2};
        struct ops_executions x = {&step, &step + 1, cases[i].places, shapes, 5, handles, 2, cases[i].left};
        ops_write_executions(w, &x);
        assert_int_equal(x.step - &step, cases[i].taken);
        assert_int_equal(x.places - cases[i].places, cases[i].taken ? 2 : 0);
        assert_int_equal(x.left, cases[i].left - (cases[i].taken ? step.count : 0));
    }
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
}

static void test_batches(void **state)
{
    struct history *h = make_history();
    struct bytes single = executions_of(h, 1);
    static const size_t batches[] = {7, 512, STEPS};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct bytes many = executions_of(h, batches[i]);
        assert_int_equal(many.size, single.size);
        assert_memory_equal(many.data, single.data, single.size);
        free(many.data);
    }
    free(single.data);
    free_history(h);
}

static void test_pieces(void **state)
{
    struct history *h = make_history();
    struct bytes whole = piece_of(h, 0, h->n), joined = {0};
    for (size_t from = 0; from < h->n; from += OPS_PIECE) {
        struct bytes piece = piece_of(h, from, from + OPS_PIECE < h->n ? from + OPS_PIECE : h->n);
        append_bytes(&joined, piece.data, piece.size);
        free(piece.data);
    }
    assert_int_equal(joined.size, whole.size);
    assert_memory_equal(joined.data, whole.data, whole.size);
    free(joined.data);
    free(whole.data);
    free_history(h);
}

/* A file of one block with the given payload and matching headers. */
static struct bytes crafted(const uint8_t *payload, size_t size, uint32_t count)
{
    uint8_t header[OPS_HEADER_SIZE] = {0}, end[OPS_HEADER_SIZE] = {0}, stored[4096];
    struct bytes file = {0};
    size_t n = ZSTD_compress(stored, sizeof stored, payload, size, 1);
    assert_false(ZSTD_isError(n));
    store_u32(header, count);
    store_u32(header + 4, (uint32_t)size);
    store_u32(header + 8, (uint32_t)n);
    store_u64(header + 16, count);
    store_u64(header + 24, ops_block_hash(header, stored, n));
    store_u64(end + 16, count);
    store_u64(end + 24, ops_block_hash(end, stored, 0));
    append_bytes(&file, OPS_MAGIC "\1", OPS_MAGIC_SIZE + 1);
    append_bytes(&file, header, sizeof header);
    append_bytes(&file, stored, n);
    append_bytes(&file, end, sizeof end);
    return file;
}

static struct result read_crafted(const uint8_t *payload, size_t size, uint32_t count)
{
    static const struct op none[OPS_PIECE];
    struct bytes file = crafted(payload, size, count);
    struct result out = read_back(file.data, file.size, none, OPS_UNKNOWN);
    free(file.data);
    return out;
}

/* A definition of one load of 8 bytes with its execution, then a run of 30 more, once the shape follows itself. */
#define DEFINED "\x83\1\1\2\0\x08\0"
#define AGAIN "\x82\1\0"
#define RUN_30 "\xf8"

static const struct {
    const char *payload;
    size_t size;
    uint32_t count;
    bool good;
} s_crafted[] = {
#define CASE(text, count, good)                                                                              \
    {                                                                                                        \
        text, sizeof(text) - 1, count, good                                                                  \
    }
    CASE(DEFINED, 1, true),
    CASE(DEFINED AGAIN RUN_30, 32, true),
    CASE(DEFINED DEFINED, 1, false),                      /* an operation more than the block says */
    CASE(DEFINED AGAIN RUN_30, 31, false),                /* the run is longer than the block */
    CASE(DEFINED AGAIN RUN_30, 33, false),                /* shorter */
    CASE(DEFINED RUN_30, 31, false),                      /* nothing has followed the shape yet */
    CASE(DEFINED "\x80", 1, false),                       /* an empty token after the last operation */
    CASE(DEFINED "\x80" DEFINED, 2, false),               /* a run of none */
    CASE("\xf8", 30, false),                              /* a run of nothing */
    CASE("\x82\1\0", 1, false),                           /* a shape that is not defined */
    CASE("\x82\0\0", 1, false),                           /* the second guess of nothing */
    CASE("\x83\1\2\2\0\x08\0", 1, false),                 /* more words than parts */
    CASE("\x83\1\0\2\0\x08\0", 1, false),                 /* no words */
    CASE("\x83\0\0\0", 1, false),                         /* no parts */
    CASE("\x83\2\1\2\0\x08\2\0\x08\0", 1, false),         /* more parts than the block has operations */
    CASE("\x83\1\1\x0a\0\x08\0", 1, false),               /* a part of a word that is not there */
    CASE("\x83\1\1\0\0\x08\0", 1, false),                 /* a New is no part */
    CASE("\x83\1\1\5\0\x08\0", 1, false),                 /* nor is a Lock */
    CASE("\x83\1\1\2\x80\x80\x04\x08\0", 1, false),       /* an offset of 65536 */
    CASE("\x83\1\1\2\0\x80\x80\x80\x80\x10\0", 1, false), /* a size of 2^32 */
    CASE("\x83\1\1\2\0\x08\4", 1, false),                 /* codes of more words than there are */
    CASE("\x83\1\1\2\0\x08\2\0\0", 1, false),             /* no word is 0 back */
    CASE("\x83\1\1\2\0\x08\2\x10\0", 1, false),           /* or 16 */
    CASE("\x83\1\1\2\0\x08\2\0", 1, false),               /* nor if nothing follows it */
    CASE("\x83\1\1\2\0\x08\2\x10", 1, false),
    CASE("\x83\1\1\2\0\x08\2\x0f\0", 1, true),
    CASE("\x83\1\1\2\0\x08\3\2\2", 1, true),
    CASE("\x83\1\1\2\0", 1, false), /* cut off */
    CASE("\xfc", 31, false),
#undef CASE
};

static void test_crafted(void **state)
{
    for (size_t i = 0; i < sizeof s_crafted / sizeof *s_crafted; i++) {
        struct result out =
            read_crafted((const uint8_t *)s_crafted[i].payload, s_crafted[i].size, s_crafted[i].count);
        if (out.last != (s_crafted[i].good ? MT_END : MT_ERROR))
            fail_msg("case %zu: %s", i, out.err.text);
        assert_int_equal(out.count, s_crafted[i].good ? s_crafted[i].count : 0);
    }
}

/* A payload of pieces of those above, with some bytes changed. Returns its size. */
static size_t random_payload(uint8_t *to, size_t room, uint64_t *seed)
{
    size_t n = 0;
    for (;;) {
        size_t k = random_below(seed, 3) ? random_below(seed, 2)
                                         : random_below(seed, sizeof s_crafted / sizeof *s_crafted);
        if (n + s_crafted[k].size > room)
            return n;
        memcpy(to + n, s_crafted[k].payload, s_crafted[k].size);
        if (random_below(seed, 4) == 0)
            to[n + random_below(seed, s_crafted[k].size)] = (uint8_t)random_next(seed);
        n += s_crafted[k].size;
    }
}

/* A payload is read or rejected, but never delivers more operations than its header says. */
static void test_random_payloads(void **state)
{
    uint64_t seed = 11;
    for (int round = 0; round < 5000; round++) {
        uint8_t payload[200];
        size_t n = random_payload(payload, 1 + random_below(&seed, sizeof payload - 1), &seed);
        uint32_t count = 1 + (uint32_t)random_below(&seed, 300);
        assert_true(n == 0 || read_crafted(payload, n, count).count <= count);
    }
}

/* Each combination of absent words of a segment is defined once, in whatever order the combinations occur. */
static void test_combinations(void **state)
{
    const struct mt_segment_word words[] = {{.first = 0, .words = 3, .count = 3}, {0}, {0}};
    const struct mt_segment_access accesses[] = {
        {0, 8, 0, MT_LOAD, 0}, {0, 8, 0, MT_STORE, 1}, {0, 8, 0, MT_MODIFY, 2}};
    const struct mt_batch batch = {.segments = words, .accesses = accesses, .n_segments = 3};
    struct mt_error err;
    struct opshapes shapes = {0};
    uint32_t known[7] = {0};
    uint64_t seed = 5;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, OPS_BINARY, OPS_ACCESS, &err);
    for (unsigned i = 0; i < 1000; i++) {
        const uint32_t absent = i < 14 ? i % 7 : (uint32_t)random_below(&seed, 7);
        opshapes_find(&shapes, w, &batch, 0, absent);
        assert_int_equal(shapes.latest[0].absent, absent);
        assert_true(i < 7 ? !known[absent] : known[absent] == shapes.latest[0].shape);
        known[absent] = shapes.latest[0].shape;
    }
    opshapes_free(&shapes);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    close(fd);
}

/* A text writer has no shapes and returns that. */
static void test_text(void **state)
{
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, OPS_TEXT, OPS_ACCESS, &err);
    assert_int_equal(ops_writer_shape(w, &(struct ops_part){8, 0, OP_LOAD, 0}, 1, 1), 0);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_passing_accesses),
        cmocka_unit_test(test_crafted),
        cmocka_unit_test(test_random_payloads),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
