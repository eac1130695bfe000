/* pool_patch.c - records the functions that make, use and end pools (--pool-fn).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions are patched (code_patch.h). What they allocate themselves, as raw material, is recorded as for any caller. Of
 * functions that allocate or resize a block, only the outermost call of a thread is recorded, since one may be made of another,
 * and of free. Each other call that frees a block, or clears or ends a pool, is recorded before it does so: the functions of a
 * library call one another for what is within a pool. Which blocks end then, the collector knows
 * (ljtrace/collector/feed_pool.c).
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/pool_patch.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/pool_functions.h"

#include <errno.h>
#include <string.h>

enum { MOST_PATCHED = 256, NEAR = 64 << 10 /* bytes of stack between a function and one that it calls */ };
#define LONGEST_TEXT (1ULL << 32)

/* A patched function; patch comes first. */
struct pooled {
    struct code_patch patch;
    struct pool_function does;
    char name[POOL_NAME_MOST + 1];
    const struct link_map *object;
    const uint64_t *variable; /* that points to the pool */
    uint32_t wanted;          /* index + 1 in s_wanted; 0 = not by this recording */
};

#define NO_VARIABLE "its object has no such variable, or it is one of each thread"

/* What this recording asks for. */
struct wanted {
    struct pool_function function;
    bool is_found;
};

static struct pooled *s_patched;
static struct wanted *s_wanted;
static uint32_t s_patched_count, s_wanted_count;

/* The outermost call of this thread: the address of its return address, and that. */
NATIVE_THREAD_LOCAL struct {
    uint64_t sp, back_to;
} t_outermost;

struct saved {
    uint64_t rbp, return_address;
};
typedef uint64_t any_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

