/* ops.h - reads and writes ops and lockops files, the input of a replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An ops file is a memtrace reduced to handles: `HANDLE OP ADDR SIZE` per line. Two kinds share the
 * syntax and differ in what `L` means:
 *   ops      N new, F free, R resize, L load, S store, M modify
 *   lockops  N new, F free, R resize, L lock, U unlock, O compact
 * A resize keeps the handle and gives the new address and size. Lines that begin with '#' are comments, except
 * `# thread N` and `# time N`, which give the thread and the time of the operations that follow.
 * Both kinds also have a compact binary form (docs/ops-format.md), whose header gives the kind.
 * The reader accepts text and binary, plain and zstd files, and "-".
 */
#ifndef MEMTRACE_OPS_H
#define MEMTRACE_OPS_H

#include "memtrace/memtrace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ops_kind {
    OPS_UNKNOWN, /* find out: by the name's ending (-lockops, -lockopsfull), else by content: the first
                    op that only one kind has (S M R: ops; U O: lockops; L: lockops iff address and size
                    are 0), else ops; binary files say it */
    OPS_ACCESS,  /* -ops */
    OPS_LOCK     /* -lockops, -lockopsfull */
};

/* What an operation does, free of the double meaning of 'L'. */
enum ops_code {
    OP_NEW,
    OP_FREE,
    OP_LOAD,
    OP_STORE,
    OP_MODIFY,
    OP_LOCK,
    OP_UNLOCK,
    OP_COMPACT,
    OP_RESIZE,
    OP_CODES
};

struct op {
    uint64_t handle;
    uint64_t addr;
    uint64_t size;
    uint32_t code;   /* enum ops_code */
    uint32_t thread; /* 1 to OPS_MOST_THREADS; 0 = the file does not say */
    uint64_t time;   /* instructions executed before it, or shortly before; 0 = the file does not say */
};
#define OPS_MOST_THREADS 65535

struct ops_reader;

/* Open a file. It is an error if a binary file is of another kind than `hint`. NULL on error, with *err filled. */
struct ops_reader *ops_open(const char *path, enum ops_kind hint, struct mt_error *err);
enum ops_kind ops_reader_kind(const struct ops_reader *r);
bool ops_reader_is_binary(const struct ops_reader *r);
/* The next operations in file order; as mt_next. For text mt_error.offset is the line number, from 1. */
int ops_next(struct ops_reader *r, const struct op **ops, size_t *n);
/* Call before the first ops_next: leave out loads, stores and modifies of a binary file. This is faster. The other
 * operations may have the address 0. Has no effect on text. */
void ops_pass_accesses(struct ops_reader *r);
/* Call before the first ops_next: a second N of a live handle, and an F or R of a handle that is not live, are then
 * damage at that operation. False when out of memory. */
bool ops_reader_check(struct ops_reader *r);
/* With ops_reader_check: how many N and R so far made a block at the address of a live one. */
uint64_t ops_reader_shared(const struct ops_reader *r);
/* The line, from 1, of operation i of the array that the last ops_next returned; 0 if the file is binary. */
uint64_t ops_reader_line(const struct ops_reader *r, size_t i);
/* The trace in a file that ops_copier_new made; NULL for other files. The reader owns it. The caller may read it
 * instead of calling ops_next. */
struct mt_reader *ops_reader_trace(struct ops_reader *r);
/* Is a Resize of that trace one R, instead of an F and an N? */
bool ops_reader_resizes(const struct ops_reader *r);
const struct mt_error *ops_reader_error(const struct ops_reader *r);
uint64_t ops_reader_bytes(const struct ops_reader *r, uint64_t *total);
void ops_close(struct ops_reader *r);

/* Read the list of blocks that are never freed, which is at the end of a file: *n ordinals in ascending order, which
 * the caller frees. False if the file has no list, is not seekable, or is damaged there. The list is checked against
 * the operations when these are read. */
bool ops_read_survivors(const char *path, uint64_t **ordinals, size_t *n);

enum ops_form { OPS_TEXT, OPS_TEXT_ZSTD, OPS_BINARY };

struct ops_writer;
/* Write an ops file to a descriptor, which the caller closes. Output is buffered; the first error is kept. In text,
 * threads and times are written where they change, so not at all if all are 0. The kind (not OPS_UNKNOWN) matters for
 * OPS_BINARY only, which accepts no operations of the other kind. */
