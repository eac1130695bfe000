/* ring.c - shared memory, slabs and tokens. (see ring.h and ljtrace/protocol/ring.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The address range is reserved by Valgrind's address space manager, and a memfd is mapped over it, so that
 * no private interface of Valgrind is needed. The collector must not be a child of the program, which might
 * wait() for any child. It is started by a double fork, and so becomes an orphan.
 */
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "memtrace/stream.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

#define COLLECTOR_NAME "ljtrace-collector"

struct ring_header *lt_ring;

static Int s_socket = -1;
static struct ring_shape s_shape; /* of the ring */
static UInt s_free_slabs;         /* number of slabs that may be written after the current one */
static UInt s_known_slabs;        /* number of slabs that were written at least once, and so have pages */
static HChar s_text[512];         /* text that the collector has sent, the reason of a failure */
static UInt s_heard;              /* bytes of it */
static Bool s_reporting;          /* the bytes that come next are a report */
static HChar s_report[256];
static UInt s_reported;
static Bool s_noting; /* the bytes that come next are a note */
static HChar s_notes[4096];
static UInt s_noted;
static ULong s_slabs_used;        /* number of slabs since the start */
static void (*s_call_back)(void); /* see lt_ring_call_back; NULL = none */

static Addr slab_address(UInt slab)
{
    return lt_ring->slabs + (Addr)slab * s_shape.slab_bytes;
}

static void set_limit(void)
{
    Addr end = slab_address(lt_ring->current) + s_shape.slab_bytes;
    lt_ring->limit = s_call_back ? 0 : end - RING_MARGIN_BYTES;
}

static void use_slab(UInt slab)
{
    lt_ring->current = slab;
    __asm__ volatile("" ::: "memory"); /* the collector must see this before the cursor moves */
    s_slabs_used++;
    if (slab == s_known_slabs) {
        lt_prefault_needed(slab_address(slab), s_shape.slab_bytes);
        s_known_slabs++;
    }
    set_limit();
    lt_ring->cursor = slab_address(slab);
}

/* An access so many bytes beside a block of the C heap is an error. Valgrind's allocator leaves at least
 * twice as many bytes between blocks. */
enum { LEAST_BESIDE = 16 };

/* What the options ask for. */
static struct recording recording(void)
{
    return (struct recording){
        .process = VG_(getpid)(),
        .text = lt_options.text,
        .freed = lt_options.trace_freed,
        .keep_last = lt_options.keep_last,
        .level = lt_options.level,
        .beside = lt_options.redzone > LEAST_BESIDE ? lt_options.redzone : LEAST_BESIDE,
        .max_size = lt_options.max_size,
        .sample_blocks = lt_options.sample_blocks,
        .sample_seed = lt_options.sample_seed,
    };
}

static void init_header(void)
{
    lt_ring->magic = RING_MAGIC;
    lt_ring->version = RING_VERSION;
    lt_ring->slabs = (Addr)lt_ring + RING_HEADER_BYTES;
    lt_ring->slab_count = s_shape.slab_count;
    lt_ring->slab_bytes = s_shape.slab_bytes;
    lt_ring->instructions = lt_ring->return_sp = 0;
    lt_ring->full = lt_ring->ended = 0;
    lt_ring->recording = recording();
    s_free_slabs = s_shape.slab_count - 1;
    s_known_slabs = 0;
    use_slab(0);
}

/* Process a byte of a note, or the byte before or after a note. Each note is terminated by a zero. */
static void hear_note(HChar byte)
{
    s_noting ^= byte == RING_NOTE;
    if (s_noted < sizeof s_notes - 1 && !(s_noting && byte == RING_NOTE))
        s_notes[s_noted++] = byte == RING_NOTE ? 0 : byte;
}

static void hear_byte(HChar byte)
{
    if (byte == RING_SLAB_FREE)
        s_free_slabs++;
    else if (byte == RING_REPORT)
        s_reporting = !s_reporting;
    else if (byte == RING_NOTE || s_noting)
        hear_note(byte);
    else if (s_reporting && s_reported < sizeof s_report - 1)
        s_report[s_reported++] = byte;
    else if (!s_reporting && s_heard < sizeof s_text - 1)
        s_text[s_heard++] = byte;
}

