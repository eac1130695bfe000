/* native.h - the native recorder: what its parts offer to each other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The library libljtrace-native.so is preloaded into the program (ljtrace run) and writes the records of ring.def into a
 * ring in shared memory, as the Valgrind tool does. The collector is the same program.
 *
 * One ring and one lock serve all threads. The collector is a single thread and needs longer for an event than the lock
 * is held, so more rings would not make a full recording faster. The order of events is the order in which their threads
 * have the lock: a free is recorded before it is done and an allocation after it, so an address's history is in order.
 *
 * Nothing here allocates by malloc or takes a lock of libc. A signal handler may interrupt an event of its thread and
 * allocate; its events wait until the interrupted one is complete (events.c).
 */
#ifndef LJTRACE_NATIVE_INSIDE_NATIVE_H
#define LJTRACE_NATIVE_INSIDE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ljtrace/protocol/ring.h"

/* A function that programs may call or that replaces one of libc. */
#define NATIVE_PUBLIC __attribute__((visibility("default")))
/* Thread-local variables are in the static block, since dynamic ones are allocated by malloc. */
#define NATIVE_THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))
#define NATIVE_SHARED_THREAD_LOCAL __thread __attribute__((visibility("hidden"), tls_model("initial-exec")))

/* -- ring.c -- */

/* Copy what is asked of the recording from this shared memory file, a ring. Returns false if it is none. */
bool native_ring_read(int memfd, struct recording *to);
/* Use the ring in this shared memory file, in place of the one used before. Returns false if it cannot be mapped. */
bool native_ring_map(int memfd);
/* The same in a forked child, which is counted as recorded in the ring of its parent. */
bool native_ring_map_childs(int memfd);
/* The same, while other threads may use the one from before. The ring is locked if this returns true. */
bool native_ring_attach(int memfd);
/* Record no more, and hand what was recorded over to the collector. Only while the ring is locked. */
void native_ring_detach(void);
/* The recording has ended, and the program is about to forbid system calls: make none for the lock any more. */
void native_ring_quiet(void);
/* Hand the current slab over to the collector. Only while the ring is locked. */
void native_ring_flush(void);
/* The number of the fork that is being announced. Only while the ring is locked. */
uint32_t native_ring_count_fork(void);
/* It has failed, and was not announced. */
void native_ring_uncount_fork(void);
/* In a copy of the process that only reads memory: what is put from now on is sent to this socket, in parts (copies.h), and
 * not to the ring. Returns false if there is no memory. And: all was put. If the collector is gone, the copy ends. */
bool native_ring_send_to(int socket);
void native_ring_send_end(void);
/* The fork that was announced last has failed. */
void native_ring_fork_failed(void);
/* In a forked child, with its parent's ring: wait until the collector listens for the child of this fork. Returns false if
 * it does not. */
bool native_ring_wait_for_listener(uint32_t fork);
/* Count this child as one that is not recorded; was its fork announced? */
void native_ring_unrecorded(bool announced);
/* Another program was started, or a child of vfork is about to execute one; begins = false: that has failed. */
void native_ring_started(bool begins);
/* The program is about to exit with this status; or this is a child of vfork, unless that is_sure not to be. */
void native_ring_exiting(int status, bool is_sure);
/* Hand the current slab over, and wait until the collector has read all that was handed over. */
void native_ring_drain(void);
/* The ring in this process; NULL = there is none. ring_put.h and usual.h use it. */
extern __attribute__((visibility("hidden"))) struct ring_header *native_ring;
/* 1 in the process that records; 0 in its forked children. NULL = the recording has not begun, or has ended. */
extern __attribute__((visibility("hidden"))) const volatile uint32_t *native_alive;
/* Is this process recorded? */
static inline bool native_is_on(void)
{
    const volatile uint32_t *alive = native_alive;
    return alive && *alive;
}
/* Has the program a seccomp filter that may end it for a system call of the recorder? Only while the ring is locked, or while
 * native_is_on(). */
bool native_is_sandboxed(void);
/* May the library make system calls now? The collector looks for filters meanwhile, for which this waits without a system
 * call. Only while native_is_on(); the ring is not locked. */
bool native_ring_may_call(void);
/* Has it any filter? Only while the ring is locked. */
bool native_ring_has_filters(void);
/* The program is about to install a filter that permits these calls, 1; or that has failed, -1. */
void native_ring_count_filter(int change);
/* Begin an event. Returns false if it is not recorded: there is no ring, it has ended, or this is a child process that
 * was forked. native_ring_lock waits; nothing may be recorded by this thread between it and native_ring_unlock that uses
 * them too. */
