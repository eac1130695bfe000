/* barrier.c - stops all threads of a replay at barriers and measures the heap there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/barrier.h"
#include "drivers/heap/region.h"

static uint64_t interval(const struct job *j)
{
    uint64_t ops = j->facts.news + j->facts.frees + j->facts.resizes;
    return ops / BARRIERS + 1;
}

uint64_t barrier_first(const struct job *j)
{
    return j->kind == JOB_THREADS_SPACE ? interval(j) : UINT64_MAX;
}

bool barrier_reached(const struct thread_group *g)
{
    uint64_t cut = atomic_load_explicit(&g->cut, memory_order_relaxed);
    for (uint32_t i = 0; i < g->count; i++) {
        const struct thread *t = &g->threads[i];
        if (!atomic_load(&t->done) && atomic_load_explicit(&t->reached, memory_order_acquire) != cut)
            return false;
    }
    return true;
}

static uint64_t used_by(const struct steve_driver *d)
{
    return d->confinement == STEVE_IN_HEAP ? region_extent(d) : region_committed();
}

void barrier_measure(struct thread_group *g)
{
    struct threads_space *s = &g->e->shared->threads_space;
    uint64_t live = 0, made = 0, resident = region_resident();
    for (uint32_t i = 0; i < g->count; i++) {
        live += g->threads[i].bytes;
        made += g->threads[i].made;
    }
    uint64_t used = used_by(g->e->driver);
    fragmentation_add(&s->fragmentation, made - s->made, live, resident);
    s->made = made;
    s->most_used = used > s->most_used ? used : s->most_used;
    s->most_resident = resident > s->most_resident ? resident : s->most_resident;
    s->barriers++;
    pthread_mutex_lock(&g->barrier);
    atomic_fetch_add_explicit(&g->cut, interval(&g->e->shared->job), memory_order_release);
    pthread_cond_broadcast(&g->moved_on);
    pthread_mutex_unlock(&g->barrier);
}

bool barrier_wait(struct thread *t)
{
    struct thread_group *g = t->group;
    uint64_t cut, op = counter_get(&t->op);
    pthread_mutex_lock(&g->barrier);
    while (op >= (cut = counter_get(&g->cut)) && !atomic_load(&g->stop)) {
        atomic_store_explicit(&t->reached, cut, memory_order_release);
        pthread_cond_wait(&g->moved_on, &g->barrier);
    }
    pthread_mutex_unlock(&g->barrier);
    return !atomic_load(&g->stop);
}

void barrier_end(struct thread_group *g)
{
    pthread_mutex_lock(&g->barrier);
    atomic_store(&g->stop, true);
    pthread_cond_broadcast(&g->moved_on);
    pthread_mutex_unlock(&g->barrier);
}
