/* feed_pages.c - records of --pages: what the program maps itself, and when it asks to look at its pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"

#include <string.h>

static uint32_t stack_of(struct feed *f, const struct raw_stack *s)
{
    return s->number ? stacks_numbered(&f->stacks, s->number) : stacks_intern(&f->stacks, s->ips, s->depth);
}

const char *handle_region(struct feed *f, const struct ring_region *r)
{
    if (r->what >= RAW_REGIONS)
        return "range of addresses of which nothing known is said";
    if (r->what == RAW_REGION_MAPPED) {
        const uint32_t stack = stack_of(f, &r->stack);
        regions_map(&f->regions, r->addr, r->size, stack);
        if (f->filled)
            regions_fill(f->filled, r->addr, r->size, stack);
    } else if (r->what == RAW_REGION_UNMAPPED)
        regions_unmap(&f->regions, r->addr, r->size);
    else
        regions_detach(&f->regions, r->addr);
    return NULL;
}

const char *handle_pages(struct feed *f, const struct ring_pages *r)
{
    if (r->name.bytes >= sizeof f->pages.name)
        return "request with a name that is too long";
    feed_time(f, r->instructions);
    f->pages = (struct feed_pages){.asked = true, .end = r->end != 0};
    memcpy(f->pages.name, r->name.at, r->name.bytes);
    return NULL;
}

struct feed_pages feed_take_pages(struct feed *f)
{
    const struct feed_pages asked = f->pages;
    f->pages.asked = false;
    return asked;
}

void feed_fill_regions(struct feed *f, struct regions *r)
{
    f->filled = r;
}

const struct regions *feed_regions(const struct feed *f)
{
    return &f->regions;
}
