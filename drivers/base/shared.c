/* shared.c - allocates and frees the shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/shared.h"

#include <sys/mman.h>
#include <unistd.h>

const char *const film_time_names[FILM_TIMES] = {"ops", "bytes", "instructions"};
const char *const film_colour_names[FILM_COLOURS] = {"state", "age", "size", "site"};

static size_t shared_bytes(uint64_t room)
{
    return sizeof(struct shared) + (size_t)room * sizeof(struct point);
}

struct shared *shared_new(uint64_t room, int *fd)
{
    size_t bytes = shared_bytes(room);
    *fd = memfd_create("steve-replay-shared", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
        return NULL;
    struct shared *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (b == MAP_FAILED)
        return NULL;
    b->room = room;
    return b;
}

void shared_delete(struct shared *b, int fd)
{
    if (b)
        munmap(b, shared_bytes(b->room));
    if (fd >= 0)
        close(fd);
}

/* -- the names of the ways to touch a new block. -- */

const char *const touch_names[TOUCHES] = {
    [TOUCH_NONE] = "none", [TOUCH_FIRST] = "first", [TOUCH_PAGES] = "pages", [TOUCH_ALL] = "all"};
