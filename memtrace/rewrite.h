/* rewrite.h - functions that copy a trace with other names of its code addresses. Include memtrace.h first.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_REWRITE_H
#define MEMTRACE_REWRITE_H

#include "memtrace/reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a code address is in the source. Strings may be NULL if not known; line 0 is not known. */
struct mt_name {
    const char *function, *file;
    uint32_t line;
};

/* The most names of one code address: a function and those inlined in it. */
#define MT_NAMES_MOST 64

/* Finds names. `find` gets a frame of the trace that is host code, and fills in the names of its address, innermost
 * first; the last is the function that contains the code, the others are inlined in it. It returns how many there are,
 * at most MT_NAMES_MOST; 0 = the frame and those inlined in it stay as they are. The strings of the names must stay
 * valid until the next call. */
struct mt_namer {
    size_t (*find)(void *context, const struct mt_reader *r, const struct mt_frame *frame, struct mt_name *names);
    void *context;
};

/* Copy a trace, which nothing has been read of, to the descriptor fd, with the names that `namer` finds. Everything
 * else stays as it is: events, their order, handles and times. Works on binary traces only. MT_OK, or MT_ERROR with
 * *err filled; if the trace was cut off or is still being written (MT_E_TRUNCATED, MT_E_GROWING), the copy has all that
 * was read and ends as early as the trace. */
int mt_rewrite_names(struct mt_reader *r, int fd, const struct mt_namer *namer, struct mt_error *err);

#ifdef __cplusplus
}
#endif
#endif