/* Read what the collector has sent. Bytes without a meaning are the text of an error. */
static Bool hear(void)
{
    HChar bytes[256];
    Int n = lt_receive(s_socket, bytes, sizeof bytes);
    for (Int i = 0; i < n; i++)
        hear_byte(bytes[i]);
    return n > 0;
}

/* The collector is gone: show its last message and stop recording. */
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

/* In the grandchild: remove preloaded libraries from the environment; they are meant for the program. A
 * preloaded allocator could fail in the collector, or close its descriptors. */
static void forget_preloads(void)
{
    HChar **to = VG_(client_envp);
    for (HChar **from = to; *from; from++)
        if (VG_(strncmp)(*from, "LD_PRELOAD=", 11) != 0 && VG_(strncmp)(*from, "LD_AUDIT=", 9) != 0)
            *to++ = *from;
    *to = NULL;
}

/* In the grandchild: become the collector. */
static void exec_collector(Int memfd, Int socket, const HChar *out)
{
    HChar path[VKI_PATH_MAX], mem[16], sock[16];
    VG_(snprintf)(path, sizeof path, "%s/%s", VG_(libdir), COLLECTOR_NAME);
    /* dup2 to the same number would keep close-on-exec, so make copies. They must not be standard
     * descriptors, which the collector may have to write to. */
    VG_(sprintf)(mem, "%d", lt_dup(memfd));
    VG_(sprintf)(sock, "%d", lt_dup(socket));
    const HChar *argv[] = {path, mem, sock, out, NULL};
    lt_setsid();
    lt_default_signals();
    forget_preloads();
    VG_(execv)(path, argv);
    VG_(fmsg)("cannot run %s\n", path);
    lt_exit(127);
}

/* If this process adopts orphans, it would adopt the collector, and might wait() for it. In this case the
 * collector gets another parent, a keeper process that the program does not see. */
static Bool spawn_kept(Int memfd, Int socket, const HChar *out)
{
    Int keeper = lt_fork_unnoticed();
    if (keeper != 0)
        return keeper > 0;
    lt_setsid();
    lt_default_signals();
    lt_adopt_orphans();
    if (lt_fork() == 0)
        exec_collector(memfd, socket, out);
    lt_close_all();
    lt_outlive_children();
    lt_exit(0);
    return False;
}

/* Fork twice, so that the collector is not a child of the program. */
static Bool spawn_collector(Int memfd, Int socket, const HChar *out)
{
    if (lt_adopts_orphans())
        return spawn_kept(memfd, socket, out);
    Int status, child = lt_fork();
    if (child < 0)
        return False;
    if (child == 0) {
        Int grandchild = lt_fork();
        if (grandchild == 0)
            exec_collector(memfd, socket, out);
        lt_exit(grandchild < 0);
    }
    return VG_(waitpid)(child, &status, 0) == child && status == 0;
}

/* Wait until the collector has opened its output, or sends why it cannot. silence: what to report if it sends
 * nothing. */
static enum lt_start wait_until_ready(const HChar *silence)
{
    while (s_heard == 0 && hear())
        ;
    HChar first = s_text[0];
    if (s_heard == 1 && (first == RING_READY || first == RING_TAKEN || first == RING_BUSY)) {
        s_heard = 0;
        return first == RING_READY ? LT_START_OK : first == RING_TAKEN ? LT_START_TAKEN : LT_START_BUSY;
    }
    while (hear())
        ;
    if (s_heard)
        VG_(fmsg)("%s; give a writable file with --out=FILE\n", s_text);
    else
        VG_(fmsg)("the collector %s/" COLLECTOR_NAME " %s\n", VG_(libdir), silence);
    return LT_START_FAILED;
}

