/* attached.c - what `ljtrace attach` and `ljtrace detach` call in a running program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions are called by a thread that was somewhere else, so they leave errno alone (inject.c does) and use nothing
 * that may wait for a lock of the program.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/attached.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/lua_states.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is the process at the other end this user's or root's? The name of a socket may be anybody's. */
static bool is_trusted(int socket)
{
    struct ucred other;
    socklen_t n = sizeof other;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &n) == 0 &&
           (other.uid == 0 || other.uid == geteuid());
}

/* Get the ring's memory over the abstract socket of that name. Returns -1 on failure, with errno EMFILE if no descriptor is
 * left. */
static int receive_ring(const char *name, size_t n)
{
    const int fd = local_connect(name, n);
    if (fd < 0)
        return -1;
    errno = 0;
    const int memfd = is_trusted(fd) ? local_receive(fd) : -1;
    const bool is_full = memfd < 0 && errno == 0 && fcntl(fd, F_DUPFD_CLOEXEC, 0) < 0;
    close(fd);
    errno = is_full ? EMFILE : errno;
    return memfd;
}

/* text: NAME:ADDRESS, the socket, and where the thread was interrupted. */
NATIVE_PUBLIC int ljtrace_native_attach(const char *text)
{
    const size_t n = strcspn(text, ":");
    if (native_is_on())
        return ATTACHED_BUSY;
    code_patch_interrupted = strtoull(text + n + (text[n] == ':'), NULL, 16);
    const int memfd = receive_ring(text, n);
    if (memfd < 0)
        return errno == EMFILE ? ATTACHED_NO_DESCRIPTOR : ATTACHED_NO_RING;
    const bool begun = native_begin(memfd);
    close(memfd);
    if (!begun)
        return ATTACHED_FAILED;
    if (!got_redirect()) {
        ljtrace_native_detach("");
        return ATTACHED_NO_MAPS;
    }
    lua_states_find();
    code_patch_interrupted = 0;
    return ATTACHED_DONE;
}

NATIVE_PUBLIC int ljtrace_native_detach(const char *text)
{
    (void)text;
    got_restore();
    if (!native_is_on())
        return ATTACHED_NOT;
    lua_states_end();
    native_end();
    return ATTACHED_DONE;
}
