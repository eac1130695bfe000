/* channel.h - how filled slabs reach the collector: by a socket, or by counters in shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool sends tokens through a socket. The native library has no descriptor that the program could close; it
 * counts slabs in the ring's header, and the launcher (ljtrace/native/run.c) writes there that the program has ended.
 * If the launcher is killed, the end of the process is noticed here, by its pidfd.
 */
#ifndef LJTRACE_COLLECTOR_CHANNEL_H
#define LJTRACE_COLLECTOR_CHANNEL_H

#include "ljtrace/protocol/ring.h"
#include <stddef.h>

struct channel {
    int socket; /* to the tool or the launcher */
    bool in_memory;
    struct ring_header *ring;
    int process; /* in_memory: a pidfd of the program; -1 = there is none */
};

/* The program with this id is traced through shared memory. */
void channel_use_memory(struct channel *c, int pid);
/* Wait for a token, at most so long; 0 = only look. Returns true if there is one, or the program has ended. */
bool channel_has_token(struct channel *c, int milliseconds);
/* Receive `size` bytes and, if they are sent along, two descriptors. Returns false if the tool is gone. */
bool channel_receive(const struct channel *c, void *to, size_t size, int fds[2]);
/* Receive the next token. Returns false if the tool is gone. fds: as in channel_receive. */
bool channel_token(struct channel *c, struct ring_token *token, int fds[2]);
/* Wait for a forked child on an abstract socket of this name, and receive its ring's memory and that socket. Returns false
 * if none comes: the fork has failed, or the child could not connect. */
bool channel_accept(const char *name, int fds[2]);
/* The slab of the last token may be written again. */
void channel_release(struct channel *c);

#endif
