/* shared.c - making and dropping the shared board; see shared.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/shared.h"

#include <sys/mman.h>
#include <unistd.h>

const char *const film_time_names[FILM_TIMES] = {"ops", "bytes", "instructions"};

static size_t board_bytes(uint64_t room)
{
    return sizeof(struct board) + (size_t)room * sizeof(struct point);
}

struct board *board_new(uint64_t room, int *fd)
{
    size_t bytes = board_bytes(room);
    *fd = memfd_create("steve-replay-board", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
        return NULL;
    struct board *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (b == MAP_FAILED)
        return NULL;
    b->room = room;
    return b;
}

void board_delete(struct board *b, int fd)
{
    if (b)
        munmap(b, board_bytes(b->room));
    if (fd >= 0)
        close(fd);
}
