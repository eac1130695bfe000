/* ring.c - the native library's end of the ring: its memory, its lock and its records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ljtrace/protocol/ring.h describes the ring. The lock is a futex with the three states of Drepper, "Futexes Are Tricky":
 * free, taken, and taken while others wait.
 *
 * With --when-full=drop, events are dropped as soon as only one slab is free. That one is for records that later events
 * refer to, such as names, and for those that say how the program goes on, such as forks; these wait if it is full, too.
 * Whether events are dropped is decided when the ring is locked, so an event is dropped as a whole. While a recording is
 * about to end, all events are dropped.
 *
 * A system call may end a program that has a seccomp filter. The library notices filters that are installed by functions
 * (seccomp.c); the collector sees all of them, some time later, and sets a word in the header. From then on no thread makes
 * a system call for the ring: it polls the lock, and events are dropped if there is no room.
 *
 * A child process that was forked shares the ring with its parent, whatever function has forked it. A private page that
 * the kernel wipes at a fork tells both apart at the cost of one load for each event.
 *
 * A copy of the process that only reads memory (copy.c) has a slab of its own, which it sends to the collector.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/ring_put.h"
#include "ljtrace/native/inside/usual.h"
#include "ljtrace/protocol/copies.h"
#include "ljtrace/protocol/kernel.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100, PATIENCE = 10 /* milliseconds */, MOST_WAITS = 30 /* seconds */ };

struct ring_header *native_ring;
static int s_socket = -1;     /* in a copy of the process: what is full is sent there */
static uint64_t s_ring_bytes; /* that are mapped there */
const volatile uint32_t *native_alive;
bool native_is_starved;
static uint32_t *s_page; /* the page of native_alive */
uint32_t native_lock;
NATIVE_SHARED_THREAD_LOCAL volatile bool native_has_lock;
NATIVE_SHARED_THREAD_LOCAL bool native_is_exiting;
bool native_dropping;         /* the ring was full when it was locked last, and events are dropped then */
static volatile bool s_quiet; /* no system calls are made for the lock, and for the ring */
bool native_has_lost;         /* events were dropped since the last LOST record */
/* The recording was about to end when the ring was locked last; events are dropped then. */
static bool s_ending;
/* Events that were dropped because of that. They are lost only if the recording goes on. */
static uint64_t s_after[RING_LOSSES];

static long futex(uint32_t *word, int what, uint32_t value, const struct timespec *most)
{
    return syscall(SYS_futex, word, what, value, most, NULL, 0);
}

/* -- the memory that the recorder has mapped -- */

static struct ring_range s_own[RING_OWN];
static uint32_t s_own_count;

static void show_own(struct ring_header *ring)
{
    const uint32_t count = __atomic_load_n(&s_own_count, __ATOMIC_ACQUIRE);
    memcpy(ring->own, s_own, sizeof s_own);
    __atomic_store_n(&ring->own_count, count < RING_OWN ? count : RING_OWN, __ATOMIC_RELEASE);
}

void native_own(const void *at, size_t size)
{
    uint32_t i = 0;
    while (i < RING_OWN && i < s_own_count && s_own[i].start != (uint64_t)at)
        i++;
    if (i >= s_own_count)
        i = __atomic_fetch_add(&s_own_count, 1, __ATOMIC_RELAXED);
    if (i < RING_OWN)
        s_own[i] = (struct ring_range){(uint64_t)at, size};
    if (native_ring)
        show_own(native_ring);
}

void *native_memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    native_own(at, size);
    return at;
}

static uint64_t slab_address(uint32_t slab)
{
    return native_ring->slabs + (uint64_t)slab * native_ring->slab_bytes;
}

/* The collector must see each store before the next one. */
static void use_slab(uint32_t slab)
{
    __atomic_store_n(&native_ring->current, slab, __ATOMIC_RELEASE);
    native_ring->limit = slab_address(slab) + native_ring->slab_bytes - RING_MARGIN_BYTES;
    __atomic_store_n(&native_ring->cursor, slab_address(slab), __ATOMIC_RELEASE);
}

