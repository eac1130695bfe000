/* ops.h - ops and lockops files: what allocators are replayed from.
 *
 * An ops file is a memtrace reduced to handles: `HANDLE OP ADDR SIZE` per line. Two kinds share the
 * syntax and differ in what `L` means:
 *   ops      N new, F free, R resize, L load, S store, M modify
 *   lockops  N new, F free, R resize, L lock, U unlock, O compact
 * A resize keeps the handle and gives the new address and size. Lines that begin with '#' are comments, but
 * `# thread N` and `# time N` tell which thread does the operations that follow, and when.
 * There is a compact binary form of both (docs/ops-format.md), which says itself which kind it is.
 * The reader takes text and binary, plain and zstd files and "-".
 * Text is read at full speed with bounds checks; an error names file, line and what was expected.
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
    uint32_t thread; /* who does it, up to OPS_MOST_THREADS; 0 = the file does not say */
    uint64_t time;   /* instructions executed until then or shortly before; 0 = the file does not say */
};
#define OPS_MOST_THREADS 65535

struct ops_reader;

/* A hint that a binary file contradicts is an error. */
struct ops_reader *ops_open(const char *path, enum ops_kind hint, struct mt_error *err);
enum ops_kind ops_reader_kind(const struct ops_reader *r);
bool ops_reader_is_binary(const struct ops_reader *r);
/* The next operations in file order; as mt_next. For text mt_error.offset is the line number, from 1. */
int ops_next(struct ops_reader *r, const struct op **ops, size_t *n);
/* Before the first ops_next: leave out loads, stores and modifies of a binary file, and tell of the others
 * perhaps no address (0), which is faster. Text has them all the same. */
void ops_pass_accesses(struct ops_reader *r);
/* Before the first ops_next: have it refuse a second N of a live handle, and an F or R of a handle that is not
 * live, as damage at that operation. False: out of memory. */
bool ops_reader_check(struct ops_reader *r);
/* With ops_reader_check: the N and R until now that made a block at the address of a live one. */
uint64_t ops_reader_shared(const struct ops_reader *r);
/* The line, from 1, of operation i of those that the last ops_next gave; 0 if the file is binary. */
uint64_t ops_reader_line(const struct ops_reader *r, size_t i);
/* The trace in a file that ops_copier_new made; NULL: this is no such file. It is the reader's, and may be
 * read in its place. */
struct mt_reader *ops_reader_trace(struct ops_reader *r);
/* Is a Resize of that trace an R, and not an F and an N? */
bool ops_reader_resizes(const struct ops_reader *r);
const struct mt_error *ops_reader_error(const struct ops_reader *r);
uint64_t ops_reader_bytes(const struct ops_reader *r, uint64_t *total);
void ops_close(struct ops_reader *r);

/* The blocks that are never freed, as the end of a file at `path` tells them: *n ordinals, ascending, the
 * caller's to free. False: it does not, or cannot be sought in, or is damaged there. That they are right
 * shows when the file is read. */
bool ops_read_survivors(const char *path, uint64_t **ordinals, size_t *n);

enum ops_form { OPS_TEXT, OPS_TEXT_ZSTD, OPS_BINARY };

struct ops_writer;
/* Write an ops file to a descriptor, which the caller closes. Output is buffered; the first error is kept. In text,
 * threads and times are written where they change, so not at all if all are 0. The kind (not OPS_UNKNOWN) matters for
 * OPS_BINARY only, which accepts no operations of the other kind. */
struct ops_writer *ops_writer_open(int fd, enum ops_form form, enum ops_kind kind, struct mt_error *err);
/* A piece of a file that several writers make one after the other, or at the same time: the bytes of all
 * pieces in order are those of one writer. Only the last one may hold a number of operations that is no
 * multiple of OPS_PIECE. OPS_TEXT_ZSTD has no pieces. */
#define OPS_PIECE 262144
struct ops_piece {
    uint64_t before;  /* operations in the pieces before this one */
    bool first, last; /* which holds the file's header, which its end */
};
struct ops_writer *ops_writer_piece(int fd, enum ops_form form, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err);
void ops_write(struct ops_writer *w, const struct op *ops, size_t n);

/* Programs do the same again and again. A *shape* is a run of accesses whose blocks and addresses follow from
 * a few words; writing its executions is several times faster than writing their accesses, and the binary
 * form of them smaller. The operations read back are the same. */
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
/* Tell of a shape: 1 .. OPS_SHAPE_MOST parts, 1 .. OPS_SHAPE_WORDS words, each used by a part. Returns by
 * what number executions name it. 0: this form has no shapes (text), or out of memory, which
 * ops_writer_finish tells. */
uint32_t ops_writer_shape(struct ops_writer *w, const struct ops_part *parts, unsigned count, unsigned words);

/* Of which shape the executions of a segment (reader.h) are. */
struct ops_shape_of {
    uint32_t shape;  /* 0 = not known */
    uint32_t absent; /* bit i: word i of the segment is not of the shape, for it lies in no block */
};
/* What was read of a trace, of no known thread and time, and is not yet written. */
struct ops_executions {
    const struct mt_step *step, *end;
    const struct mt_place *places;     /* of their words, one after the other */
    const struct ops_shape_of *shapes; /* by segment */
    size_t n_shapes;
    const uint64_t *handles; /* by slot: of the block that lives there, plus 1; 0 = none */
    size_t slots;
    uint64_t left; /* operations to write, at most */
};
/* Write the next steps in binary form, up to one that is no execution of the shape that is known, goes beyond
 * `left`, or has to be written operation by operation because the block of the file ends within it. step,
 * places and left tell how far that came. */
void ops_write_executions(struct ops_writer *w, struct ops_executions *x);

/* After all operations of a binary file of accesses, if it is known: which of its blocks are never freed, in
 * the whole file. A block is named by its ordinal, how many N stand before its own; they ascend. Nothing in
 * other files, and in pieces that are not the last. */
void ops_writer_survivors(struct ops_writer *w, const uint64_t *ordinals, size_t n);

/* The operations of a trace in a binary file of their own, written several times faster than one by one, for
 * accesses are copied as they stand in the trace, and are decoded by who reads them: the operations read back
 * are those of the trace, without threads and times. The trace is one that has just been opened, and stays
 * the caller's. */
struct ops_copier;
/* Can it be? Not if it is text, or read with MT_OPEN_SALVAGE or in parts. */
bool ops_can_copy(const struct mt_reader *trace);
struct ops_copier *ops_copier_new(struct mt_reader *trace, int fd, bool resizes, struct mt_error *err);
/* Copy the next chunk. MT_MORE; MT_END also when writing has failed; MT_ERROR when reading has, see
 * mt_reader_error: the file then has all that comes before. */
int ops_copier_next(struct ops_copier *c);
uint64_t ops_copier_operations(const struct ops_copier *c); /* so far */
/* Write what ends the file; as ops_writer_finish. */
int ops_copier_finish(struct ops_copier *c, struct mt_error *err);

int ops_writer_finish(struct ops_writer *w, struct mt_error *err);

char ops_letter(enum ops_code c);

#ifdef __cplusplus
}
#endif
#endif