Int lt_make_ring_memory(void)
{
    Int fd = lt_memfd_create(RING_FILE_NAME);
    for (UInt i = 0; fd >= 0 && i < RING_SHAPES; i++)
        if (lt_ftruncate(fd, ring_shape_bytes(&ring_shapes[i])) >= 0)
            return fd;
    if (fd >= 0)
        VG_(close)(fd);
    return -1;
}

/* Map the ring: the memfd or, if memfd < 0, private memory. The size of the file is that of one of the shapes. */
static Bool map_ring(Int memfd)
{
    Off64T bytes = memfd < 0 ? (Off64T)RING_BYTES : VG_(lseek)(memfd, 0, VKI_SEEK_END);
    for (UInt i = RING_SHAPES; i-- > 0;)
        if ((Off64T)ring_shape_bytes(&ring_shapes[i]) <= bytes)
            s_shape = ring_shapes[i];
    return lt_map_over((Addr)lt_ring, RING_BYTES, memfd) == (Long)(Addr)lt_ring;
}

/* Start the collector. Its end of the socket is closed here, ours is hidden from the program. Returns false
 * if it was not started. */
static Bool start_on(Int memfd, const Int pair[2], const HChar *out)
{
    Bool started = spawn_collector(memfd, pair[1], out);
    VG_(close)(pair[1]);
    VG_(close)(memfd);
    s_socket = lt_hide_fd(pair[0]);
    if (!started)
        VG_(fmsg)("cannot start a process for the recording, the collector: see ulimit -u\n");
    else if (s_socket < 0)
        VG_(fmsg)("no descriptor is left for the recording: see ulimit -n\n");
    return started && s_socket >= 0;
}

/* Reserve address space that Valgrind does not use for anything else; NULL = there is none. */
static void *reserve_addresses(SizeT size)
{
#if LT_RESERVED_IS_RESULT
    SysRes result = VG_(am_shadow_alloc)(size);
    return sr_isError(result) ? NULL : (void *)sr_Res(result);
#else
    return VG_(am_shadow_alloc)(size);
#endif
}

enum lt_start lt_ring_start(const HChar *out)
{
    Int pair[2], memfd = lt_make_ring_memory();
    if (!lt_ring)
        lt_ring = reserve_addresses(RING_BYTES);
    if (!lt_ring || memfd < 0 || !map_ring(memfd) || lt_socketpair(pair) < 0) {
        VG_(fmsg)
        ("cannot make shared memory for the recording: %llu bytes of addresses, a file of %llu; see ulimit "
         "-v, -f, -n\n",
         (ULong)RING_BYTES, (ULong)ring_shape_bytes(&ring_shapes[RING_SHAPES - 1]));
        if (memfd >= 0)
            VG_(close)(memfd);
        return LT_START_FAILED;
    }
    init_header();
    enum lt_start started = start_on(memfd, pair, out) ? wait_until_ready("did not start") : LT_START_FAILED;
    if (started == LT_START_OK)
        return started;
    if (s_socket >= 0)
        VG_(close)(s_socket);
    s_socket = -1;
    return started;
}

static void send_slab(void)
{
    struct ring_token token = {lt_ring->current, (UInt)(lt_ring->cursor - slab_address(lt_ring->current))};
    if (lt_send(s_socket, &token, sizeof token) < 0)
        go_deaf();
}

void lt_ring_call_back(void (*f)(void))
{
    s_call_back = f;
    set_limit();
}

static void call_back(void)
{
    void (*f)(void) = s_call_back;
    s_call_back = NULL;
    set_limit();
    f();
}

void lt_ring_make_room(void)
{
    if (s_call_back)
        call_back();
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_flush();
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
    use_slab((lt_ring->current + 1) % s_shape.slab_count);
}

void lt_ring_drain(void)
{
    lt_ring_flush();
    while (s_socket >= 0 && s_free_slabs < s_shape.slab_count - 1)
        if (!hear())
            go_deaf();
}

struct lt_ring_place lt_ring_here(void)
{
    lt_ring_reserve(0);
    return (struct lt_ring_place){lt_ring->cursor, s_slabs_used};
}

