/* fork.c - a ring of its own for each forked child.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Before the fork, a record with the name of an abstract socket is written, as the last of its slab. When the collector
 * reads it, it listens on the socket and forks as well: its copy knows all blocks of this moment. The child connects, gets
 * the memory of a new ring, and waits until the collector is ready. All descriptors are closed then. The ring is locked
 * during the fork, so that no thread has an event that is not complete.
 *
 * The child makes nothing that its limits could forbid. Abstract sockets belong to a network namespace: a child in another one
 * cannot connect, and is not recorded. The trace of its parent says so.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/copy.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/lua_states.h"
#include "ljtrace/native/inside/resizes.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/protocol/local_socket.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 40 };

static bool s_announced, s_missed; /* the fork; that it was not because of a seccomp filter */
static int s_error;                /* errno before it */
static char s_name[NAME_BYTES];
static uint32_t s_fork; /* its number */

/* ljtrace-PID-NUMBER-NANOSECONDS: no other process has this name by accident. */
static void make_name(void)
{
    char *at = stpcpy(s_name, "ljtrace-");
    at = native_digits(at, native_process.id);
    *at++ = '-';
    at = native_digits(at, s_fork = native_ring_count_fork());
    *at++ = '-';
    native_digits(at, native_now());
}

static void before_fork(void)
{
    const int error = errno;
    if (native_is_on() && native_options.forks && !native_is_sandboxed())
        lua_states_settle();
    s_missed = native_is_on() && native_options.forks && native_is_sandboxed();
    s_announced =
        native_is_on() && native_options.forks && !native_is_sandboxed() && native_enter(NATIVE_HERE.sp);
    if (s_announced) {
        make_name();
        native_ring_put_lost();
        NATIVE_PUT(forked, .instructions = native_now(), .name = native_text(s_name));
        native_ring_flush();
        s_error = error;
    }
    errno = s_announced ? 0 : error;
}

/* No argument says whether the fork has failed, but errno does: it was 0 before. libc sets it again afterwards. */
static void in_parent(void)
{
    const int error = s_announced ? s_error : errno;
    if (s_announced && errno)
        native_ring_fork_failed();
    if (s_announced)
        native_leave();
    errno = error;
}

/* Begin the recording of this child, with the connection to its collector. */
static bool begin_child(int socket)
{
    char ready = 0;
    const int memfd = local_receive(socket);
    if (memfd < 0)
        return false;
    while (recv(socket, &ready, 1, 0) < 0 && errno == EINTR)
        ;
    native_process.id = (uint32_t)getpid();
    native_events_anew();
    native_resizes_anew();
    copy_forked();
    block_sample_forked();
    const bool begun = ready == RING_READY && native_ring_map_childs(memfd);
    if (begun)
        stack_sampler_anew();
    close(memfd);
    return begun;
}

static void in_child(void)
{
    const int error = s_announced ? s_error : errno;
    const int socket =
        s_announced && native_ring_wait_for_listener(s_fork) ? local_connect(s_name, strlen(s_name)) : -1;
    if (s_missed || (s_announced && (socket < 0 || !begin_child(socket))))
        native_ring_unrecorded(s_announced);
    if (socket >= 0)
        close(socket);
    errno = error;
}

void native_follow_forks(void)
{
    static bool registered;
    if (native_options.forks && !registered)
        registered = pthread_atfork(before_fork, in_parent, in_child) == 0;
}
