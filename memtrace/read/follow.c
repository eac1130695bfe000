/* follow.c - reads a trace while its recorder writes it.
 *
 * The file may end inside a chunk at any moment, and a chunk can be decoded only as a whole. So reading stops before the
 * first chunk that is not there completely, which the chunk headers show.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

/* Is there a whole header at an offset? The file may have grown since its size was read, so nothing after that counts. */
static bool has_header(const struct mt_reader *r, uint64_t at)
{
    return r->in.file_size >= at && r->in.file_size - at >= CHUNK_HEADER_SIZE;
}

/* The end of the last chunk that is completely there, from an offset where a chunk begins. */
static uint64_t end_of_chunks(const struct mt_reader *r, uint64_t at)
{
    struct chunk_header h;
    while (has_header(r, at) && reader_header_at(r, at, &h) &&
           h.stored_size <= r->in.file_size - at - CHUNK_HEADER_SIZE)
        at += CHUNK_HEADER_SIZE + h.stored_size;
    return at;
}

/* Is the header at an offset invalid? Reading it reports the damage. */
static bool is_damaged(const struct mt_reader *r, uint64_t at)
{
    struct chunk_header h;
    return has_header(r, at) && !reader_header_at(r, at, &h);
}

enum mt_followed mt_follow(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    const uint64_t from = b->following ? b->stop : FILE_HEADER_SIZE;
    if (r->err.code == MT_E_NONE && !reader_is_plain(r))
        mt_fail(&r->err, MT_E_FORMAT, 0, "cannot be followed: it is not a plain .ljt file");
    if (r->err.code != MT_E_NONE || b->followed)
        return r->err.code != MT_E_NONE ? MT_FOLLOW_ERROR : MT_FOLLOW_END;
    const bool written = input_is_locked(&r->in); /* asked before the size, so that nothing is missed */
    input_extend(&r->in);
    r->stats.bytes_total = r->in.file_size;
    b->stop = end_of_chunks(r, from);
    b->followed = !written || is_damaged(r, b->stop);
    if (b->followed)
        b->stop = UINT64_MAX;
    b->following = true;
    return b->stop > from ? MT_FOLLOW_MORE : MT_FOLLOW_WAIT;
}
