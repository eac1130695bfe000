/* inflating.h - a section compressed by zlib that is decompressed as far as it is read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The debug information of the C library is 6 MB, of which its start function is in the first 25 KB. Decompressing all of
 * it takes longer than all else that the recorder does for a short program.
 */
#ifndef LJTRACE_SYMBOLS_INFLATING_H
#define LJTRACE_SYMBOLS_INFLATING_H

#include <stdbool.h>
#include <stdint.h>

struct inflating;

/* Where compressed bytes are in a file, and where the decompressed ones come in another. */
struct inflating_place {
    int from_fd, to_fd;        /* need not stay open */
    uint64_t from, compressed; /* offset and size of the compressed bytes */
    uint64_t to, size;         /* offset, a multiple of the page size, and size of the others */
};

/* Returns NULL if the files cannot be mapped or there is no memory. */
struct inflating *inflating_new(const struct inflating_place *place);
void inflating_free(struct inflating *i); /* NULL: does nothing */
/* Decompress the bytes before `end`. Returns false if they cannot be decompressed. */
bool inflating_to(struct inflating *i, uint64_t end);
/* Decompress the bytes up to these, and copy these. Returns false if they cannot be decompressed. */
bool inflating_read(struct inflating *i, uint64_t offset, void *to, uint64_t bytes);
/* Are these the decompressed bytes of the section, as far as there are any? */
bool inflating_is(const struct inflating *i, const void *bytes, uint64_t size);

#endif
