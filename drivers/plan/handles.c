/* handles.c - maps handles to slots.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/plan/handles.h"
#include "drivers/heap/raw_syscalls.h"

#include <stdlib.h>

enum { PAGE = 1024, PAGES = (int)(HANDLES_LIMIT / 1024), SPARE_PAGES = 4096, BLOCKS_PER_PAGE = 16 };
enum { NEVER = 0, FREED = 1, FIRST = 2 }; /* entries of the table: these or slot + FIRST */

struct handles {
    uint32_t **pages; /* PAGES pointers; untouched ones take no memory */
    uint64_t page_count, made;
    uint32_t *spare;                             /* free slots */
    size_t spare_first, spare_count, spare_room; /* a ring; a stack if there is no delay */
    uint32_t slots, delay;
};

struct handles *handles_new(uint32_t delay)
{
    struct handles *h = calloc(1, sizeof *h);
    if (h)
        h->delay = delay;
    if (h && !(h->pages = raw_map(PAGES * sizeof *h->pages))) {
        free(h);
        return NULL;
    }
    return h;
}

void handles_delete(struct handles *h)
{
    if (!h)
        return;
    for (size_t i = 0; h->page_count; i++) {
        h->page_count -= h->pages[i] != NULL;
        free(h->pages[i]);
    }
    raw_unmap(h->pages, PAGES * sizeof *h->pages);
    free(h->spare);
    free(h);
}

static enum handle_result add_page(struct handles *h, uint64_t handle)
{
    if (h->page_count > SPARE_PAGES + h->made / BLOCKS_PER_PAGE)
        return HANDLE_TOO_SPARSE;
    h->pages[handle / PAGE] = calloc(PAGE, sizeof **h->pages);
    if (!h->pages[handle / PAGE])
        return HANDLE_NO_MEMORY;
    h->page_count++;
    return HANDLE_OK;
}

static uint32_t next_slot(struct handles *h)
{
    if (h->spare_count <= h->delay)
        return h->slots++;
    h->spare_count--;
    if (!h->delay)
        return h->spare[h->spare_count];
    uint32_t slot = h->spare[h->spare_first];
    h->spare_first = (h->spare_first + 1) % h->spare_room;
    return slot;
}

enum handle_result handles_make(struct handles *h, uint64_t handle, uint32_t *slot)
{
    enum handle_result r = HANDLE_OK;
    if (handle >= HANDLES_LIMIT)
        return HANDLE_TOO_LARGE;
    if (!h->pages[handle / PAGE] && (r = add_page(h, handle)) != HANDLE_OK)
        return r;
    uint32_t *entry = &h->pages[handle / PAGE][handle % PAGE];
    if (*entry >= FIRST)
        return HANDLE_LIVE;
    h->made++;
    *slot = next_slot(h);
    *entry = *slot + FIRST;
    return HANDLE_OK;
}

enum handle_result handles_find(const struct handles *h, uint64_t handle, uint32_t *slot)
{
    if (handle >= HANDLES_LIMIT)
        return HANDLE_TOO_LARGE;
    const uint32_t *page = h->pages[handle / PAGE];
    uint32_t entry = page ? page[handle % PAGE] : NEVER;
    if (entry < FIRST)
        return entry == FREED ? HANDLE_DEAD : HANDLE_UNKNOWN;
    *slot = entry - FIRST;
    return HANDLE_OK;
}

/* Double the room. The ring then begins at index 0. */
static bool grow_spare(struct handles *h)
{
    size_t room = h->spare_room ? 2 * h->spare_room : 1024;
    uint32_t *more = malloc(room * sizeof *more);
    if (!more)
        return false;
    for (size_t i = 0; i < h->spare_count; i++)
        more[i] = h->spare[(h->spare_first + i) % h->spare_room];
    free(h->spare);
    h->spare = more;
    h->spare_first = 0;
    h->spare_room = room;
    return true;
}

static enum handle_result keep_spare(struct handles *h, uint32_t slot)
{
    if (h->spare_count == h->spare_room && !grow_spare(h))
        return HANDLE_NO_MEMORY;
    h->spare[(h->spare_first + h->spare_count++) % h->spare_room] = slot;
    return HANDLE_OK;
}

enum handle_result handles_drop(struct handles *h, uint64_t handle, uint32_t *slot)
{
    enum handle_result r = handles_find(h, handle, slot);
    if (r != HANDLE_OK)
        return r;
    h->pages[handle / PAGE][handle % PAGE] = FREED;
    return keep_spare(h, *slot);
}

uint32_t handles_slots(const struct handles *h)
{
    return h->slots;
}

const char *handles_text(enum handle_result r)
{
    static const char *const texts[] = {
        [HANDLE_OK] = "is live",
        [HANDLE_UNKNOWN] = "is not known: no N of it before",
        [HANDLE_DEAD] = "is not live: it was freed before",
        [HANDLE_LIVE] = "is live already: a second N without an F",
        [HANDLE_TOO_LARGE] = "is too large: handles are below 4294967296",
        [HANDLE_TOO_SPARSE] = "is out of all order: handles must count the blocks from 0",
        [HANDLE_NO_MEMORY] = "cannot be kept: out of memory",
    };
    return texts[r];
}
