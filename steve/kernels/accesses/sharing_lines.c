/* sharing_lines.c - lines of memory that several threads use; see sharing_lines.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/sharing_lines.h"

#include <math.h>

#include "memtrace/base/array.h"

bool sharinglines_init(struct sharinglines *l)
{
    memset(l, 0, sizeof *l);
    l->spare = SHARING_NONE;
    return handle_map_init(&l->map) && array_grow(&l->clocks, &l->clocks_room, 1, sizeof *l->clocks);
}

void sharinglines_free(struct sharinglines *l)
{
    handle_map_free(&l->map);
    free(l->lines);
    free(l->heads);
    free(l->uses);
    free(l->clocks);
    free(l->found);
}

/* ---- uses ---------------------------------------------------------------------------------- */

uint32_t sharinglines_keep(struct sharinglines *l, const struct sharing_use *use)
{
    uint32_t index = l->spare;

    if (index != SHARING_NONE) {
        l->spare = l->uses[index].next;
    } else {
        if (l->n_uses == SHARING_NONE || !array_grow(&l->uses, &l->uses_room, l->n_uses + 1, sizeof *l->uses))
            return SHARING_NONE;
        index = (uint32_t)l->n_uses++;
    }
    l->uses[index] = *use;
    l->uses[index].next = SHARING_NONE;
    return index;
}

static void give_back(struct sharinglines *l, uint32_t index)
{
    l->uses[index].next = l->spare;
    l->spare = index;
}

static void give_all_back(struct sharinglines *l, uint32_t index)
{
    while (index != SHARING_NONE) {
        uint32_t next = l->uses[index].next;

        give_back(l, index);
        index = next;
    }
}

static void add(uint32_t *to, uint32_t more)
{
    *to = *to > UINT32_MAX - more ? UINT32_MAX : *to + more;
}

/* All but the runs. */
static void add_accesses(struct sharing_use *use, const struct sharing_use *later)
{
    use->used |= later->used;
    use->written |= later->written;
    for (size_t i = 0; i < 8; i++)
        add(&use->words[i], later->words[i]);
    add(&use->wide, later->wide);
    add(&use->writes, later->writes);
    use->offset = later->offset;
    use->stack = later->stack;
}

/* The thread returns, after a run that ended and had a span. */
static void judge(struct sharing_use *use, uint64_t end, uint64_t span, const struct sharing_use *later)
{
    bool at_once = later->start - end - 1 <= (span + later->first_span) / SHARING_AT_ONCE;

    add(at_once ? &use->at_once : &use->late, 1);
}

void sharinglines_join(struct sharing_use *use, const struct sharing_use *later)
{
    judge(use, use->end, use->last, later);
    add_accesses(use, later);
    add(&use->at_once, later->at_once);
    add(&use->late, later->late);
    use->end = later->end;
    use->span += later->span;
    use->last = later->last;
}

void sharinglines_go_on(struct sharing_use *use, const struct sharing_use *more)
{
    add_accesses(use, more);
    use->end = more->end;
    use->span = use->first_span = use->last = use->end - use->start + 1;
}

static struct sharing_use *counted_of(struct sharinglines *l, const struct sharing_line *line,
                                      uint16_t thread)
{
    for (uint32_t i = line->counted; i != SHARING_NONE; i = l->uses[i].next)
        if (l->uses[i].thread == thread)
            return &l->uses[i];
    return NULL;
}