const UChar *lt_ring_at(const struct lt_ring_place *place)
{
    return place->slab == s_slabs_used ? (const UChar *)place->at : NULL;
}

void lt_ring_rewind(const struct lt_ring_place *place)
{
    tl_assert(place->slab == s_slabs_used && place->at <= lt_ring->cursor);
    lt_ring->rewinds++;
    __asm__ volatile("" ::: "memory"); /* the collector must see this before the cursor moves, */
    lt_ring->cursor = place->at;
    __asm__ volatile("" ::: "memory"); /* and the cursor before `held` is cleared */
}

void lt_ring_put_segment(UInt number, const uint64_t *words, UInt n)
{
    const UInt bytes = (UInt)mt_stream_bytes(n);
    uint8_t *at = mt_stream_put_id((uint8_t *)lt_ring_reserve(bytes), number);
    for (UInt i = 0; i < n; i++)
        at = mt_stream_put_word(at, words[i]);
    lt_ring_commit(bytes);
}

void lt_ring_put_state(Addr word, Int state)
{
    UChar *at = (UChar *)lt_ring_reserve(RAW_STATE_BYTES);
    raw_word *words = (raw_word *)(at + RAW_STATE_HEADER_BYTES);
    *(raw_half *)at = raw_state_header();
    words[0] = lt_ring->instructions;
    words[1] = raw_state(word, state);
    lt_ring_commit(RAW_STATE_BYTES);
}

void lt_ring_announce_fork(Int memfd, Int socket)
{
    struct ring_token token = {RING_FORK, 0};
    Int fds[2] = {memfd, socket};
    lt_ring_flush();
    if (s_socket >= 0 && lt_send_fds(s_socket, &token, sizeof token, fds) != sizeof token)
        go_deaf();
}

Bool lt_ring_do_without(void)
{
    if (!lt_ring || !map_ring(-1))
        return False;
    init_header();
    return True;
}

/* Replace the ring's memory (memfd < 0: by private memory), and keep the state that continues. */
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
    struct ring_token token = {RING_FORK, 0};
    HChar pid[16];
    token.bytes = VG_(sprintf)(pid, "%d:", VG_(getpid)()) + VG_(strlen)(name);
    VG_(close)(s_socket);
    s_socket = lt_hide_fd(socket);
    s_heard = s_noted = 0;
    replace_ring(memfd);
    VG_(close)(memfd);
    if (s_socket < 0)
        return;
    if (lt_send(s_socket, &token, sizeof token) == 0 && lt_send(s_socket, pid, VG_(strlen)(pid)) == 0 &&
        lt_send(s_socket, name, VG_(strlen)(name)) == 0 &&
        wait_until_ready("has ended before the fork") == LT_START_OK)
        return;
    VG_(close)(s_socket);
    s_socket = -1;
    VG_(umsg)("ljtrace: this forked child runs on unrecorded\n");
}

const HChar *lt_ring_report(Bool snapshot)
{
    s_reported = 0;
    HOST_PUT(report, .snapshot = snapshot);
    lt_ring_flush();
    while (s_socket >= 0 && (s_reported == 0 || s_reporting))
        if (!hear())
            go_deaf();
    s_report[s_reported] = 0;
    return s_report;
}

/* Show the notes that the collector has sent. */
static void show_notes(void)
{
    for (UInt at = 0; at < s_noted; at += VG_(strlen)(s_notes + at) + 1)
        VG_(umsg)("ljtrace: %s\n", s_notes + at);
    s_noted = 0;
}

Bool lt_ring_finish(UInt ending)
{
    if (s_socket < 0)
        return False;
    HOST_PUT(end, .ending = ending, .instructions = lt_ring->instructions);
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
    show_notes();
    return s_heard == 0;
}

/* -- records -- */

