/* events.h - heap events of the native recorder.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_EVENTS_H
#define LJTRACE_NATIVE_INSIDE_EVENTS_H

#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/unwind.h"

/* A call of an allocation function of the C heap, or of one that maps memory. */
struct native_event {
    enum native_event_kind {
        NATIVE_NOTHING,
        NATIVE_NEW,
        NATIVE_FREE,
        NATIVE_RESIZE,
        NATIVE_REGION,
        NATIVE_POOL
    } kind;
    uint32_t
        how; /* enum mt_how; of a REGION, a range that the program maps: enum raw_region; of a POOL: enum pool_what */
    uint64_t old;  /* RESIZE, POOL: where the block was */
    uint64_t pool; /* POOL */
    uint64_t addr;
    uint64_t size;
    bool chosen;   /* RESIZE, in a sample: the new block is recorded */
    uint32_t heap; /* 0 = the C heap; else the number of a prefix (alloc_patch.h) */
    /* The patched function that was called, which is the innermost frame; 0 = that is the one of the registers. */
    uint64_t function;
    bool lacks_news; /* FREE, RESIZE: the block may be one of which no New was recorded */
    /* RESIZE: the number of the call, if it ran while the ring was not locked (resizes.h); else 0. */
    uint32_t resize;
};

/* The slot of a prefix's heap in the ring. Those below are of Lua heaps (host/host.c). */
static inline uint32_t native_heap_slot(uint32_t heap)
{
    return heap ? 32 + heap : 0;
}

/* Whose the blocks of malloc are that the running thread makes and frees meanwhile, if they are not the program's. */
enum native_owner {
    NATIVE_OF_CALLER,   /* details of a function, such as an allocator of Lua: they are not recorded */
    NATIVE_OF_RECORDER, /* the same, but those that are left at the end are recorded; of one thread at a time */
    NATIVE_OWNERS
};

enum { NATIVE_NO_DEPTH = UINT32_MAX };

/* An event with the stack of its caller; the allocation function is the innermost frame. */
struct native_taken {
    struct native_event event;
    struct native_registers from;    /* sp 0 = they are not valid any more */
    uint64_t function;               /* as in the event */
    const struct known_stack *known; /* of the stack; NULL = nothing */
    uint32_t depth;                  /* NATIVE_NO_DEPTH: the stack is not taken yet */
    uint64_t ips[RECORDING_MOST_FRAMES + 1], sps[RECORDING_MOST_FRAMES + 1];
};

/* The registers of the function in which this is used. */
#define NATIVE_HERE                                                                                          \
    ({                                                                                                       \
        struct native_registers r = {0};                                                                     \
        __asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2"                                    \
                         : "=r"(r.ip), "=r"(r.sp), "=r"(r.bp));                                              \
        r;                                                                                                   \
    })

/* The state of a thread. Stacks of threads may be small, so what is large is in memory of its own. */
struct native_self {
    uint32_t number;                /* 0 = none yet */
    bool locked;                    /* this thread has the ring's lock */
    uint32_t hidden[NATIVE_OWNERS]; /* how often native_hide was called for each and has not ended */
    /* The stack pointer of the event that is being recorded; 0 = there is none. */
    uint64_t recording;
    struct native_taken *taken; /* its own event, then those that are deferred; NULL = no memory so far */
    uint32_t deferred_count;    /* at most MOST_DEFERRED */
};
extern NATIVE_SHARED_THREAD_LOCAL struct native_self native_self;
extern __attribute__((visibility("hidden")))
uint32_t native_running; /* the thread of the last event in the ring */

/* Record an event. from: the registers of the allocation function. Keeps errno. */
void native_record(const struct native_event *e, const struct native_registers *from);

/* The same in steps, for an event that has to be complete before another thread records one. Begin it: returns where it
 * belongs, with its stack; NULL = it is not recorded. *deferred: filling in the event is all that remains to be done.
 * Otherwise native_event_end has to follow and, if native_event_lock returns true, native_event_put before it. */
struct native_taken *native_event_begin(const struct native_registers *from, uint64_t function,
                                        bool *deferred);
bool native_event_lock(void);
void native_event_put(struct native_taken *t);
/* Take its stack, unless that was done. */
void native_event_stack(struct native_taken *t);
void native_event_end(void);
/* An event of this thread at `sp` has just ended, and a handler has deferred events meanwhile: write them. */
void native_event_late(uint64_t sp);

/* Begin and end an event of another kind: the ring is locked between, and the running thread is known. sp: the stack
 * pointer. Returns false if it is not recorded. */
bool native_enter(uint64_t sp);
void native_leave(void);
/* Write which thread runs, for an event that is not dropped when the ring is full. Between native_enter and
 * native_leave. */
void native_name_thread(void);
/* Begin an event in the handler of a signal. It does not wait long for the ring. */
enum native_chance {
    NATIVE_ENTERED, /* native_leave has to follow */
    NATIVE_NEVER,   /* it is not recorded: the recorder itself was interrupted, or is off */
    NATIVE_LATER    /* the ring is in use */
};
enum native_chance native_try_enter(uint64_t sp);
/* This is a forked child with a ring of its own: there are no events that are not complete. */
void native_events_anew(void);

/* Begin and end that. It nests; of both, the recorder decides. */
void native_hide(enum native_owner owner);
void native_show(enum native_owner owner);

/* Another recording begins: no thread was named in it. */
void native_events_restart(void);
/* The number of the running thread, from 1; 0 = it has recorded nothing. */
uint32_t native_thread(void);

#endif
