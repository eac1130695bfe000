/* host.c - what the reader of LuaJIT needs from the native recorder (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * images.c has the functions for images.
 */
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/ring_put.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/unseen.h"
#include "ljtrace/native/unwind/stack_memory.h"
#include "ljtrace/native/unwind/unwind.h"
#include "ljtrace/protocol/kernel.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>

enum { MOST_THREADS = 9999 };

/* -- the thread -- */

uint64_t event_registers[HOST_REGISTERS], event_ip;
bool event_at_entry;

NATIVE_SHARED_THREAD_LOCAL uint32_t host_thread_number;

uint32_t host_thread(void)
{
    static uint32_t s_last;
    if (!host_thread_number)
        host_thread_number = s_last = s_last % MOST_THREADS + 1;
    return host_thread_number;
}

struct host_range host_stack_range(uint32_t thread)
{
    const struct stack_memory memory = stack_memory_from(event_registers[HOST_RSP]);
    (void)thread;
    return (struct host_range){memory.low, memory.high};
}

void host_registers(uint32_t thread, uint32_t first, uint32_t count, uint64_t *to)
{
    (void)thread;
    memcpy(to, first == HOST_RIP ? &event_ip : event_registers + first, count * sizeof *to);
}

struct host_here host_here(uint32_t thread)
{
    (void)thread;
    return (struct host_here){event_ip, event_registers[HOST_RSP]};
}

/* -- the recording -- */

bool host_records(void)
{
    return native_is_on();
}

/* The collector finds the names. */
const char *host_function_name(uint64_t code)
{
    (void)code;
    return NULL;
}

/* -- messages -- */

static void say(const char *text)
{
    kernel_call(SYS_write, 2, (long)text, (long)strlen(text), 0, 0, 0);
}

void host_say(const char *text)
{
    if (!native_options.attached) /* standard error is the program's; it did not start the recorder */
        say(text);
}

void host_panic(const char *why)
{
    say("ljtrace: ");
    say(why);
    say("\n");
    __builtin_trap();
}

/* -- C stacks -- */

static bool is_in_object(uint64_t ip)
{
    struct dl_find_object found;
    return _dl_find_object((void *)ip, &found) == 0;
}

static bool is_run_time_code(uint64_t ip)
{
    return !is_in_object(ip) && program_readable(ip, 1);
}

static uint32_t s_generation;

void host_forget_frames(void)
{
    s_generation++;
}

uint32_t host_code_generation(void)
{
    return s_generation;
}

/* Name the new frames. The stack ends at the first that is in no object: code generated at run time has no unwind
 * information, and what is not even readable is no code. */
static void name_from(struct lt_stack *stack, uint32_t first, uint32_t found)
{
    uint32_t i = first;
    stack->in_run_time_code = false;
    for (; i < first + found && !stack->in_run_time_code; i++) {
        if (is_in_object(stack->ips[i]))
            native_name(stack->ips[i]);
        else if (is_run_time_code(stack->ips[i]))
            stack->in_run_time_code = true;
        else
            break;
    }
    stack->depth = i;
    if (stack->in_run_time_code)
        lt_trace_name_access(stack->ips[i - 1]);
}

static void extend(struct lt_stack *stack, const struct native_registers *from, uint32_t most)
{
    const uint32_t first = stack->depth;
    bool lost;
    const uint32_t found = native_unwind_from(from, false, (uint64_t *)stack->ips + first,
                                              (uint64_t *)stack->sps + first, most, &lost);
    name_from(stack, first, found);
    stack->lost = !stack->in_run_time_code && (lost || stack->depth < first + found);
}

/* Frame pointers are not followed, so all frames are certain. */
void host_unwind(uint32_t tid, const struct host_frame *from, bool certain, uint32_t limit,
                 struct lt_stack *stack)
{
    const uint32_t first = stack->depth;
    struct native_registers at = {event_ip, event_registers[HOST_RSP], event_registers[HOST_RBP]};
    (void)tid, (void)certain;
    stack->in_run_time_code = stack->lost = false;
    if (from)
        at = (struct native_registers){from->ip, from->sp, from->bp};
    else if (limit && event_at_entry) {
        stack->ips[first] = at.ip;
        stack->sps[first] = at.sp;
        name_from(stack, first, 1);
        at.ip = *(const uint64_t *)at.sp - 1;
        at.sp += sizeof(uint64_t);
    }
    const uint32_t found = stack->depth - first;
    if (found < limit)
        extend(stack, &at, limit - found);
}

/* -- memory -- */

/* The program's malloc is what is recorded, so memory comes from mmap. Blocks have sizes that are powers of two; a freed
 * one is kept in a list of its size. Only used with the ring's lock held (ljtrace/native/inside/native.h). The callers rely on
 * memory. If the kernel refuses it, because the program has a limit, they get a reserve, and the recording ends.
 *
 * The kernel is asked for each page whether it is readable. Memory may be unmapped at any time. What LuaJIT itself still
 * uses does not vanish; a pointer that is only a guess has to be announced by program_doubt. */

enum { LEAST_BITS = 5, MOST_BITS = 40, CHUNK = 1 << 20 };

/* Precedes a block. */
struct head {
    uint64_t bits; /* the block with its head has 2^bits bytes */
    struct head *next;
};

static struct head *s_free[MOST_BITS];
static uint8_t *s_chunk, *s_chunk_end;
static void *s_reserve; /* of CHUNK bytes */

static uint32_t bits_for(size_t n)
{
    uint32_t bits = LEAST_BITS;
    while (((size_t)1 << bits) < n + sizeof(struct head))
        bits++;
    return bits;
}

static void *try_map(size_t n)
{
    long at = kernel_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at > 0 ? (void *)at : NULL;
}

