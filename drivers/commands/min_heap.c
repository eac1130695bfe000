/* min_heap.c - steve-replay --min-heap OPS: the smallest heap in which an allocator completes.
 *
 * The heap is doubled until the file can be replayed. Then the range between the largest size that failed and the
 * smallest that did not is halved repeatedly, until the next smaller size has been tried and has failed. Each trial
 * is a new process. Sizes below the minimum that the driver states are tried, too, because --heap accepts them. The
 * result is exact to 16 bytes for allocators that work in the heap by themselves, and to a page for others. The
 * search assumes that a larger heap never makes an allocator fail. This holds for most allocators but is not
 * guaranteed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/fragmentation.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>

#define LARGEST_HEAP ((uint64_t)1 << 46)

struct search {
    struct session *s;
    uint64_t step;        /* heaps are multiples of this */
    uint64_t fails, fits; /* largest size that failed, smallest that did not; 0 = none yet */
    unsigned trials;
};

static enum job_status try_heap(struct search *h, uint64_t heap)
{
    h->s->job.heap = heap;
    h->trials++;
    enum job_status status = session_run(h->s, JOB_FIT, 0, -1);
    if (status == STATUS_DONE)
        h->fits = heap;
    else if (status == STATUS_NO_ROOM)
        h->fails = heap;
    return status;
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

/* Increase the size from the live peak until the heap is large enough. */
static enum job_status double_heap(struct search *h)
{
    enum job_status status;
    uint64_t peak = h->s->plan.facts.live_peak, heap = round_up(peak ? peak : 1, h->step);
    while ((status = try_heap(h, heap)) == STATUS_NO_ROOM && heap < LARGEST_HEAP)
        heap *= 2;
    return status;
}

static enum job_status bisect(struct search *h)
{
    enum job_status status = STATUS_DONE;
    while (h->fits - h->fails > h->step && status != STATUS_FAILED)
        status = try_heap(h, round_up(h->fails + (h->fits - h->fails) / 2, h->step));
    return status;
}

static void print_json(const struct search *h)
{
    const struct plan_facts *f = &h->s->plan.facts;
    printf("{\"driver\": ");
    json_string(stdout, h->s->info.name);
    printf(", \"min_heap\": %" PRIu64 ", \"live_peak\": %" PRIu64 ", \"factor\": %.4f, \"step\": %" PRIu64
           ", \"robson_bound\": %" PRIu64 ", \"trials\": %u}\n",
           h->fits, f->live_peak, f->live_peak ? (double)h->fits / (double)f->live_peak : 0.0, h->step,
           fragmentation_robson(f->live_peak, f->largest), h->trials);
}

static void print_text(const struct search *h)
{
    const struct plan_facts *f = &h->s->plan.facts;
    printf("%s: smallest heap %" PRIu64 " bytes, %.3f times the live peak of %" PRIu64 "\n", h->s->info.name,
           h->fits, f->live_peak ? (double)h->fits / (double)f->live_peak : 0.0, f->live_peak);
}

static int search(struct session *s)
{
    struct search h = {.s = s, .step = s->info.confinement == STEVE_IN_HEAP ? 16 : 4096};
    if (double_heap(&h) != STATUS_DONE || bisect(&h) == STATUS_FAILED)
        return session_complain(s);
    if (s->options->json)
        print_json(&h);
    else
        print_text(&h);
    return EXIT_DONE;
}

int command_min_heap(const struct options *o)
{
    struct session s;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE)
        status = search(&s);
    session_close(&s);
    return status;
}