static struct ring_header *map_header(int memfd)
{
    void *header = mmap(NULL, RING_HEADER_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
    return header == MAP_FAILED ? NULL : header;
}

bool native_ring_read(int memfd, struct recording *to)
{
    struct ring_header *header = map_header(memfd);
    const bool valid = header && ring_read_recording(header, to);
    if (header)
        munmap(header, RING_HEADER_BYTES);
    return valid;
}

/* Map a ring of any size. Returns NULL on failure. */
static struct ring_header *map_memory(int memfd)
{
    struct ring_header *header = map_header(memfd);
    if (!header)
        return NULL;
    const uint64_t bytes = ring_is_valid(header) ? ring_bytes(header) : 0;
    munmap(header, RING_HEADER_BYTES);
    void *ring = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0) : MAP_FAILED;
    return ring == MAP_FAILED ? NULL : ring;
}

/* Use this memory as the ring. is_childs: the one before is that of the parent, where this child is counted. */
static bool map_ring(int memfd, bool is_childs)
{
    uint32_t *page = s_page ? s_page : native_memory(KERNEL_PAGE);
    struct ring_header *ring = map_memory(memfd);
    if (!page || madvise(page, KERNEL_PAGE, MADV_WIPEONFORK) != 0 || !ring)
        return false;
    *page = 1;
    s_page = page;
    native_clock_begin();
    if (native_ring && is_childs)
        __atomic_add_fetch(&native_ring->recorded, 1, __ATOMIC_RELEASE);
    if (native_ring)
        munmap(native_ring, s_ring_bytes);
    s_ring_bytes = ring_bytes(ring);
    ring->slabs = (uint64_t)ring + RING_HEADER_BYTES;
    native_has_lost = s_ending = false;
    memset(s_after, 0, sizeof s_after);
    native_ring = ring;
    ring->clock = native_clock_start();
    show_own(ring);
    ring->process = (uint32_t)syscall(SYS_getpid);
    use_slab(0);
    ring->begun = 1;
    native_alive = page;
    return true;
}

static bool map_unlocked(int memfd, bool is_childs)
{
    native_lock = LOCK_FREE;
    native_has_lock = false;
    return map_ring(memfd, is_childs);
}

bool native_ring_map(int memfd)
{
    return map_unlocked(memfd, false);
}

bool native_ring_map_childs(int memfd)
{
    return map_unlocked(memfd, true);
}

bool native_is_sandboxed(void)
{
    return __atomic_load_n(&native_ring->sandboxed, __ATOMIC_RELAXED) != 0;
}

/* The number of slabs that have room, with the current one. */
static uint32_t free_slabs(void)
{
    return native_ring->slab_count -
           (native_ring->filled - __atomic_load_n(&native_ring->consumed, __ATOMIC_ACQUIRE));
}

