/* feed_lost.c - events that the native library has dropped. (see feed.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each gap becomes a LOST event for each kind of missing events. The totals are facts, too, so that readers need not
 * search for the events.
 */
#include "ljtrace/collector/feed_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *reason, *fact;
} s_losses[RING_LOSSES] = {[RING_LOST_NEW] = {"ring full: allocations", "lost_allocations"},
                           [RING_LOST_FREE] = {"ring full: frees", "lost_frees"},
                           [RING_LOST_RESIZE] = {"ring full: resizes", "lost_resizes"},
                           [RING_LOST_OTHER] = {"ring full: others", "lost_others"},
                           [RING_LOST_IN_HANDLER] = {"in signal handlers", "lost_in_handlers"}};

static void lose(struct feed *f, enum ring_loss kind, uint64_t events)
{
    char number[24];
    const char *reason = s_losses[kind].reason;
    const uint32_t string = mt_writer_string(f->writer, reason, strlen(reason));
    f->lost[kind] += events;
    if (kind == RING_LOST_OTHER)
        mt_writer_lost(f->writer, events, string);
    else
        mt_writer_gap(f->writer, events, string);
    snprintf(number, sizeof number, "%" PRIu64, f->lost[kind]);
    mt_writer_info(f->writer, s_losses[kind].fact, number);
}

void feed_lost(struct feed *f, const uint64_t *counts)
{
    for (unsigned kind = 0; kind < RING_LOSSES; kind++)
        if (counts[kind] > f->lost_in_ring[kind]) {
            lose(f, kind, counts[kind] - f->lost_in_ring[kind]);
            f->lost_in_ring[kind] = counts[kind];
        }
}

void feed_other_ring(struct feed *f)
{
    memset(f->lost_in_ring, 0, sizeof f->lost_in_ring);
}

const char *handle_lost(struct feed *f, const struct ring_lost *r)
{
    if (r->counts_count != RING_LOSSES)
        return "numbers of lost events that can not be";
    feed_time(f, r->instructions);
    feed_lost(f, r->counts);
    return NULL;
}
