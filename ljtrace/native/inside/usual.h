/* usual.h - begin and end an event in line, in the usual case.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Usually no event of the thread is interrupted, the thread has a number, no events are missing or are to be dropped, and
 * nothing of the recording or of the program's objects has changed. Then nothing has to be written before the event but the
 * thread's number, if another one has written the last event. In all other cases usual_begin changes nothing, and the
 * functions of events.c do the same event.
 */
#ifndef LJTRACE_NATIVE_INSIDE_USUAL_H
#define LJTRACE_NATIVE_INSIDE_USUAL_H

#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/native.h"

#include <sys/single_threaded.h>

/* -- the ring's lock; ring.c has the other cases -- */

enum { LOCK_FREE, LOCK_TAKEN, LOCK_WAITED_FOR };
extern __attribute__((visibility("hidden"))) uint32_t native_lock;
/* This thread has locked the ring. */
extern NATIVE_SHARED_THREAD_LOCAL volatile bool native_has_lock;
/* This thread has called _exit, or a child of it by vfork. */
extern NATIVE_SHARED_THREAD_LOCAL bool native_is_exiting;

/* Lock the ring if it is free. While the process has one thread, plain loads and stores do: no thread begins or ends while
 * the ring is locked. A signal handler that locks the ring between them has unlocked it when it returns. */
static inline bool usual_lock(void)
{
    uint32_t expected = LOCK_FREE;
    if (!__libc_single_threaded)
        return __atomic_compare_exchange_n(&native_lock, &expected, LOCK_TAKEN, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED);
    if (__atomic_load_n(&native_lock, __ATOMIC_RELAXED) != LOCK_FREE)
        return false;
    __atomic_store_n(&native_lock, LOCK_TAKEN, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

/* Unlock it, if no other thread can be waiting. */
static inline bool usual_unlock(void)
{
    if (!__libc_single_threaded || __atomic_load_n(&native_lock, __ATOMIC_RELAXED) != LOCK_TAKEN)
        return false;
    __atomic_store_n(&native_lock, LOCK_FREE, __ATOMIC_RELEASE);
    return true;
}

/* -- events -- */

/* Is this thread's event a usual one, as far as that is known before the ring is locked? */
static inline bool usual_before(const struct native_self *self)
{
    return self->number && !native_is_starved && !got_is_late && !native_has_lost && !native_dropping &&
           !native_is_exiting && !native_options.drops && !native_options.sample_stacks;
}

/* The ring is locked: is the recording still what it was? */
static inline bool usual_after(void)
{
    return native_is_on() && !__atomic_load_n(&native_ring->ending, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&native_ring->sandboxed, __ATOMIC_RELAXED);
}

/* Lock the ring for an event that has begun, as native_event_lock does. Returns false if that has to be called. */
static inline bool usual_event_lock(void)
{
    struct native_self *self = &native_self;
    if (!usual_before(self) || __atomic_load_n(&self->deferred_count, __ATOMIC_RELAXED) || !usual_lock())
        return false;
    native_has_lock = true;
    self->locked = usual_after();
    if (!self->locked)
        native_ring_unlock();
    else if (self->number != native_running)
        native_name_thread();
    return self->locked;
}

/* Begin a usual event: the ring is locked then. Returns false if it is not one; nothing has changed then. sp: the stack
 * pointer. */
static inline bool usual_begin(uint64_t sp)
{
    struct native_self *self = &native_self;
    if (self->recording)
        return false;
    self->recording = sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (usual_event_lock())
        return true;
    self->recording = 0;
    return false;
}

/* End an event, whatever has locked the ring for it. */
static inline void usual_end(void)
{
    struct native_self *self = &native_self;
    if (__atomic_load_n(&self->deferred_count, __ATOMIC_RELAXED)) {
        native_event_end();
        return;
    }
    const uint64_t sp = self->recording;
    self->locked = false;
    native_has_lock = false;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!usual_unlock())
        native_ring_unlock();
    self->recording = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&self->deferred_count, __ATOMIC_RELAXED))
        native_event_late(sp);
}

#endif
