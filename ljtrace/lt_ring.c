/* lt_ring.c - shared memory, slabs and tokens. (host side, no libc; see lt_ring.h and ring.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The address range is reserved through Valgrind's address space manager and a memfd is then mapped over it,
 * so that no private interface of Valgrind is needed. The collector is started by a double fork: it is
 * nobody's child, so a program that waits for any child never meets it.
 */
#include "lt_ring.h"
#include "lt_sys.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"

#define COLLECTOR_NAME "ljtrace-collector"

struct ring_header *lt_ring;

static Int s_socket = -1;
static UInt s_free_slabs; /* slabs that may be written after the current one */
static HChar s_text[512]; /* what the collector had to say */
static UInt s_heard;      /* bytes of it */

static Addr slab_address(UInt slab)
{
    return lt_ring->slabs + (Addr)slab * RING_SLAB_BYTES;
}

static void use_slab(UInt slab)
{
    lt_ring->current = slab;
    lt_ring->limit = slab_address(slab) + RING_SLAB_BYTES - RING_MARGIN_BYTES;
    lt_ring->cursor = slab_address(slab);
}

static void init_header(void)
{
    lt_ring->magic = RING_MAGIC;
    lt_ring->version = RING_VERSION;
    lt_ring->slabs = (Addr)lt_ring + RING_HEADER_BYTES;
    lt_ring->instructions = lt_ring->return_sp = 0;
    s_free_slabs = RING_SLABS - 1;
    use_slab(0);
}

/* Read what the collector sent: 'f' gives a slab back, anything else is the text of an error. */
static Bool hear(void)
{
    HChar bytes[256];
    Int n = lt_receive(s_socket, bytes, sizeof bytes);
    for (Int i = 0; i < n; i++) {
        if (bytes[i] == RING_SLAB_FREE)
            s_free_slabs++;
        else if (s_heard < sizeof s_text - 1)
            s_text[s_heard++] = bytes[i];
    }
    return n > 0;
}

/* The collector is gone: say its last words, and record no more. */
static void go_deaf(void)
{
    while (hear())
        ;
    VG_(close)(s_socket);
    s_socket = -1;
    VG_(umsg)("ljtrace: recording ended: %s\n", s_heard ? s_text : "the collector was killed");
    VG_(umsg)("ljtrace: the program runs on unrecorded\n");
}

Bool lt_ring_alive(void)
{
    return s_socket >= 0;
}

/* In the grandchild: become the collector. */
static void exec_collector(Int memfd, Int socket, const HChar *out, const HChar *level)
{
    HChar path[VKI_PATH_MAX], mem[16], sock[16];
    VG_(snprintf)(path, sizeof path, "%s/%s", VG_(libdir), COLLECTOR_NAME);
    /* dup2 within itself would keep close-on-exec: copy to descriptors that survive */
    VG_(sprintf)(mem, "%lu", sr_Res(VG_(dup)(memfd)));
    VG_(sprintf)(sock, "%lu", sr_Res(VG_(dup)(socket)));
    const HChar *argv[] = {path, "--ring", mem, "--socket", sock, "--level", level, "--out", out, NULL};
    lt_setsid();
    lt_default_signals();
    VG_(execv)(path, argv);
    VG_(fmsg)("cannot run %s\n", path);
    lt_exit(127);
}

/* Fork twice, so that the collector is not a child of the program. */
static Bool spawn_collector(Int memfd, Int socket, const HChar *out, const HChar *level)
{
    Int status, child = lt_fork();
    if (child < 0)
        return False;
    if (child == 0) {
        Int grandchild = lt_fork();
        if (grandchild == 0)
            exec_collector(memfd, socket, out, level);
        lt_exit(grandchild < 0);
    }
    return VG_(waitpid)(child, &status, 0) == child && status == 0;
}

/* The collector says that it has opened its output, or why not. */
static Bool wait_until_ready(void)
{
    while (s_heard == 0 && hear())
        ;
    if (s_heard == 1 && s_text[0] == RING_READY) {
        s_heard = 0;
        return True;
    }
    while (hear())
        ;
    if (s_heard)
        VG_(fmsg)("%s\n", s_text);
    else
        VG_(fmsg)("the collector %s/" COLLECTOR_NAME " did not start\n", VG_(libdir));
    return False;
}

Int lt_make_ring_memory(void)
{
    Int fd = lt_memfd_create("ljtrace-ring");
    if (fd >= 0 && lt_ftruncate(fd, RING_BYTES) < 0) {
        VG_(close)(fd);
        return -1;
    }
    return fd;
}

static Bool map_ring(Int memfd)
{
    return lt_map_over((Addr)lt_ring, RING_BYTES, memfd) == (Long)(Addr)lt_ring;
}

