/* keep.c - keep the last part of a recording: begin new parts, rename and remove old ones.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/keep.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that may be added to a file after it was found to be full: the events of a slab, the unfinished chunk
 * and the index. */
#define MARGIN ((uint64_t)4 << 20)

static const char *const s_word = "earlier"; /* in the name of the part before the newest */
static const char *const s_reason = "--keep=last";

static uint64_t events_of(const struct mt_writer *w)
{
    struct mt_totals t;
    mt_writer_totals(w, &t);
    uint64_t n = t.freed;
    for (int kind = 0; kind < MT_KINDS; kind++)
        n += t.events[kind];
    return n;
}

struct keep keep_for(uint64_t max_size)
{
    return (struct keep){.part = max_size / 2 > MARGIN ? max_size / 2 - MARGIN : 1};
}

bool keep_is_due(const struct keep *k, const struct mt_writer *w)
{
    return k->part && mt_writer_bytes(w) >= k->part && mt_writer_is_whole(w);
}

static void put_fact(struct mt_writer *w, const char *key, const char *path)
{
    const char *slash = strrchr(path, '/');
    mt_writer_info(w, key, slash ? slash + 1 : path);
}

/* Begin a part with the name of the part before it and the number of events that were discarded. */
static void begin(struct keep *k, struct mt_writer *w, const char *before)
{
    put_fact(w, "continues", before);
    if (k->discarded)
        mt_writer_lost(w, k->discarded, mt_writer_string(w, s_reason, strlen(s_reason)));
    mt_writer_flush(w);
    k->begun = events_of(w);
    if (mt_writer_bytes(w) > k->part / 2) {
        mt_writer_limit(w, k->part + MARGIN, "--max-size");
        k->part = 0;
    }
}

const char *keep_begin_part(struct keep *k, struct sink *s, struct mt_writer **w,
                            const struct mt_writer_options *options, const char *process)
{
    struct sink next;
    struct mt_error err = {0};
    char *before = sink_variant(s->name, s_word);
    mt_writer_flush(*w);
    if (!before || !sink_publish(s, process) || rename(s->name, before) != 0 ||
        !sink_open(&next, s->name, false, false, process)) {
        const char *why = strerror(before ? errno : ENOMEM);
        free(before);
        return why;
    }
    struct mt_writer *other = mt_writer_continue(*w, next.fd, options, &err);
    if (other) {
        put_fact(*w, "continued_in", s->name);
        if (k->before)
            put_fact(*w, "continues", "a part that is not kept");
        k->discarded += k->before;
        k->before = events_of(*w) - k->begun;
        mt_writer_finish(*w, MT_ENDING_LIMIT, &err);
        malloc_trim(0); /* else the heap is in more pieces after each part, and grows */
        sink_close(s);
        *s = next;
        *w = other;
        begin(k, other, before);
    }
    free(before);
    return err.code == MT_E_NONE ? NULL : "the next part of the file cannot be written";
}

bool keep_summary(const struct keep *k, const struct sink *s, const struct mt_writer *w, char *text,
                  size_t room)
{
    char *before = k->before ? sink_variant(s->name, s_word) : NULL;
    if (!before)
        return false;
    snprintf(text, room,
             "--keep=last: the last %" PRIu64 " events are in %s, %" PRIu64 " before them in %s; %" PRIu64
             " before those were dropped",
             events_of(w) - k->begun, s->name, k->before, before, k->discarded);
    free(before);
    return true;
}
