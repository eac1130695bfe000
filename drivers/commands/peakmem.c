/* peakmem.c - steve-replay --peakmem: how much memory a program had live, and how much it allocated in all.
 *
 * These are two different numbers: the maximum of live bytes is what a heap must hold; the sum of all requests shows
 * how much work the allocator did. No allocator is needed for either.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"

#include <inttypes.h>

static void print_text(const struct plan_facts *f)
{
    printf("live peak:           %12" PRIu64 " bytes, at operation %" PRIu64 "\n", f->live_peak, f->peak_op);
    printf("sum of all requests: %12" PRIu64 " bytes\n", f->total_requested);
    printf("largest request:     %12" PRIu64 " bytes\n", f->largest);
    printf("live at the end:     %12" PRIu64 " bytes in %" PRIu64 " blocks\n", f->live_at_end,
           f->blocks_at_end);
    printf("most blocks live:    %12" PRIu32 "\n", f->slots);
    printf("operations:          %12" PRIu64 " (%" PRIu64 " new, %" PRIu64 " free, %" PRIu64 " resize)\n",
           f->news + f->frees + f->resizes, f->news, f->frees, f->resizes);
    if (f->shared)
        printf("at a live address:   %12" PRIu64 " blocks\n", f->shared);
}

static void print_json(const char *path, const struct plan_facts *f)
{
    printf("{\"opsfile\": ");
    json_string(stdout, path);
    printf(", \"live_peak\": %" PRIu64 ", \"peak_op\": %" PRIu64 ", \"sum_of_requests\": %" PRIu64
           ", \"largest_request\": %" PRIu64 ", \"live_at_end\": %" PRIu64 ", \"blocks_at_end\": %" PRIu64,
           f->live_peak, f->peak_op, f->total_requested, f->largest, f->live_at_end, f->blocks_at_end);
    printf(", \"most_blocks\": %" PRIu32 ", \"new\": %" PRIu64 ", \"free\": %" PRIu64 ", \"resize\": %" PRIu64
           ", \"lock\": %" PRIu64 ", \"unlock\": %" PRIu64 ", \"compact\": %" PRIu64 ", \"access\": %" PRIu64
           ", \"at_live_address\": %" PRIu64 "}\n",
           f->slots, f->news, f->frees, f->resizes, f->locks, f->unlocks, f->compacts, f->accesses,
           f->shared);
}

int command_peakmem(const struct options *o)
{
    struct plan plan;
    char text[4096 + 512];
    if (!plan_read(&plan, o->ops, (struct plan_options){.shared = true}, text, sizeof text)) {
        fprintf(stderr, "steve-replay: %s\n", text);
        return EXIT_BAD;
    }
    if (o->json)
        print_json(o->ops, &plan.facts);
    else
        print_text(&plan.facts);
    plan_close(&plan);
    return EXIT_DONE;
}