bool native_ring_lock(void);
void native_ring_unlock(void);
/* Has this thread locked it? */
bool native_ring_is_mine(void);
/* The same for signal handlers. Returns false also if this thread has locked the ring, or if it is not free after some
 * milliseconds. */
bool native_ring_try_lock(void);
/* Count an event that is dropped for any reason. */
void native_ring_lose(enum ring_loss kind);
/* With --when-full=drop: is the ring full, so that events are dropped until it is unlocked? And: is this event dropped? It
 * is counted then. Only while the ring is locked. */
extern __attribute__((visibility("hidden"))) bool native_dropping;
static inline bool native_ring_is_dropping(void)
{
    return native_dropping;
}
static inline bool native_ring_drops(enum ring_loss kind)
{
    if (__builtin_expect(native_dropping, 0))
        native_ring_lose(kind);
    return native_dropping;
}
/* Write how many events were dropped, if there were any since it was last written. Only while the ring is locked. */
extern __attribute__((visibility("hidden"))) bool native_has_lost;
void native_ring_put_losses(void);
static inline void native_ring_put_lost(void)
{
    if (__builtin_expect(__atomic_load_n(&native_has_lost, __ATOMIC_RELAXED), 0))
        native_ring_put_losses();
}
/* The slab is full: hand it over, and use the next one. Only while the ring is locked. */
void native_ring_next_slab(void);

/* Append a record: NATIVE_PUT(mark, .name = native_text("x")). Fields not given are 0. Only while the ring is locked. */
#define NATIVE_PUT(name, ...) native_put_##name(&(struct ring_##name){__VA_ARGS__})
#define RECORD(NAME, name, fields) void native_put_##name(const struct ring_##name *r);
#include "ljtrace/protocol/ring.def"

struct raw_text native_text(const char *text);
void native_put_fact(const char *key, const char *value);
void native_put_number(const char *key, uint64_t number);
/* Write decimal digits and a zero. Returns the place of the zero. */
char *native_digits(char *to, uint64_t number);
/* Something is not recorded: a line for the user at the end of the recording, and the fact `problems`. */
void native_problem(const char *text);

/* The recorder has mapped this memory for itself: the collector tells it from the program's. */
void native_own(const void *at, size_t size);
/* Memory that is never freed; NULL = there is none. */
void *native_memory(size_t size);
/* There is no memory for the recorder: say so. The recording ends at the next event. Only while the ring is locked. */
void native_ring_starve(void);
extern __attribute__((visibility("hidden"))) bool native_is_starved;

/* -- clock.c -- */

/* The recording begins, here or in a forked child, whose time continues its parent's. */
void native_clock_begin(void);
/* The kernel's clock at time 0, in nanoseconds. */
uint64_t native_clock_start(void);
/* The next recording begins at 0. */
void native_clock_restart(void);
/* The time of an event in nanoseconds since the recording began; it never decreases. Only while the ring is locked. */
uint64_t native_now(void);
/* Wait so long. A sleep of the program that the calling thread was taken out of by ptrace can still be continued
 * afterwards: the kernel has one place for a thread's sleep to be continued, and nanosleep() overwrites it. */
void native_pause(long milliseconds);

/* -- stacks.c -- */

/* The stack of n code addresses, innermost first, each that of an instruction (a return address less 1). Writes what is
 * new of it. n is at most RECORDING_MOST_FRAMES. Only while the ring is locked. */
struct raw_stack native_stack(const uint64_t *ips, uint32_t n);
/* Another recording begins, or objects were unmapped: numbers and code addresses may mean something else from now on. */
void native_stacks_restart(void);

/* -- objects.c -- */

/* Write what a code address is, unless that was done before. Only while the ring is locked. */
void native_name(uint64_t ip);
void native_names_restart(void);

/* -- session.c -- */

/* The function of that name which this library's replaces: what the dynamic linker finds next or, if the library was
 * loaded while the program ran, what the program called before. */
void *native_next(const char *name);
/* The program was refused memory, so many bytes. If it has a limit of which the recorder takes a part, the recording ends,
 * and its memory is free. Returns true then: the program may be given memory now. */
bool native_gives_way(size_t size);
/* dlclose was called. */
void native_object_closed(void);
/* The running thread records its first event. The ring is locked. */
void native_thread_begins(void);

/* What is asked of the recording. Its `forks` is switched off when a filter of the program forbids what they need. */
extern struct recording native_options;
/* The process. */
struct native_process {
    uint32_t id;    /* in its own pid namespace */
    bool sandboxed; /* it has installed a seccomp filter */
    bool patches;   /* none of its filters forbids what SANDBOX_PATCH needs */
};
extern struct native_process native_process;

/* -- fork.c -- */

/* From now on a forked child gets a ring and a trace of its own. */
void native_follow_forks(void);

#endif