/* A wait has a limit, because a lock that is released in quiet wakes no thread. */
static void wait_for_lock(void)
{
    const struct timespec second = {1, 0};
    for (int i = 0; i < SPINS; i++) {
        uint32_t expected = LOCK_FREE;
        if (__atomic_load_n(&native_lock, __ATOMIC_RELAXED) == LOCK_FREE &&
            __atomic_compare_exchange_n(&native_lock, &expected, LOCK_TAKEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return;
        __builtin_ia32_pause();
    }
    while (__atomic_exchange_n(&native_lock, LOCK_WAITED_FOR, __ATOMIC_ACQUIRE) != LOCK_FREE)
        if (!s_quiet)
            futex(&native_lock, FUTEX_WAIT_PRIVATE, LOCK_WAITED_FOR, &second);
}

static void take_lock(void)
{
    if (!usual_lock())
        wait_for_lock();
    native_has_lock = true;
}

/* The recording goes on, although it was about to end. The ring is locked. */
static void go_on(void)
{
    for (int kind = 0; kind < RING_LOSSES; kind++) {
        const uint64_t n = __atomic_exchange_n(&s_after[kind], 0, __ATOMIC_RELAXED);
        __atomic_add_fetch(&native_ring->lost[kind], n, __ATOMIC_RELAXED);
        if (n)
            __atomic_store_n(&native_has_lost, true, __ATOMIC_RELEASE);
    }
}

/* This thread has not exited: its child of vfork has, which uses its memory. To ask for the process would be a system call. */
static void take_back_exit(void)
{
    native_ring->exiting = 0;
    native_is_exiting = false;
}

/* The ring was locked. Is this process still recorded? If not, it is unlocked. */
static bool begin_records(void)
{
    if (!native_is_on()) {
        native_ring_unlock();
        return false;
    }
    const bool was_ending = s_ending;
    s_ending = __atomic_load_n(&native_ring->ending, __ATOMIC_RELAXED) != 0;
    if (was_ending && !s_ending)
        go_on();
    if (native_is_exiting)
        take_back_exit();
    s_quiet = native_is_sandboxed();
    native_dropping = s_ending || ((native_options.drops || s_quiet) && free_slabs() < 2);
    return true;
}

bool native_ring_lock(void)
{
    if (!native_is_on())
        return false;
    take_lock();
    return begin_records();
}

bool native_ring_try_lock(void)
{
    const struct timespec millisecond = {0, 1000000};
    for (int i = 0; i < PATIENCE && !native_has_lock; i++) {
        if (__atomic_exchange_n(&native_lock, LOCK_WAITED_FOR, __ATOMIC_ACQUIRE) != LOCK_FREE) {
            if (s_quiet)
                return false;
            futex(&native_lock, FUTEX_WAIT_PRIVATE, LOCK_WAITED_FOR, &millisecond);
            continue;
        }
        native_has_lock = true;
        return begin_records();
    }
    if (!native_has_lock && !s_quiet) /* the wake-up for another thread may have come here */
        futex(&native_lock, FUTEX_WAKE_PRIVATE, 1, NULL);
    return false;
}

void native_ring_unlock(void)
{
    native_has_lock = false;
    if (!usual_unlock() &&
        __atomic_exchange_n(&native_lock, LOCK_FREE, __ATOMIC_RELEASE) == LOCK_WAITED_FOR && !s_quiet)
        futex(&native_lock, FUTEX_WAKE_PRIVATE, 1, NULL);
}

bool native_ring_is_mine(void)
{
    return native_has_lock;
}

/* Stop recording: the collector is gone. */
static void stop(void)
{
    native_alive = NULL;
}

void native_ring_starve(void)
{
    native_problem("the recording ended early: there is no memory left for the recorder (ulimit -v or -d)");
    native_is_starved = true;
}

static bool collector_is_gone(void)
{
    const uint32_t thread = __atomic_load_n(&native_ring->collector, __ATOMIC_ACQUIRE);
    return thread == 0 || (thread & FUTEX_OWNER_DIED);
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The clock is no system call on nearly all machines; a program with such a filter has its events timed by it, too. */
bool native_ring_may_call(void)
{
    enum { MOST = 10000 }; /* milliseconds; a slab or a look at object files can take some hundred */
    const uint32_t asked = __atomic_add_fetch(&native_ring->filters_asked, 1, __ATOMIC_SEQ_CST);
    const uint64_t until = milliseconds() + MOST;
    while ((int32_t)(__atomic_load_n(&native_ring->filters_answered, __ATOMIC_ACQUIRE) - asked) < 0) {
        if (native_is_sandboxed() || collector_is_gone() || milliseconds() > until)
            return false;
        __builtin_ia32_pause();
    }
    return !native_is_sandboxed();
}

static void wake_collector(void)
{
    if (__atomic_load_n(&native_ring->sleeps, __ATOMIC_SEQ_CST) && !native_is_sandboxed())
        futex(&native_ring->filled, FUTEX_WAKE, INT_MAX, NULL);
}

/* Wait until the collector has read all slabs but so many. */
static void wait_for_collector(uint32_t most)
{
    const struct timespec second = {1, 0};
    for (;;) {
        const uint32_t consumed = __atomic_load_n(&native_ring->consumed, __ATOMIC_ACQUIRE);
        if (native_ring->filled - consumed <= most)
            return;
        if (native_is_sandboxed())
            __builtin_ia32_pause();
        else if (futex(&native_ring->consumed, FUTEX_WAIT, consumed, &second) == 0 || errno != ETIMEDOUT)
            continue;
        if (collector_is_gone()) {
            stop();
            return;
        }
    }
}

/* Send all of it, or end this process, a copy. */
static void send_all(const void *at, size_t n)
{
    for (size_t sent = 0; sent < n;) {
        const long more =
            kernel_call(SYS_sendto, s_socket, (long)at + (long)sent, (long)(n - sent), MSG_NOSIGNAL, 0, 0);
        if (more <= 0 && more != -EINTR)
            kernel_call(SYS_exit_group, 1, 0, 0, 0, 0, 0);
        sent += more > 0 ? (size_t)more : 0;
    }
}

static void send_part(void)
{
    const uint32_t n = (uint32_t)(native_ring->cursor - native_ring->slabs);
    send_all(&n, sizeof n);
    send_all((const void *)native_ring->slabs, n);
    use_slab(0);
}

bool native_ring_send_to(int socket)
{
    struct ring_header *own = mmap(NULL, RING_HEADER_BYTES + COPY_PART_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own == MAP_FAILED)
        return false;
    memcpy(own, native_ring, sizeof *own);
    own->slab_count = 1;
    own->slab_bytes = COPY_PART_BYTES;
    own->slabs = (uint64_t)own + RING_HEADER_BYTES;
    native_ring = own;
    s_socket = socket;
    use_slab(0);
    return true;
}

void native_ring_send_end(void)
{
    if (native_ring->cursor > native_ring->slabs)
        send_part();
    send_part();
}

/* The collector looks for filled slabs itself, but it may be late if there is little room left. */
void native_ring_next_slab(void)
{
    const int error = errno;
    if (s_socket >= 0) {
        send_part();
        return;
    }
    const uint32_t slab = native_ring->current;
    native_ring->bytes[slab] = (uint32_t)(native_ring->cursor - slab_address(slab));
    __atomic_add_fetch(&native_ring->filled, 1, __ATOMIC_SEQ_CST);
    if (free_slabs() <= native_ring->slab_count / 2)
        wake_collector();
    wait_for_collector(native_ring->slab_count - 1);
    use_slab((slab + 1) % native_ring->slab_count);
    errno = error;
}

void native_ring_flush(void)
{
    const int error = errno;
    native_ring_next_slab();
    wake_collector();
    errno = error;
}

void native_ring_drain(void)
{
    const int error = errno;
    native_ring_next_slab();
    wait_for_collector(0);
    errno = error;
}

/* -- events that are dropped -- */

void native_ring_lose(enum ring_loss kind)
{
    __atomic_add_fetch(s_ending ? &s_after[kind] : &native_ring->lost[kind], 1, __ATOMIC_RELAXED);
    if (!s_ending)
        __atomic_store_n(&native_has_lost, true, __ATOMIC_RELEASE);
}

void native_ring_put_losses(void)
{
    if (!__atomic_exchange_n(&native_has_lost, false, __ATOMIC_ACQUIRE))
        return;
    NATIVE_PUT(lost, .instructions = native_now(), .counts = native_ring->lost, .counts_count = RING_LOSSES);
}

bool native_ring_attach(int memfd)
{
    s_quiet = false;
    take_lock();
    if (map_ring(memfd, false))
        return begin_records();
    native_ring_unlock();
    return false;
}

/* Threads that have noticed nothing yet get some time to come out of their system calls. */
void native_ring_quiet(void)
{
    const struct timespec pause = {0, 20000000};
    s_quiet = true;
    futex(&native_lock, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
    nanosleep(&pause, NULL);
}

/* The ring is the collector's from now on. Threads may count a last event in the header, so memory of the process
 * replaces that. */
static void leave_ring(void)
{
    const int error = errno;
    munmap((char *)native_ring + RING_HEADER_BYTES, s_ring_bytes - RING_HEADER_BYTES);
    s_ring_bytes = RING_HEADER_BYTES;
    mmap(native_ring, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
    errno = error;
}

void native_ring_detach(void)
{
    native_ring_flush();
    stop();
    native_ring->detached = 1;
    leave_ring();
}

uint32_t native_ring_count_fork(void)
{
    return ++native_ring->forks;
}

void native_ring_uncount_fork(void)
{
    native_ring->forks--;
}

void native_ring_fork_failed(void)
{
    __atomic_add_fetch(&native_ring->failed_forks, 1, __ATOMIC_RELEASE);
}

/* The parent may have ended at once, and its collector after it: this says nothing of the copy of the collector that listens.
 * So whether the collector is gone is read first. */
bool native_ring_wait_for_listener(uint32_t fork)
{
    const struct timespec second = {1, 0};
    for (int waits = 0; waits < MOST_WAITS;) {
        const bool is_gone = collector_is_gone();
        const uint32_t listening = __atomic_load_n(&native_ring->listening, __ATOMIC_ACQUIRE);
        if ((int32_t)(listening - fork) >= 0)
            return true;
        if (is_gone)
            return false;
        waits += futex(&native_ring->listening, FUTEX_WAIT, listening, &second) < 0 && errno == ETIMEDOUT;
    }
    return false;
}

void native_ring_unrecorded(bool announced)
{
    if (native_ring)
        __atomic_add_fetch(announced ? &native_ring->unrecorded : &native_ring->unannounced, 1,
                           __ATOMIC_RELEASE);
}

void native_ring_started(bool begins)
{
    if (native_ring)
        __atomic_add_fetch(&native_ring->started, begins ? 1 : UINT32_MAX, __ATOMIC_RELAXED);
}

void native_ring_exiting(int status, bool is_sure)
{
    if (!native_is_on())
        return;
    native_ring->exiting = 256 + (uint32_t)(status & 0xff);
    native_is_exiting = !is_sure;
}

bool native_ring_has_filters(void)
{
    return __atomic_load_n(&native_ring->filters, __ATOMIC_RELAXED) != 0;
}

void native_ring_count_filter(int change)
{
    if (native_is_on())
        __atomic_add_fetch(&native_ring->filters, (uint32_t)change, __ATOMIC_RELAXED);
}

#define RECORD(NAME, name, fields)                                                                           \
    void native_put_##name(const struct ring_##name *r)                                                      \
    {                                                                                                        \
        ring_put_##name(r);                                                                                  \
    }
#include "ljtrace/protocol/ring.def"

struct raw_text native_text(const char *text)
{
    return (struct raw_text){text, (uint32_t)strlen(text)};
}

void native_put_fact(const char *key, const char *value)
{
    NATIVE_PUT(info, .key = native_text(key), .value = native_text(value));
}

void native_problem(const char *text)
{
    const bool had_lock = native_has_lock;
    if (!had_lock && !native_ring_lock())
        return;
    const size_t used = strnlen(native_ring->problems, RING_PROBLEM_BYTES), n = strlen(text);
    if (n + 2 <= RING_PROBLEM_BYTES - used && !memmem(native_ring->problems, used, text, n)) {
        memcpy(native_ring->problems + used, text, n);
        native_ring->problems[used + n] = '\n';
        NATIVE_PUT(info, .key = native_text("problems"),
                   .value = {native_ring->problems, (uint32_t)(used + n)});
    }
    if (!had_lock)
        native_ring_unlock();
}

char *native_digits(char *to, uint64_t number)
{
    char digits[24], *first = digits + sizeof digits;
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    const size_t n = (size_t)(digits + sizeof digits - first);
    memcpy(to, first, n);
    to[n] = 0;
    return to + n;
}

void native_put_number(const char *key, uint64_t number)
{
    char digits[24];
    native_digits(digits, number);
    native_put_fact(key, digits);
}