Bool lt_ring_start(const HChar *out, const HChar *level)
{
    Int pair[2], memfd = lt_make_ring_memory();
    lt_ring = VG_(am_shadow_alloc)(RING_BYTES);
    if (!lt_ring || memfd < 0 || !map_ring(memfd) || lt_socketpair(pair) < 0) {
        VG_(fmsg)
        ("cannot make shared memory of %llu bytes for the recording: see ulimit -v, -f and -n\n",
         (ULong)RING_BYTES);
        return False;
    }
    init_header();
    Bool started = spawn_collector(memfd, pair[1], out, level);
    VG_(close)(pair[1]);
    VG_(close)(memfd);
    s_socket = lt_hide_fd(pair[0]);
    if (started && s_socket >= 0 && wait_until_ready())
        return True;
    if (s_socket >= 0)
        VG_(close)(s_socket);
    s_socket = -1;
    return False;
}

static void send_slab(void)
{
    struct ring_token token = {lt_ring->current, (UInt)(lt_ring->cursor - slab_address(lt_ring->current))};
    if (lt_send(s_socket, &token, sizeof token) < 0)
        go_deaf();
}

void lt_ring_flush(void)
{
    if (s_socket >= 0)
        send_slab();
    while (s_socket >= 0 && s_free_slabs == 0)
        if (!hear())
            go_deaf();
    if (s_socket < 0) {
        use_slab(lt_ring->current);
        return;
    }
    s_free_slabs--;
    use_slab((lt_ring->current + 1) % RING_SLABS);
}

/* Room for `words` at the cursor. */
static uint64_t *reserve(UInt words)
{
    tl_assert(words * sizeof(ULong) <= RING_MARGIN_BYTES);
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_flush();
    return (uint64_t *)lt_ring->cursor;
}

static void commit(UInt words)
{
    __asm__ volatile("" ::: "memory");
    lt_ring->cursor += words * sizeof(ULong);
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_flush();
}

void lt_ring_put(enum raw_type type, UInt argument, const uint64_t *a, UInt n, const uint64_t *b, UInt m)
{
    uint64_t *at = reserve(1 + n + m);
    at[0] = raw_header(type, argument, n + m);
    VG_(memcpy)(at + 1, a, n * sizeof *a);
    VG_(memcpy)(at + 1 + n, b, m * sizeof *b);
    commit(1 + n + m);
}

void lt_ring_put_text(enum raw_type type, const uint64_t *a, UInt n, const HChar *const *text,
                      const UInt *size, UInt texts)
{
    UInt bytes = 0, used = 0;
    for (UInt i = 0; i < texts; i++)
        bytes += size[i];
    UInt words = (bytes + 7) / 8;
    uint64_t *at = reserve(1 + n + words);
    at[0] = raw_header(type, 0, n + words);
    VG_(memcpy)(at + 1, a, n * sizeof *a);
    for (UInt i = 0; i < texts; used += size[i++])
        VG_(memcpy)((HChar *)(at + 1 + n) + used, text[i], size[i]);
    commit(1 + n + words);
}

void lt_ring_announce_fork(Int memfd, Int socket)
{
    struct ring_token token = {RING_FORK, 0};
    Int fds[2] = {memfd, socket};
    lt_ring_flush();
    if (s_socket >= 0 && lt_send_fds(s_socket, &token, sizeof token, fds) != sizeof token)
        go_deaf();
}

/* Put other memory (none: private memory) in the ring's place, with the state that goes on. */
static void replace_ring(Int memfd)
{
    struct ring_header old = *lt_ring;
    Bool mapped = map_ring(memfd);
    tl_assert(mapped);
    init_header();
    lt_ring->return_sp = old.return_sp;
    lt_ring->instructions = old.instructions;
}

void lt_ring_abandon(void)
{
    if (s_socket < 0)
        return;
    VG_(close)(s_socket);
    s_socket = -1;
    replace_ring(-1);
}

void lt_ring_adopt(Int memfd, Int socket, const HChar *name)
{
    struct ring_token token = {RING_FORK, (UInt)VG_(strlen)(name)};
    VG_(close)(s_socket);
    s_socket = lt_hide_fd(socket);
    s_heard = 0;
    replace_ring(memfd);
    VG_(close)(memfd);
    if (s_socket < 0)
        return;
    if (lt_send(s_socket, &token, sizeof token) == 0 && lt_send(s_socket, name, token.bytes) == 0 &&
        wait_until_ready())
        return;
    VG_(close)(s_socket);
    s_socket = -1;
}

Bool lt_ring_finish(UInt ending)
{
    if (s_socket < 0)
        return False;
    lt_ring_put(RAW_END, ending, &lt_ring->instructions, 1, NULL, 0);
    if (s_socket >= 0)
        send_slab();
    if (s_socket < 0)
        return False;
    while (hear())
        ;
    VG_(close)(s_socket);
    s_socket = -1;
    if (s_heard)
        VG_(umsg)("ljtrace: %s\n", s_text);
    return s_heard == 0;
}
