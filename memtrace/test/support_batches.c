/* support_batches.c - checks that reading a trace in batches delivers the same events as mt_next.
 *
 * It is called for every trace that a test reads, including damaged and malicious ones.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <string.h>

/* State of the comparison; the next expected event is events[at]. */
struct unpacking {
    const struct reading *plain;
    size_t at;
};

static const struct mt_event *expected(struct unpacking *u)
{
    assert_true(u->at < u->plain->count);
    return &u->plain->events[u->at++];
}

static void unpack_access(struct unpacking *u, const struct mt_step *s, const struct mt_segment_access *a,
                          const struct mt_place *p)
{
    const struct mt_event *e = expected(u);
    assert_int_equal(e->kind, a->kind);
    assert_int_equal(e->addr, p->addr + a->offset);
    assert_int_equal(e->size, a->size);
    assert_int_equal(e->ref, a->site);
    assert_int_equal(e->slot, p->slot);
    assert_int_equal(e->time, s->time);
    assert_int_equal(e->thread, s->thread);
    assert_false(e->beyond || e->kernel || e->freed);
}

static void unpack_segment(struct unpacking *u, const struct mt_batch *p, const struct mt_step *s,
                           const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[s->segment];
    size_t before = u->at;
    uint32_t own[MT_SEGMENT_WORDS] = {0};
    assert_true(s->segment < p->n_segments && segment->count > 0);
    for (uint32_t i = 0; i < segment->count; i++) {
        const struct mt_segment_access *a = &p->accesses[segment->first + i];
        assert_true(a->word < segment->words && a->offset + a->size <= segment[a->word].extent);
        own[a->word]++;
        if (places[a->word].slot != MT_NO_SLOT)
            unpack_access(u, s, a, &places[a->word]);
    }
    for (uint32_t w = 0; w < segment->words; w++)
        assert_int_equal(segment[w].own, own[w]);
    assert_int_equal(u->at - before, s->count);
}

static void unpack(struct unpacking *u, const struct mt_batch *p)
{
    const struct mt_place *places = p->places;
    const struct mt_event *events = p->events;
    size_t before = u->at;
    assert_true(p->n_steps > 0);
    for (const struct mt_step *s = p->steps; s < p->steps + p->n_steps; s++) {
        assert_true(s->count > 0);
        if (s->segment == MT_STEP_EVENTS) {
            for (uint32_t i = 0; i < s->count; i++)
                assert_true(same_event(expected(u), events++));
        } else {
            unpack_segment(u, p, s, places);
            places += p->segments[s->segment].words;
        }
    }
    assert_int_equal(u->at - before, p->count);
    assert_int_equal(events - p->events, p->n_events);
}

void assert_batches_equal(const char *path, unsigned flags, const struct reading *plain)
{
    struct unpacking u = {plain, 0};
    struct mt_batch batch;
    struct mt_reader_stats stats;
    struct mt_reader *r = mt_open(path, flags, NULL);
    int result = MT_ERROR;
    assert_int_equal(r != NULL, plain->opened);
    if (!r)
        return;
    while ((result = mt_next_batch(r, &batch)) == MT_MORE)
        unpack(&u, &batch);
    assert_int_equal(result, plain->result);
    assert_int_equal(u.at, plain->count);
    assert_string_equal(mt_reader_error(r)->text, plain->err.text);
    mt_reader_stats(r, &stats);
    assert_memory_equal(&stats.totals, &plain->stats.totals, sizeof stats.totals);
    assert_int_equal(stats.events, plain->stats.events);
    assert_int_equal(stats.instructions, plain->stats.instructions);
    assert_int_equal(stats.live_slots, plain->stats.live_slots);
    mt_close(r);
}