void sharinglines_count(struct sharinglines *l, struct sharing_line *line, uint32_t use)
{
    struct sharing_use *u = &l->uses[use], *known = counted_of(l, line, u->thread);

    if (known) {
        sharinglines_join(known, u);
        give_back(l, use);
    } else {
        if (line->first.thread == u->thread)
            judge(u, line->first.end, line->first.span, u);
        u->next = line->counted;
        line->counted = use;
    }
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* What a decision is made of: the list of a line, and the bytes that are contested. */
struct episode {
    const struct sharing_use *uses;
    uint32_t first;
    uint64_t contested;
    unsigned n; /* threads that return */
    uint64_t at_once, late;
};

static uint32_t next_returned(const struct episode *e, uint32_t index)
{
    while (index != SHARING_NONE && e->uses[index].at_once + e->uses[index].late == 0)
        index = e->uses[index].next;
    return index;
}

static double share_of(const struct sharing_use *u)
{
    return (double)u->span / (double)(u->end - u->start + 1);
}

static void survey(struct episode *e)
{
    uint64_t used = 0, by_several = 0, written = 0;

    for (uint32_t i = next_returned(e, e->first); i != SHARING_NONE; i = next_returned(e, e->uses[i].next)) {
        const struct sharing_use *u = &e->uses[i];

        by_several |= used & u->used;
        used |= u->used;
        written |= u->written;
        e->at_once += u->at_once;
        e->late += u->late;
        e->n++;
    }
    e->contested = by_several & written;
}

/* Accesses of a thread to words with contested bytes, or to the others. */
static double accesses(const struct episode *e, const struct sharing_use *u, bool contested)
{
    double n = contested == (e->contested != 0) ? u->wide : 0;

    for (unsigned i = 0; i < 8; i++)
        if (((e->contested >> (8 * i) & 0xFF) != 0) == contested)
            n += u->words[i];
    return n;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* How many accesses of one thread could find the line taken away by another. */
static double meet(const struct episode *e, const struct sharing_use *own, const struct sharing_use *other,
                   bool contested)
{
    if (!contested && !((own->written | other->written) & ~e->contested))
        return 0;
    return least(
        least(accesses(e, own, contested) * share_of(other), accesses(e, other, contested) * share_of(own)),
        (double)own->writes + other->writes);
}

/* The other thread whose accesses interleave most with those of a thread; of equals that with the smallest number.
 * SHARING_NONE if there is no such thread. */
static uint32_t best_other(const struct episode *e, uint32_t own, bool contested, double *most)
{
    uint32_t best = SHARING_NONE;

    *most = 0;
    for (uint32_t i = next_returned(e, e->first); i != SHARING_NONE; i = next_returned(e, e->uses[i].next)) {
        double n = i == own ? 0 : meet(e, &e->uses[own], &e->uses[i], contested);

        if (n > *most || (n > 0 && n == *most && e->uses[i].thread < e->uses[best].thread)) {
            *most = n;
            best = i;
        }
    }
    return best;
}

/* Over all threads. chosen: the thread with most, and the other one. */
static double meet_all(const struct episode *e, bool contested, uint32_t chosen[2], uint64_t *threads)
{
    double sum = 0, largest = 0;

    for (uint32_t i = next_returned(e, e->first); i != SHARING_NONE; i = next_returned(e, e->uses[i].next)) {
        double n;
        uint32_t other = best_other(e, i, contested, &n);

        sum += floor(n);
        *threads += n >= 1;
        if (n > largest || (n > 0 && n == largest && e->uses[i].thread < e->uses[chosen[0]].thread)) {
            largest = n;
            chosen[0] = i;
            chosen[1] = other;
        }
    }
    return sum;
}

/* P(Binomial(at_once + late, 1 / SHARING_AT_ONCE) >= at_once). Its terms fall from the first on, or it is not
 * small. */
static double chance(uint64_t at_once, uint64_t late)
{
    double n = (double)(at_once + late), p = 1.0 / SHARING_AT_ONCE, term, sum = 0;

    if ((double)at_once <= n * p)
        return 1;
    term = exp(lgamma(n + 1) - lgamma((double)at_once + 1) - lgamma((double)late + 1) +
               (double)at_once * log(p) + (double)late * log1p(-p));
    for (uint64_t k = at_once; term > sum * 1e-15; k++) {
        sum += term;
        term *= (n - (double)k) / ((double)k + 1) * p / (1 - p);
    }
    return sum;
}

static struct sharing_side side(const struct episode *e, const struct sharing_use *u)
{
    return (struct sharing_side){.thread = u->thread,
                                 .stack = u->stack,
                                 .offset = u->offset,
                                 .bytes = u->used & ~e->contested,
                                 .written = u->written & ~e->contested};
}

/* Put the line down if it is falsely shared. */
static bool decide(struct sharinglines *l, uint64_t number, const struct episode *e)
{
    uint32_t chosen[2] = {SHARING_NONE, SHARING_NONE}, ignored[2] = {SHARING_NONE, SHARING_NONE};
    uint64_t threads = 0, others = 0;
    double p = chance(e->at_once, e->late), interleaved;

    if (p > SHARING_CHANCE)
        return true;
    interleaved = meet_all(e, false, chosen, &threads) - meet_all(e, true, ignored, &others);
    if (interleaved < 1)
        return true;
    if (!array_grow(&l->found, &l->found_room, l->n_found + 1, sizeof *l->found))
        return false;
    l->found[l->n_found++] =
        (struct sharing_found){.line = number,
                               .interleaved = (uint64_t)interleaved,
                               .at_once = e->at_once,
                               .late = e->late,
                               .threads = threads,
                               .chance = p,
                               .sides = {side(e, &l->uses[chosen[0]]), side(e, &l->uses[chosen[1]])}};
    return true;
}

bool sharinglines_end(struct sharinglines *l, uint64_t number, struct sharing_line *line)
{
    struct episode e = {.uses = l->uses, .first = line->counted};
    struct sharing_use *last =
        line->run == SHARING_NONE ? NULL : counted_of(l, line, l->uses[line->run].thread);
    bool ok = true;

    if (last) /* it counts as a return, but not what was done then */
        judge(last, last->end, last->last, &l->uses[line->run]);
    survey(&e);
    if (e.n >= 2) {
        l->tests++;
        ok = decide(l, number, &e);
    }
    give_all_back(l, line->counted);
    if (line->run != SHARING_NONE)
        give_back(l, line->run);
    line->counted = line->run = SHARING_NONE;
    return ok;
}

/* ---- accesses ------------------------------------------------------------------------------ */

struct sharing_line *sharinglines_at(struct sharinglines *l, uint64_t number)
{
    uint32_t index = handle_map_find(&l->map, number);

    if (index != HANDLE_MAP_NONE)
        return &l->lines[index];
    index = handle_map_add(&l->map, number);
    if (index == HANDLE_MAP_NONE ||
        !array_grow(&l->lines, &l->lines_room, (size_t)index + 1, sizeof *l->lines))
        return NULL;
    l->lines[index] = (struct sharing_line){.run = SHARING_NONE, .counted = SHARING_NONE};
    return &l->lines[index];
}

bool sharinglines_is_other_life(const struct sharing_place *before, const struct sharing_place *now)
{
    return before->handle != now->handle && before->first <= now->last && now->first <= before->last;
}

bool sharinglines_turn(struct sharinglines *l, uint16_t thread)
{
    if (!array_grow(&l->clocks, &l->clocks_room, (size_t)thread + 1, sizeof *l->clocks))
        return false;
    l->changes += l->thread != 0;
    l->first_thread = l->first_thread ? l->first_thread : thread;
    l->thread = thread;
    return true;
}

/* A run begins. */
static bool run_begin(struct sharinglines *l, struct sharing_line *line, uint16_t thread)
{
    line->run = sharinglines_keep(l, &(struct sharing_use){.start = l->clocks[thread], .thread = thread});
    return line->run != SHARING_NONE;
}

/* The first run of an episode, which does not count. */
static void begin_episode(const struct sharinglines *l, struct sharing_line *line, uint16_t thread)
{
    line->first = (struct sharing_first){.end = l->clocks[thread], .span = 1, .thread = thread};
}

/* The first access to a line: the first run of a part is kept. */
static bool open_line(struct sharinglines *l, struct sharing_line *line, struct sharing_place place)
{
    uint16_t thread = place.thread;
    size_t index = (size_t)(line - l->lines);

    if (!l->part) {
        begin_episode(l, line, thread);
        return true;
    }
    if (!array_grow(&l->heads, &l->heads_room, index + 1, sizeof *l->heads) || !run_begin(l, line, thread))
        return false;
    l->heads[index] = (struct sharing_head){
        .place = place, .first = line->run, .counted = SHARING_NONE, .run = SHARING_NONE};
    return true;
}

/* The head of a line in a part that has not ended, or NULL. */
static struct sharing_head *open_head(struct sharinglines *l, const struct sharing_line *line)
{
    struct sharing_head *head = l->part ? &l->heads[line - l->lines] : NULL;

    return head && !head->ended ? head : NULL;
}

/* An episode ends by an access of another life. In a part the first one stays undecided. */
static bool end_episode(struct sharinglines *l, uint64_t number, struct sharing_line *line)
{
    struct sharing_head *head = open_head(l, line);

    if (!head)
        return sharinglines_end(l, number, line);
    head->ended = true;
    head->counted = line->counted;
    head->run = line->run == head->first ? SHARING_NONE : line->run;
    line->counted = line->run = SHARING_NONE;
    return true;
}

/* Another thread than before accesses the line. */
static bool take_over(struct sharinglines *l, uint64_t number, struct sharing_line *line,
                      struct sharing_place place)
{
    struct sharing_head *head;

    if (line->place.thread == 0)
        return open_line(l, line, place);
    if (sharinglines_is_other_life(&line->place, &place)) {
        if (!end_episode(l, number, line))
            return false;
        begin_episode(l, line, place.thread);
        return true;
    }
    head = open_head(l, line);
    if (line->run != SHARING_NONE && !(head && head->first == line->run))
        sharinglines_count(l, line, line->run);
    return run_begin(l, line, place.thread);
}

bool sharinglines_visit_any(struct sharinglines *l, uint64_t number, struct sharing_place place,
                            struct sharing_use **use)
{
    struct sharing_line *line = sharinglines_at(l, number);

    if (!line || (line->place.thread != place.thread && !take_over(l, number, line, place)))
        return false;
    line->place = place;
    *use = line->run == SHARING_NONE ? NULL : &l->uses[line->run];
    if (!*use)
        sharinglines_prolong(&line->first, l->clocks[place.thread]);
    return true;
}

void sharinglines_note(struct sharinglines *l, struct sharing_use *use, const struct sharing_access *a)
{
    unsigned first = (unsigned)__builtin_ctzll(a->bytes) / 8,
             last = (63 - (unsigned)__builtin_clzll(a->bytes)) / 8;

    use->used |= a->bytes;
    use->written |= a->writes ? a->bytes : 0;
    use->offset = a->offset;
    use->stack = a->stack;
    add(first == last ? &use->words[first] : &use->wide, 1);
    add(&use->writes, a->writes);
    use->end = l->clocks[use->thread];
    use->span = use->first_span = use->last = use->end - use->start + 1;
}

bool sharinglines_finish(struct sharinglines *l)
{
    for (size_t i = 0; i <= l->map.mask; i++) {
        const struct handle_map_entry *entry = &l->map.entries[i];

        if (entry->key != 0 && !sharinglines_end(l, entry->key - 1, &l->lines[entry->index]))
            return false;
    }
    return true;
}
