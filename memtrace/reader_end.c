/* reader_end.c - what the END chunk of a trace says.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "reader.h"

/* What the END chunk has. */
struct end_records {
    struct rec_more more;
    struct rec_calls calls;
    struct rec_reaches reaches;
    struct rec_end end;
};

static bool get_records(struct cursor c, struct end_records *e)
{
    *e = (struct end_records){0};
    uint8_t code = cursor_byte(&c);
    if (code == REC_MORE && get_more(&c, &e->more))
        code = cursor_byte(&c);
    if (code == REC_CALLS && get_calls(&c, &e->calls))
        code = cursor_byte(&c);
    if (code == REC_REACHES && get_reaches(&c, &e->reaches))
        code = cursor_byte(&c);
    return code == REC_END && get_end(&c, &e->end) && c.p == c.end && e->end.ending < MT_ENDINGS;
}

/* Before there was a version 3, some writers of version 2 put the calls into MORE. No chunk is right both
 * ways: the count that is END's code as well would make END's code the ending, which it is not. */
static bool get_records_v2(struct cursor c, struct end_records *e)
{
    *e = (struct end_records){0};
    return cursor_byte(&c) == REC_MORE && get_more(&c, &e->more) && get_calls(&c, &e->calls) &&
           cursor_byte(&c) == REC_END && get_end(&c, &e->end) && c.p == c.end && e->end.ending < MT_ENDINGS;
}

static void take_totals(struct mt_totals *t, const struct end_records *e)
{
    const struct rec_end *end = &e->end;
    const struct rec_more *more = &e->more;
    *t = (struct mt_totals){.events = {end->new, end->free, end->resize, end->load, end->store, end->modify,
                                       end->mark, end->badfree, end->lost, more->type, more->state,
                                       more->sample, e->calls.call, e->reaches.reach},
                            .instructions = end->instructions,
                            .nanoseconds = end->nanoseconds,
                            .foreign = end->foreign,
                            .dropped = end->dropped,
                            .freed = end->freed};
}

bool reader_get_end(struct cursor c, uint32_t version, struct rec_end *end, struct mt_totals *totals)
{
    struct end_records e;
    if (!get_records(c, &e) && !(version == 2 && get_records_v2(c, &e)))
        return false;
    take_totals(totals, &e);
    *end = e.end;
    return true;
}
