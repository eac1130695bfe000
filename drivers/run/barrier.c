/* barrier.c - a heap that threads share; see barrier.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/barrier.h"
#include "drivers/heap/region.h"
#include "drivers/measure/measure.h"

static uint64_t interval(const struct job *j)
{
    uint64_t ops = j->facts.news + j->facts.frees + j->facts.resizes;
    return ops / HALTS + 1;
}

uint64_t halts_first(const struct job *j)
{
    return j->kind == JOB_TEAM_SPACE ? interval(j) : UINT64_MAX;
}

bool halts_reached(const struct turns *t)
{
    uint64_t cut = atomic_load_explicit(&t->cut, memory_order_relaxed);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct lane *l = &t->lanes[i];
        if (!atomic_load(&l->done) && atomic_load_explicit(&l->halted, memory_order_acquire) != cut)
            return false;
    }
    return true;
}

static uint64_t used_by(const struct steve_driver *d)
{
    return d->confinement == STEVE_IN_HEAP ? measure_extent(d) : region_committed();
}

void halts_measure(struct turns *t)
{
    struct team_space *s = &t->e->shared->team_space;
    uint64_t live = 0, made = 0, resident = region_resident();
    for (uint32_t i = 0; i < t->count; i++) {
        live += t->lanes[i].bytes;
        made += t->lanes[i].made;
    }
    uint64_t used = used_by(t->e->driver);
    fragmentation_add(&s->fragmentation, made - s->made, live, resident);
    s->made = made;
    s->most_used = used > s->most_used ? used : s->most_used;
    s->most_resident = resident > s->most_resident ? resident : s->most_resident;
    s->halts++;
    pthread_mutex_lock(&t->halt);
    atomic_fetch_add_explicit(&t->cut, interval(&t->e->shared->job), memory_order_release);
    pthread_cond_broadcast(&t->on);
    pthread_mutex_unlock(&t->halt);
}

bool halts_wait(struct lane *l)
{
    struct turns *t = l->all;
    uint64_t cut, op = lane_get(&l->op);
    pthread_mutex_lock(&t->halt);
    while (op >= (cut = lane_get(&t->cut)) && !atomic_load(&t->stop)) {
        atomic_store_explicit(&l->halted, cut, memory_order_release);
        pthread_cond_wait(&t->on, &t->halt);
    }
    pthread_mutex_unlock(&t->halt);
    return !atomic_load(&t->stop);
}

void halts_end(struct turns *t)
{
    pthread_mutex_lock(&t->halt);
    atomic_store(&t->stop, true);
    pthread_cond_broadcast(&t->on);
    pthread_mutex_unlock(&t->halt);
}