bool host_memory_reserve(void)
{
    if (!s_reserve)
        s_reserve = try_map(CHUNK);
    return s_reserve != NULL;
}

static void *map(size_t n)
{
    void *at = try_map(n);
    if (at)
        return at;
    native_ring_starve();
    at = n <= CHUNK ? s_reserve : NULL;
    s_reserve = NULL;
    host_assert(at);
    return at;
}

/* Memory that no block has used. */
static struct head *fresh(size_t n)
{
    if (n >= CHUNK)
        return map(n);
    if ((size_t)(s_chunk_end - s_chunk) < n) {
        s_chunk = map(CHUNK);
        s_chunk_end = s_chunk + CHUNK;
    }
    s_chunk += n;
    return (struct head *)(s_chunk - n);
}

/* The contents are not defined. */
static void *get(size_t n)
{
    uint32_t bits = bits_for(n);
    struct head *h = s_free[bits];
    if (h)
        s_free[bits] = h->next;
    else
        h = fresh((size_t)1 << bits);
    h->bits = bits;
    return h + 1;
}

static void give_back(struct head *h)
{
    h->next = s_free[h->bits];
    s_free[h->bits] = h;
}

void *host_resize(void *p, size_t n)
{
    struct head *h = p ? (struct head *)p - 1 : NULL;
    const size_t had = h ? ((size_t)1 << h->bits) - sizeof *h : 0;
    if (had >= n && n)
        return p;
    void *to = n ? get(n) : NULL;
    if (h && n)
        memcpy(to, p, had);
    if (h)
        give_back(h);
    return to;
}

/* -- memory of the program -- */

/* While the only thread is here, nothing is unmapped. */
bool host_mappings_are_known(void)
{
    return __libc_single_threaded;
}

bool host_readable(uint64_t a, size_t n, uint64_t *from, uint64_t *to)
{
    *from = a & ~(uint64_t)(KERNEL_PAGE - 1);
    *to = (a + n + KERNEL_PAGE - 1) & ~(uint64_t)(KERNEL_PAGE - 1);
    if (a >> 47)
        return false;
    for (uint64_t page = *from; page < *to; page += KERNEL_PAGE)
        if (!kernel_can_read(page))
            return false;
    return true;
}

/* -- records and heap events -- */

static uint64_t s_time; /* of the event */

void host_set_time(void)
{
    s_time = native_now();
}

uint64_t host_time(void)
{
    return s_time;
}

static void put_close(const struct ring_close *r)
{
    block_sample_heap_ended(r->heap);
    native_put_close(r);
}

static void put_rename(const struct ring_rename *r)
{
    block_sample_heap_moved(r->from, r->to);
    native_put_rename(r);
}

#define native_put_close put_close
#define native_put_rename put_rename
#define RECORD(NAME, name, fields)                                                                           \
    void host_put_##name(const struct ring_##name *r)                                                        \
    {                                                                                                        \
        native_put_##name(r);                                                                                \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

static uint64_t s_slots[RING_HEAP_SLOTS]; /* the heap of each slot */

void host_records_restart(void)
{
    for (uint32_t i = 0; i < RING_HEAP_SLOTS; i++)
        s_slots[i] = 0;
}

/* The slot that stands for the heap in the ring. The slots below these are for other heaps. */
static uint32_t slot_of(uint64_t heap)
{
    uint32_t slot = 1 + lt_hash_slot(heap, 5);
    if (s_slots[slot] != heap) {
        s_slots[slot] = heap;
        NATIVE_PUT(slot, .slot = slot, .heap = heap);
    }
    return slot;
}

struct raw_stack host_stack(const struct lt_stack *stack)
{
    return (struct raw_stack){stack->id, stack->depth, stack->ips};
}

void host_block_new(uint64_t addr, size_t size, uint64_t heap, uint32_t how, const struct lt_stack *stack)
{
    if (native_ring_drops(RING_LOST_NEW) || (block_sample_mean && !block_sample_add(addr, heap)))
        return;
    uint32_t slot = slot_of(heap);
    unseen_count(size > block_sample_mean ? size : block_sample_mean);
    RING_PUT(new, .slot = slot, .how = how, .addr = addr, .size = size, .instructions = s_time,
             .stack = host_stack(stack));
}

void host_block_free(uint64_t addr, uint64_t heap, uint32_t how, const struct lt_stack *stack)
{
    if ((block_sample_mean && !block_sample_remove(addr)) || native_ring_drops(RING_LOST_FREE))
        return;
    uint32_t slot = slot_of(heap);
    RING_PUT(free, .slot = slot, .how = how, .addr = addr, .instructions = s_time,
             .stack = host_stack(stack));
}

void host_block_resize(uint64_t old, uint64_t addr, size_t size, uint64_t heap, uint32_t how,
                       const struct lt_stack *stack)
{
    if (block_sample_mean) {
        host_block_free(old, heap, how, stack);
        if (native_countdown.chosen)
            host_block_new(addr, size, heap, how, stack);
        return;
    }
    if (native_ring_drops(RING_LOST_RESIZE))
        return;
    uint32_t slot = slot_of(heap);
    unseen_count(size);
    RING_PUT(resize, .slot = slot, .how = how, .old = old, .addr = addr, .size = size, .instructions = s_time,
             .stack = host_stack(stack));
}

void host_await_free(uint64_t addr)
{
    block_sample_await(addr);
}

void host_block_type(uint64_t addr, uint64_t heap, uint32_t type)
{
    if ((block_sample_mean && !block_sample_holds(addr)) || native_ring_drops(RING_LOST_OTHER))
        return;
    uint32_t slot = slot_of(heap);
    RING_PUT(type, .slot = slot, .type = type, .addr = addr);
}
