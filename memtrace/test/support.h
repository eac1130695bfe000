/* support.h - code shared by the tests: files in memory, whole traces as arrays, a random generator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_TEST_SUPPORT_H
#define MEMTRACE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "memtrace/format/chunk.h"
#include "memtrace/memtrace.h"

struct bytes {
    uint8_t *data;
    size_t size;
};

/* A file in memory. memory_path returns a name for mt_open, which is valid until the file is closed. */
int memory_file(const void *data, size_t size);
const char *memory_path(int fd);
/* The whole contents; free with free(). */
struct bytes memory_bytes(int fd);

/* The result of reading a file to its end. */
struct reading {
    struct mt_event *events;
    size_t count;
    bool opened;
    int result; /* of the last mt_next, MT_ERROR if opening failed */
    struct mt_error err;
    struct mt_reader_stats stats;
    char damage[240]; /* the first note */
};
struct reading read_bytes(const void *data, size_t size, unsigned flags);
struct reading read_string(const char *text, unsigned flags);
/* Check that reading the file in batches delivers the same. read_bytes does this, too, for every trace. */
void assert_batches_equal(const char *path, unsigned flags, const struct reading *plain);
void reading_free(struct reading *r);

/* Are all fields equal that are specified for the kind? */
bool same_event(const struct mt_event *a, const struct mt_event *b);
bool is_access(const struct mt_event *e);
/* For qsort: accesses by address, then by site. */
int by_place(const void *a, const void *b);

/* End a trace in memory and read all of it without an error. */
struct reading finish_trace(struct mt_writer *w, int fd);
/* Check that two traces are the same: one was written as segments (a), the other as single accesses (b). There
 * must be enough events of each kind. Times of accesses are not compared: of single ones it is that of the last
 * heap event. */
void assert_same_accesses(const struct reading *a, const struct reading *b);

/* A seeded generator with the same numbers in each run. */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t n);

/* Append a chunk of these streams with correct hashes, for crafted files. */
void append_chunk(struct bytes *file, struct chunk_header *h, const struct bytes *streams);
void append_file_header(struct bytes *file);
void append_bytes(struct bytes *b, const void *data, size_t size);

/* A file with 2,000 random events, of blocks at so many addresses, and with definitions up to its end. */
enum { ADDRESSES = 400 };
struct bytes simple_trace(uint64_t seed, struct mt_writer_options options);

#endif