static uint64_t call_original(const struct pooled *p, const uint64_t *a)
{
    return ((any_function *)p->patch.original)(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* -- calls -- */

/* A call that was left by a long jump has not its return address any more where it was. */
static bool is_inner(uint64_t sp)
{
    return t_outermost.sp && sp < t_outermost.sp && t_outermost.sp - sp < NEAR &&
           *(const uint64_t *)t_outermost.sp == t_outermost.back_to;
}

static void record(const struct pooled *p, uint64_t pool, uint64_t old, uint64_t block, uint64_t size,
                   const struct saved *s)
{
    const struct native_registers from = {s->return_address - 1, (uint64_t)(s + 1), s->rbp};
    if (pool || block || old)
        native_record(&(struct native_event){NATIVE_POOL, .how = p->does.what, .old = old, .addr = block,
                                             .size = size, .pool = pool,
                                             .function = (uint64_t)p->patch.function},
                      &from);
}

static uint64_t argument(const struct pooled *p, const uint64_t *a, enum pool_argument which)
{
    return p->does.at[which] < 0 ? 0 : a[p->does.at[which]];
}

static uint64_t pool_of(const struct pooled *p, const uint64_t *a)
{
    return p->variable ? *p->variable : argument(p, a, POOL_ARG_POOL);
}

static uint64_t size_of(const struct pooled *p, const uint64_t *a, uint64_t block)
{
    if (p->does.is_text)
        return kernel_text_length((const char *)block, LONGEST_TEXT) + 1;
    return argument(p, a, POOL_ARG_SIZE) *
           (p->does.at[POOL_ARG_COUNT] < 0 ? 1 : argument(p, a, POOL_ARG_COUNT));
}

/* The block or the pool at this address has the name that the function was given. */
static void record_name(const struct pooled *p, const uint64_t *a, uint64_t addr, const struct saved *s)
{
    const char *text = (const char *)argument(p, a, POOL_ARG_NAME);
    const uint32_t n = text && addr ? (uint32_t)kernel_text_length(text, POOL_TEXT_MOST) : 0;
    const int error = errno;
    if (n && native_is_on() && native_enter((uint64_t)s)) {
        if (!native_ring_drops(RING_LOST_OTHER))
            NATIVE_PUT(pool_name, .addr = addr, .name = {text, n});
        native_leave();
    }
    errno = error;
}

static uint64_t make_block(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    const uint64_t pool = pool_of(p, a), old = argument(p, a, POOL_ARG_BLOCK), result = call_original(p, a);
    if (result) {
        record(p, pool, old, result, size_of(p, a, result), s);
        record_name(p, a, result, s);
    }
    return result;
}

static uint64_t make_pool(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    const uint64_t out = argument(p, a, POOL_ARG_OUT), parent = argument(p, a, POOL_ARG_PARENT),
                   result = call_original(p, a), pool = out ? *(const uint64_t *)out : result;
    if (pool) {
        record(p, pool, 0, parent, 0, s);
        record_name(p, a, pool, s);
    }
    return result;
}

static uint64_t move(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    const uint64_t pool = pool_of(p, a), block = argument(p, a, POOL_ARG_BLOCK);
    if (block)
        record(p, pool, 0, block, 0, s);
    const uint64_t result = call_original(p, a);
    if (p->does.at[POOL_ARG_BLOCK] < 0 && result)
        record(p, pool, 0, result, 0, s);
    return result;
}

/* Functions that are recorded before they do it. */
static void announce(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    const bool is_inside = is_inner((uint64_t)&s->return_address);
    if (p->does.what == POOL_NAME)
        record_name(p, a, argument(p, a, POOL_ARG_BLOCK), s);
    else if (p->does.what != POOL_FREE)
        record(p, pool_of(p, a), 0, 0, 0, s);
    else if (!is_inside)
        record(p, 0, argument(p, a, POOL_ARG_BLOCK), 0, 0, s);
}

/* a: the six arguments. */
__attribute__((used)) static uint64_t on_pool_call(const uint64_t *a, const struct pooled *p,
                                                   const struct saved *s)
{
    const uint64_t sp = (uint64_t)&s->return_address;
    if (!native_is_on() || !p->wanted)
        return call_original(p, a);
    if (p->does.what == POOL_MAKE)
        return make_pool(p, a, s);
    if (p->does.what == POOL_MOVE)
        return move(p, a, s);
    if (p->does.what != POOL_ALLOC && p->does.what != POOL_RESIZE)
        announce(p, a, s);
    if ((p->does.what != POOL_ALLOC && p->does.what != POOL_RESIZE) || is_inner(sp))
        return call_original(p, a);
    t_outermost.back_to = s->return_address;
    t_outermost.sp = sp;
    const uint64_t result = make_block(p, a, s);
    t_outermost.sp = 0;
    return result;
}

/* As in alloc_patch.c, but the arguments are passed in memory. */
__attribute__((naked, used)) static void pool_entry(void)
{
    __asm__("push %rbp\n"
            ".cfi_adjust_cfa_offset 8\n"
            ".cfi_rel_offset %rbp, 0\n"
            "mov %rsp, %rbp\n"
            ".cfi_def_cfa_register %rbp\n"
            "push %r9\n"
            "push %r8\n"
            "push %rcx\n"
            "push %rdx\n"
            "push %rsi\n"
            "push %rdi\n"
            "mov %rsp, %rdi\n"
            "mov %r11, %rsi\n"
            "mov %rbp, %rdx\n"
            "and $-16, %rsp\n"
            "call on_pool_call\n"
            "mov %rbp, %rsp\n"
            "pop %rbp\n"
            ".cfi_def_cfa %rsp, 8\n"
            ".cfi_restore %rbp\n"
            "ret\n");
}

/* -- finding them -- */

struct search {
    const struct link_map *object;
    const char *path;
    bool is_shared;
};

static bool is_patched(uint64_t address)
{
    for (uint32_t i = 0; i < s_patched_count; i++)
        if ((uint64_t)s_patched[i].patch.function == address)
            return true;
    return false;
}

static struct pooled *new_patched(void)
{
    for (uint32_t i = 0; i < s_patched_count; i++)
        if (!s_patched[i].patch.function)
            return &s_patched[i];
    return s_patched_count < MOST_PATCHED ? &s_patched[s_patched_count++] : NULL;
}

static void report(const struct pool_function *f, const char *why)
{
    char text[POOL_NAME_MOST + 300], *at = stpcpy(text, "--pool-fn: ");
    at = (char *)mempcpy(at, f->name, f->name_bytes);
    stpcpy(stpcpy(at, " is not recorded: "), why);
    native_problem(text);
}

/* -- variables -- */

struct variable {
    const struct link_map *object;
    const char *name; /* NULL = it was found */
    uint64_t address;
};

static void see_variable(const struct file_symbol *s, void *any)
{
    struct variable *v = any;
    if (v->name && strcmp(s->name, v->name) == 0)
        *v = (struct variable){.address = s->address};
}

/* Find the variable that points to the pool, in the object of the function. Returns false if it has none of this name. */
static bool find_variable(struct pooled *p)
{
    char name[POOL_NAME_MOST + 1];
    p->variable = NULL;
    if (!p->does.variable)
        return true;
    *(char *)mempcpy(name, p->does.variable, p->does.variable_bytes) = 0;
    struct variable v = {p->object, name, host_symbol_variable(p->object, name)};
    if (!v.address)
        file_symbols_each(p->object, *p->object->l_name ? p->object->l_name : "/proc/self/exe",
                          FILE_VARIABLES, see_variable, &v);
    p->variable = (const uint64_t *)v.address;
    return v.address && v.address % sizeof(uint64_t) == 0 && kernel_can_read(v.address);
}

static void patch(const struct search *search, struct wanted *w, uint64_t address, uint64_t size)
{
    struct pooled *p = is_patched(address) ? NULL : new_patched();
    if (is_patched(address))
        return;
    w->is_found = true;
    if (!p) {
        report(&w->function, "there are too many");
        return;
    }
    *p = (struct pooled){.patch = {.function = (void *)address,
                                   .size = (uint32_t)size,
                                   .is_shared = search->is_shared,
                                   .in_r11 = true},
                         .does = w->function,
                         .object = search->object,
                         .wanted = (uint32_t)(w - s_wanted) + 1};
    memcpy(p->name, w->function.name, w->function.name_bytes);
    const char *why = find_variable(p) ? code_patch(&p->patch, (void *)pool_entry) : NO_VARIABLE;
    if (!why)
        return;
    p->patch.function = NULL;
    report(&w->function, why);
}

static bool has_name(const struct pool_function *f, const char *name, size_t n)
{
    return f->name_bytes == n && memcmp(f->name, name, n) == 0;
}

/* A compiler may have made a copy of the function for some callers, which has other arguments. */
static bool is_copy(const struct pool_function *f, const char *name)
{
    return strncmp(f->name, name, f->name_bytes) == 0 &&
           (strncmp(name + f->name_bytes, ".constprop.", 11) == 0 ||
            strncmp(name + f->name_bytes, ".isra.", 6) == 0);
}

static void see_symbol(const struct file_symbol *s, void *any)
{
    const struct search *search = any;
    const size_t n = (size_t)(strchrnul(s->name, '@') - s->name);
    for (uint32_t i = 0; i < s_wanted_count; i++)
        if (has_name(&s_wanted[i].function, s->name, n) &&
            file_has_code(search->object, search->path, s->address))
            patch(search, &s_wanted[i], s->address, s->size);
        else if (is_copy(&s_wanted[i].function, s->name))
            report(&s_wanted[i].function,
                   "some callers call a copy of it that the compiler has made for them; "
                   "__attribute__((noipa)) prevents that");
}

void pool_patch_object(const struct link_map *object, const char *path, bool is_shared)
{
    struct search search = {object, path, is_shared};
    char name[POOL_NAME_MOST + 1];
    if (!s_wanted_count || !native_process.patches)
        return;
    for (uint32_t i = 0; i < s_wanted_count; i++) {
        const struct pool_function *f = &s_wanted[i].function;
        *(char *)mempcpy(name, f->name, f->name_bytes) = 0;
        const ElfW(Sym) *symbol = host_symbol_entry(object, name);
        if (symbol)
            patch(&search, &s_wanted[i], object->l_addr + symbol->st_value, symbol->st_size);
    }
    file_symbols_each(object, path, FILE_FUNCTIONS, see_symbol, &search);
}

/* -- from outside -- */

/* Functions that an earlier recording has patched stay so. */
static void want_again(void)
{
    for (uint32_t i = 0; i < s_patched_count; i++) {
        struct pooled *p = &s_patched[i];
        p->wanted = 0;
        for (uint32_t k = 0; p->patch.function && k < s_wanted_count; k++)
            if (has_name(&s_wanted[k].function, p->name, strlen(p->name))) {
                p->does = s_wanted[k].function;
                s_wanted[k].is_found = true;
                if (find_variable(p))
                    p->wanted = k + 1;
                else
                    report(&p->does, NO_VARIABLE);
            }
    }
}

void pool_patch_begin(void)
{
    const char *list = native_options.pools;
    struct pool_function f;
    s_wanted_count = 0;
    if (*list && !s_patched) {
        s_patched = native_memory(MOST_PATCHED * sizeof *s_patched);
        s_wanted = native_memory(POOL_FUNCTIONS_MOST * sizeof *s_wanted);
    }
    if (!s_patched || !s_wanted)
        return;
    while (*list && s_wanted_count < POOL_FUNCTIONS_MOST && pool_next(&list, &f))
        s_wanted[s_wanted_count++] = (struct wanted){.function = f};
    want_again();
}

void pool_patch_forget(bool (*is_loaded)(const struct link_map *object))
{
    for (uint32_t i = 0; i < s_patched_count; i++)
        if (s_patched[i].patch.function && !is_loaded(s_patched[i].object))
            s_patched[i].patch.function = NULL;
}

void pool_patch_end(void)
{
    for (uint32_t i = 0; i < s_wanted_count; i++)
        if (!s_wanted[i].is_found && !s_wanted[i].function.is_optional)
            report(&s_wanted[i].function,
                   "no function of this name has a symbol in the program or its libraries");
}