struct ops_writer *ops_writer_open(int fd, enum ops_form form, enum ops_kind kind, struct mt_error *err);
/* A piece of a file that several writers make, one after the other or at the same time. All pieces, in order, are the
 * file that one writer would make. Each piece but the last has a multiple of OPS_PIECE operations. OPS_TEXT_ZSTD
 * cannot be written in pieces. */
#define OPS_PIECE 262144
struct ops_piece {
    uint64_t before;  /* operations in the pieces before this one */
    bool first, last; /* the first has the file's header, the last its end */
};
struct ops_writer *ops_writer_piece(int fd, enum ops_form form, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err);
void ops_write(struct ops_writer *w, const struct op *ops, size_t n);

/* A *shape* is a run of accesses whose blocks and addresses can be computed from a few words. Programs execute the
 * same shapes again and again. Writing the executions of a shape is several times faster than writing their accesses,
 * and takes fewer bytes in binary form. Readers get the same operations. */
#define OPS_SHAPE_MOST 64
#define OPS_SHAPE_WORDS 21
struct ops_part {
    uint32_t size;
    uint16_t offset; /* from the address of its word */
    uint8_t code;    /* OP_LOAD, OP_STORE or OP_MODIFY */
    uint8_t word;
};
struct ops_word {
    uint64_t addr, handle;
};
/* Define a shape of 1 to OPS_SHAPE_MOST parts and 1 to OPS_SHAPE_WORDS words, each used by a part. Returns its number,
 * or 0 if the form has no shapes (text) or memory is out; the latter is reported by ops_writer_finish. */
uint32_t ops_writer_shape(struct ops_writer *w, const struct ops_part *parts, unsigned count, unsigned words);

/* The shape to which the executions of a segment (reader.h) belong. */
struct ops_shape_of {
    uint32_t shape;  /* 0 = not known */
    uint32_t absent; /* bit i: the shape lacks word i of the segment, because it is in no block */
};
/* Steps that were read from a trace, without threads and times, and are not yet written. */
struct ops_executions {
    const struct mt_step *step, *end;
    const struct mt_place *places;     /* of the words of all steps, in order */
    const struct ops_shape_of *shapes; /* by segment */
    size_t n_shapes;
    const uint64_t *handles; /* by slot: handle of the live block + 1; 0 = none */
    size_t slots;
    uint64_t left; /* at most so many operations are written */
};
/* Write the next steps in binary form. Ends before a step that is not an execution of a known shape, that exceeds
 * `left`, or that has to be written as single operations because the file's block of operations ends within it. step,
 * places and left are advanced. */
void ops_write_executions(struct ops_writer *w, struct ops_executions *x);

/* Call after all operations of a binary ops file, if it is known which blocks of the whole file are never freed.
 * ordinals: for each of these blocks, in ascending order, the number of N before its own. Has no effect on other files,
 * and on pieces other than the last. */
void ops_writer_survivors(struct ops_writer *w, const uint64_t *ordinals, size_t n);

/* Makes a binary ops file from a trace, several times faster than by single operations, because the encoded accesses
 * are copied. Readers get the operations of the trace, without threads and times. The trace must have just been
 * opened; the caller still owns it. */
struct ops_copier;
/* Is that possible? Not if the trace is text, or read with MT_OPEN_SALVAGE or in parts. */
bool ops_can_copy(const struct mt_reader *trace);
struct ops_copier *ops_copier_new(struct mt_reader *trace, int fd, bool resizes, struct mt_error *err);
/* Copy the next chunk. Returns MT_MORE; MT_END at the end, and when writing has failed; MT_ERROR when reading has
 * failed (see mt_reader_error): the file then has all that precedes the error. */
int ops_copier_next(struct ops_copier *c);
uint64_t ops_copier_operations(const struct ops_copier *c); /* so far */
/* Write the end of the file. Returns and frees as ops_writer_finish. */
int ops_copier_finish(struct ops_copier *c, struct mt_error *err);

int ops_writer_finish(struct ops_writer *w, struct mt_error *err);

char ops_letter(enum ops_code c);

#ifdef __cplusplus
}
#endif
#endif