#define RECORD(NAME, name, fields)                                                                           \
    void host_put_##name(const struct ring_##name *r)                                                        \
    {                                                                                                        \
        ring_put_##name(r);                                                                                  \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

/* -- are accesses recorded now? -- */

static Bool s_accesses = True; /* the code that is translated now records its accesses */

Bool lt_accesses_recorded(void)
{
    return lt_options.trace_mem && s_accesses;
}

void lt_accesses_follow_ring(void)
{
    Bool wanted = !lt_ring->full && lt_ring_alive();
    if (wanted == s_accesses)
        return;
    s_accesses = wanted;
    if (lt_options.trace_mem)
        lt_smc_translate_again();
}

/* -- facts -- */

void lt_put_info(const HChar *key, const HChar *value)
{
    HOST_PUT(info, .key = host_text(key), .value = host_text(value));
}

void lt_put_number(const HChar *key, ULong n)
{
    HChar text[32];
    VG_(snprintf)(text, sizeof text, "%llu", n);
    lt_put_info(key, text);
}

/* -- take back the accesses of a watched allocator -- */

enum { FIRST_CAPACITY = 4096 };

/* The number of words and instructions of a segment, by its number. */
struct segment_shape {
    UChar words, instructions;
};

static struct segment_shape *s_segments;
static UInt s_segment_count, s_segment_capacity;
static UInt s_pending; /* calls that have not ended and may be rolled back */

static void segments_make_room(void)
{
    if (s_segment_count < s_segment_capacity)
        return;
    s_segment_capacity = s_segment_capacity ? 2 * s_segment_capacity : FIRST_CAPACITY;
    s_segments = VG_(realloc)("ljtrace.shapes", s_segments, s_segment_capacity * sizeof *s_segments);
}

void lt_rollback_segment(UInt words, UInt instructions)
{
    tl_assert(words <= 255 && instructions <= 255);
    segments_make_room();
    s_segments[s_segment_count++] = (struct segment_shape){(UChar)words, (UChar)instructions};
}

void lt_rollback_enter(struct lt_ring_place *place)
{
    place->at = 0;
    if (!lt_accesses_recorded())
        return;
    *place = lt_ring_here();
    if (s_pending++ == 0)
        lt_ring->held = place->at;
    HOST_PUT(enter);
}

/* A call has ended. If it was the only one, the records in the ring are final. */
static void release(void)
{
    if (s_pending && --s_pending == 0)
        lt_ring->held = 0;
}

/* Return the address after a segment. Small numbers of words are distinguished by branches. An allocator
 * repeats itself, so the processor predicts them, and does not have to wait for each segment to find the
 * next. This takes a quarter of the time of a plain sum. */
static inline const UChar *after_segment(const UChar *at, UInt words)
{
#define IF_WORDS(n)                                                                                          \
    if (words == (n)) {                                                                                      \
        at += mt_stream_bytes(n);                                                                            \
        __asm__("" : "+r"(at)); /* or the compiler would make one sum of all of them */                      \
        return at;                                                                                           \
    }
    IF_WORDS(1)
    IF_WORDS(2)
    IF_WORDS(3)
    IF_WORDS(4)
#undef IF_WORDS
    return at + mt_stream_bytes(words);
}

/* If there are only segments between two addresses in the ring, return true and the sum of their
 * instructions. */
static Bool sum_segments(const UChar *at, const UChar *end, ULong *instructions)
{
    ULong sum = 0;
    while (at < end && mt_stream_id(at) < s_segment_count) {
        const struct segment_shape *shape = &s_segments[mt_stream_id(at)];
        sum += shape->instructions;
        at = after_segment(at, shape->words);
    }
    *instructions = sum;
    return at == end;
}

void lt_rollback_return(const struct lt_ring_place *place)
{
    ULong instructions;
    if (!place->at)
        return;
    const UChar *entered = lt_ring_at(place);
    if (entered && sum_segments(entered + sizeof(ULong), (const UChar *)lt_ring->cursor, &instructions)) {
        lt_ring->instructions += instructions;
        lt_ring_rewind(place);
    } else
        HOST_PUT(leave);
    release();
}

void lt_rollback_drop(const struct lt_ring_place *place)
{
    if (!place->at)
        return;
    HOST_PUT(leave);
    release();
}
