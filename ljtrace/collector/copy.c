/* copy.c - read the snapshot that a copy of the program sends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/copy.h"
#include "ljtrace/protocol/copies.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONGEST = 30000 /* milliseconds */ };

/* Read n bytes. Returns false if they do not come. */
static bool receive(int socket, void *to, size_t n)
{
    for (size_t have = 0; have < n;) {
        struct pollfd one = {.fd = socket, .events = POLLIN};
        const int ready = poll(&one, 1, LONGEST);
        const ssize_t more = ready > 0 ? read(socket, (char *)to + have, n - have) : ready;
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return false;
        have += (size_t)more;
    }
    return true;
}

bool copy_read(int socket, struct feed *f)
{
    uint8_t *part = malloc(COPY_PART_BYTES);
    uint32_t n = 0;
    bool good = part != NULL;
    do
        good = good && receive(socket, &n, sizeof n) && n <= COPY_PART_BYTES && receive(socket, part, n) &&
               (n == 0 || !feed_slab(f, part, n));
    while (good && n);
    free(part);
    return good;
}

void copy_wait_for_end(int socket)
{
    enum { MOST = 2000 /* milliseconds */ };
    char rest[64];
    struct pollfd one = {.fd = socket, .events = POLLIN};
    while (poll(&one, 1, MOST) > 0 && read(socket, rest, sizeof rest) > 0)
        ;
}
