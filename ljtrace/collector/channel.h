/* channel.h - how filled slabs reach the collector: by a socket, or by counters in shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool sends tokens through a socket. The native library has no descriptor that the program could close; it
 * counts slabs in the ring's header, and the launcher (ljtrace/native/launcher/run.c) writes there that the program has ended.
 * If the launcher is killed, the end of the process is noticed here, by its pidfd. A forked child may be in another pid
 * namespace, where its id is another one; the kernel translates it (SO_PEERCRED).
 */
#ifndef LJTRACE_COLLECTOR_CHANNEL_H
#define LJTRACE_COLLECTOR_CHANNEL_H

#include "ljtrace/protocol/ring.h"
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel {
    int socket; /* to the tool or the launcher */
    bool in_memory;
    struct ring_header *ring;
    /* The following is used in_memory only. */
    int pid;        /* the program */
    int process;    /* a pidfd of it; -1 = there is none */
    bool attached;  /* it had begun before the recording */
    DIR *threads;   /* the place of the next look at their seccomp filters; NULL = at the first thread */
    int64_t begun;  /* when the recording was begun, in milliseconds */
    int64_t looked; /* when they were looked at last */
};

/* The program of this recording is traced through shared memory. */
void channel_use_memory(struct channel *c, const struct recording *recording);
/* Wait for a token, at most so long; 0 = only look. Returns true if there is one, or the program has ended. */
bool channel_has_token(struct channel *c, int milliseconds);
/* Does the process run without the ring, since it has executed another program? false: it does not, or this is not known. */
bool channel_is_left(const struct channel *c);
/* Receive `size` bytes and, if they are sent along, two descriptors. Returns false if the tool is gone. */
bool channel_receive(const struct channel *c, void *to, size_t size, int fds[2]);
/* Receive the next token. Returns false if the tool is gone. fds: as in channel_receive. */
bool channel_token(struct channel *c, struct ring_token *token, int fds[2]);
/* A child may connect now. Only by the collector of its parent. */
void channel_announce(struct channel *c);
/* Wait for the child on that socket, which is closed. Returns a connection; -1 = none comes: the fork has failed, or the
 * child cannot connect. *pid: the child, as in this process's pid namespace. */
int channel_accept(int listener, int milliseconds, int *pid);
/* The slab of the last token may be written again. */
void channel_release(struct channel *c);

#endif
