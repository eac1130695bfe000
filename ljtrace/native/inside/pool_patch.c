/* pool_patch.c - records the functions that make, use and end pools (--pool-fn).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions are patched (code_patch.h). What they allocate themselves, as raw material, is recorded as for any caller. Of
 * functions that allocate, resize or free a block, only the outermost call of a thread is recorded, since one may be made of
 * another. Each call that clears or ends a pool is recorded, before it does so: the functions of a library call one another
 * for the pools within a pool. Which blocks end then, the collector knows (ljtrace/collector/feed_pool.c).
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/pool_patch.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/protocol/pool_functions.h"

#include <string.h>

enum { MOST_PATCHED = 256, NEAR = 64 << 10 /* bytes of stack between a function and one that it calls */ };

/* A patched function; patch comes first. */
struct pooled {
    struct code_patch patch;
    struct pool_function does;
    char name[POOL_NAME_MOST + 1];
    const struct link_map *object;
    uint32_t wanted; /* index + 1 in s_wanted; 0 = not by this recording */
};

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
typedef uint64_t any_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

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

static uint64_t size_of(const struct pooled *p, const uint64_t *a)
{
    return argument(p, a, POOL_ARG_SIZE) *
           (p->does.at[POOL_ARG_COUNT] < 0 ? 1 : argument(p, a, POOL_ARG_COUNT));
}

static uint64_t outermost(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    any_function *original = (any_function *)p->patch.original;
    const uint64_t pool = argument(p, a, POOL_ARG_POOL), block = argument(p, a, POOL_ARG_BLOCK);
    if (p->does.what == POOL_FREE)
        record(p, pool, block, 0, 0, s);
    const uint64_t result = original(a[0], a[1], a[2], a[3]);
    if (result && p->does.what == POOL_ALLOC)
        record(p, pool, 0, result, size_of(p, a), s);
    else if (result && p->does.what == POOL_RESIZE)
        record(p, pool, block, result, size_of(p, a), s);
    return result;
}

static uint64_t make_pool(const struct pooled *p, const uint64_t *a, const struct saved *s)
{
    any_function *original = (any_function *)p->patch.original;
    const uint64_t out = argument(p, a, POOL_ARG_OUT), result = original(a[0], a[1], a[2], a[3]);
    record(p, out ? *(const uint64_t *)out : result, 0, 0, 0, s);
    return result;
}

__attribute__((used)) static uint64_t on_pool_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                                   const struct pooled *p, const struct saved *s)
{
    any_function *original = (any_function *)p->patch.original;
    const uint64_t arguments[] = {a, b, c, d}, sp = (uint64_t)&s->return_address;
    if (!native_is_on() || !p->wanted)
        return original(a, b, c, d);
    if (p->does.what == POOL_MAKE)
        return make_pool(p, arguments, s);
    if (p->does.what == POOL_CLEAR || p->does.what == POOL_END) {
        record(p, argument(p, arguments, POOL_ARG_POOL), 0, 0, 0, s);
        return original(a, b, c, d);
    }
    if (is_inner(sp))
        return original(a, b, c, d);
    t_outermost.back_to = s->return_address;
    t_outermost.sp = sp;
    const uint64_t result = outermost(p, arguments, s);
    t_outermost.sp = 0;
    return result;
}

/* As in alloc_patch.c. */
__attribute__((naked, used)) static void pool_entry(void)
{
    __asm__("push %rbp\n"
            ".cfi_adjust_cfa_offset 8\n"
            ".cfi_rel_offset %rbp, 0\n"
            "mov %rsp, %rbp\n"
            ".cfi_def_cfa_register %rbp\n"
            "mov %rsp, %r9\n"
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
    *p = (struct pooled){
        .patch = {.function = (void *)address, .size = (uint32_t)size, .is_shared = search->is_shared},
        .does = w->function,
        .object = search->object,
        .wanted = (uint32_t)(w - s_wanted) + 1};
    memcpy(p->name, w->function.name, w->function.name_bytes);
    const char *why = code_patch(&p->patch, (void *)pool_entry);
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
    file_symbols_each(object, path, see_symbol, &search);
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
                p->wanted = k + 1;
                s_wanted[k].is_found = true;
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
        if (!s_wanted[i].is_found)
            report(&s_wanted[i].function,
                   "no function of this name has a symbol in the program or its libraries");
}
