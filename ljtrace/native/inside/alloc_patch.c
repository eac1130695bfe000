/* alloc_patch.c - records the allocation functions that interposition does not reach.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each object is searched once, by the symbols that it exports and by the symbol table of its file. Functions of several
 * names at one address are one function. libc and the library of C++ in the program's own namespace are left out, since
 * all objects reach their functions through interposition, which costs less.
 *
 * A patched function is entered through `entry`, which calls `on_call` with the first four arguments; no function of the
 * list has more. Only the outermost call of a thread is recorded (calls.h).
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/alloc_patch.h"
#include "ljtrace/native/inside/calls.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/heap.h"
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/pool_patch.h"
#include "ljtrace/native/inside/resizes.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/protocol/alloc_functions.h"
#include "ljtrace/protocol/table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

enum { MOST_WATCHED = 4096, MOST_FOUND = 1024, MOST_OBJECTS = 4096, NAME_BYTES = 512, NAME_SLOTS = 1024 };

/* A patched function; patch comes first. */
struct watched {
    struct code_patch patch;
    const struct alloc_function *does;
    const struct link_map *object;
    uint32_t heap;   /* 0 = the C heap; else the number of a prefix, from 1 */
    uint8_t how;     /* enum mt_how, for the whole address */
    bool has_others; /* it may free or resize blocks that were made by functions that are not recorded */
    bool is_ignored; /* another function of its allocator could not be patched */
};

/* A function of the object that is being searched. */
struct found {
    uint64_t address, size;
    const struct alloc_function *does;
    uint32_t heap;
    uint8_t how;
    bool is_of_file; /* the symbol is in the file's table only */
};

/* An object that was searched. */
struct searched {
    const struct link_map *object;
    const ElfW(Dyn) * dynamic;
};

static struct watched *s_watched;
static struct found *s_found;
static struct searched *s_searched;
static uint32_t s_watched_count, s_found_count, s_searched_count;
static int s_lock;   /* of the tables, while objects are searched */
static bool s_alone; /* no other thread can be executing the functions */

struct prefix {
    char text[RECORDING_PREFIX_BYTES];
    bool is_wanted; /* by this recording */
    bool is_known;  /* it was given to a function, and this recording knows its heap */
};
LASTING_TABLE(struct prefix, s_prefixes, RECORDING_PREFIXES);
static uint32_t s_prefix_count;

/* -- calls -- */

/* What is on the stack when a patched function is entered. */
struct saved {
    uint64_t rbp, return_address;
};

typedef uint64_t allocate_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* Those of the caller. */
static struct native_registers registers_of(const struct saved *s)
{
    return (struct native_registers){s->return_address - 1, (uint64_t)(s + 1), s->rbp};
}

/* An operator of C++ that runs decides what kind of block it is. */
static uint32_t how_of(const struct watched *w)
{
    if (w->heap)
        return MT_HOW_CUSTOM;
    return native_operator_how(w->how == MT_HOW_REALLOC ? MT_HOW_MALLOC : w->how);
}

static struct native_event event_of(const struct watched *w, enum native_event_kind kind, uint32_t how)
{
    return (struct native_event){kind, .how = how, .heap = w->heap, .function = (uint64_t)w->patch.function,
                                 .lacks_news = w->has_others};
}

static void record_new(const struct watched *w, uint64_t block, uint64_t size, const struct saved *s)
{
    struct native_event e = event_of(w, NATIVE_NEW, how_of(w));
    const struct native_registers from = registers_of(s);
    e.addr = block;
    e.size = size;
    if (block && block_sample_chooses(size))
        native_record(&e, &from);
}

static void record_free(const struct watched *w, uint64_t block, const struct saved *s)
{
    struct native_event e = event_of(w, NATIVE_FREE, how_of(w));
    const struct native_registers from = registers_of(s);
    e.addr = block;
    if (block && !block_sample_lacks(block))
        native_record(&e, &from);
}

/* What is left of the event of a resize that has returned `result`. */
static void settle(struct native_event *e, const struct watched *w, const struct alloc_call *call,
                   uint64_t result)
{
    const bool moves = alloc_may_move(w->does);
    e->addr = moves && result ? result : call->block;
    if (moves && !result)
        e->kind = alloc_has_freed(w->does, call) ? NATIVE_FREE : NATIVE_NOTHING;
    else if (!moves && result < call->size)
        e->kind = NATIVE_NOTHING;
}

static uint64_t resize(const struct watched *w, const struct alloc_call *call, const uint64_t *a,
                       const struct saved *s)
{
    allocate_function *original = (allocate_function *)w->patch.original;
    const bool chosen = block_sample_chooses(call->size);
    if (!chosen && block_sample_lacks(call->block))
        return original(a[0], a[1], a[2], a[3]);
    const struct native_registers from = registers_of(s);
    struct native_event e = event_of(w, NATIVE_RESIZE, w->heap ? MT_HOW_CUSTOM : MT_HOW_MALLOC);
    e.old = call->block;
    e.size = call->size;
    e.chosen = chosen;
    if (alloc_may_move(w->does))
        e.resize = native_resize_begin(&e, &from);
    const uint64_t result = original(a[0], a[1], a[2], a[3]);
    settle(&e, w, call, result);
    native_record(&e, &from);
    return result;
}

/* The call of a function that makes blocks, or resizes them. */
static uint64_t make(const struct watched *w, const uint64_t *a, const struct saved *s)
{
    const struct alloc_call call = alloc_call_of(w->does, a[0], a[1], a[2], a[3]);
    allocate_function *original = (allocate_function *)w->patch.original;
    const bool resizes = w->does->action >= ALLOC_RESIZE && w->does->action <= ALLOC_RESIZE_HERE;
    if (resizes && call.block)
        return resize(w, &call, a, s);
    const uint64_t result = original(a[0], a[1], a[2], a[3]);
    if (w->does->action != ALLOC_MAKE_AT)
        record_new(w, result, call.size, s);
    else if ((uint32_t)result == 0)
        record_new(w, *(const uint64_t *)call.block, call.size, s);
    return result;
}

static bool is_recorded(const struct watched *w)
{
    return !w->is_ignored && (!w->heap || s_prefixes[w->heap - 1].is_wanted);
}

__attribute__((used)) static uint64_t on_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                              const struct watched *w, const struct saved *s)
{
    allocate_function *original = (allocate_function *)w->patch.original;
    const uint64_t arguments[] = {a, b, c, d};
    struct native_call outer;
    uint64_t result;
    if (!native_is_on() || !is_recorded(w) ||
        !native_call_begin((uint64_t)&s->return_address, w->object, &outer))
        return original(a, b, c, d);
    if (w->does->action == ALLOC_FREE) {
        record_free(w, a, s);
        result = original(a, b, c, d);
    } else
        result = make(w, arguments, s);
    native_call_end(&outer);
    return result;
}

/* The function's arguments and the fifth, the patch, stay where they are. Compilers leave the stack less aligned for a
 * function of the same file that does not need it, so it is aligned here. */
__attribute__((naked, used)) static void entry(void)
{
    __asm__("push %rbp\n"
            ".cfi_adjust_cfa_offset 8\n"
            ".cfi_rel_offset %rbp, 0\n"
            "mov %rsp, %rbp\n"
            ".cfi_def_cfa_register %rbp\n"
            "mov %rsp, %r9\n"
            "and $-16, %rsp\n"
            "call on_call\n"
            "mov %rbp, %rsp\n"
            "pop %rbp\n"
            ".cfi_def_cfa %rsp, 8\n"
            ".cfi_restore %rbp\n"
            "ret\n");
}

/* -- finding the functions of an object -- */

static const struct link_map *self(void)
{
    struct dl_find_object found;
    return _dl_find_object((void *)self, &found) == 0 ? found.dlfo_link_map : NULL;
}

/* The name of the file without its folder, also of the program. */
static const char *base_name(const struct link_map *object)
{
    const char *slash = strrchr(object->l_name, '/');
    return slash ? slash + 1 : object->l_name[0] ? object->l_name : "the program";
}

/* Which functions of an object are wanted. */
struct search {
    const struct link_map *object, *own;
    bool is_language;    /* what this library interposes is left out */
    bool has_own_malloc; /* it needs malloc and free of no other object */
    bool has_others;     /* it may make blocks by functions that are not in the list */
};

static bool is_wanted(const struct search *search, const struct alloc_function *f)
{
    return f->action != ALLOC_NOTHING && f->action != ALLOC_WITHIN &&
           !(search->is_language && (f->kind == ALLOC_STANDARD || host_symbol(search->own, f->name)));
}

/* Is there a function of the object that makes blocks of different kinds? Then its functions free all of them. */
static bool s_kinds_differ;

static struct found *found_at(uint64_t address)
{
    for (uint32_t i = 0; i < s_found_count; i++)
        if (s_found[i].address == address)
            return &s_found[i];
    return NULL;
}

/* Functions that only one allocator has. An allocator in the program itself is known by no name of a file. */
static const struct {
    const char *function, *allocator;
} s_signs[] = {{"mallocx", "jemalloc"}, {"tc_malloc", "tcmalloc"}, {"mi_malloc", "mimalloc"}};
static const char *s_allocator; /* of the object that is being searched; NULL = it is not known */

static void note_sign(const char *name)
{
    for (uint32_t i = 0; i < sizeof s_signs / sizeof *s_signs; i++)
        if (strcmp(name, s_signs[i].function) == 0)
            s_allocator = s_signs[i].allocator;
}

static void put_allocator(void)
{
    if (!s_allocator || !native_ring_lock())
        return;
    native_put_fact("own_allocator", s_allocator);
    native_ring_unlock();
}

static bool is_watched(uint64_t address)
{
    for (uint32_t i = 0; i < s_watched_count; i++)
        if ((uint64_t)s_watched[i].patch.function == address)
            return true;
    return false;
}

/* A function of several names may be known by another one: it frees blocks of all kinds if its names differ in that. */
static void note(uint64_t address, uint64_t size, const struct alloc_function *f, uint32_t heap,
                 bool is_of_file)
{
    struct found *known = found_at(address);
    note_sign(f->name);
    if (known && known->does->action == f->action && known->how != f->how) {
        s_kinds_differ |= f->action != ALLOC_FREE;
        known->how = f->action == ALLOC_FREE ? MT_HOWS : known->how < f->how ? known->how : f->how;
    }
    if (!known && !is_watched(address) && s_found_count < MOST_FOUND)
        s_found[s_found_count++] = (struct found){address, size, f, heap, f->how, is_of_file};
}

/* -- by the symbols that it exports -- */

static void note_exported(const struct search *search, const char *name, const struct alloc_function *f,
                          uint32_t heap)
{
    const ElfW(Sym) *s = host_symbol_entry(search->object, name);
    if (s)
        note(search->object->l_addr + s->st_value, s->st_size, f, heap, false);
}

static void search_exported(const struct search *search)
{
    char name[RECORDING_PREFIX_BYTES + 64];
    for (uint32_t i = 0; i < ALLOC_FUNCTIONS; i++) {
        const struct alloc_function *f = &alloc_functions[i];
        if (f->kind != ALLOC_NAMED && is_wanted(search, f))
            note_exported(search, f->name, f, 0);
        for (uint32_t p = 0; f->action != ALLOC_NOTHING && p < s_prefix_count; p++) {
            strcpy(stpcpy(name, s_prefixes[p].text), f->name);
            note_exported(search, name, f, p + 1);
        }
    }
}

/* -- by the symbol table of its file -- */

/* Indexes + 1 of alloc_functions by a hash of the name: most symbols of a program are not in the list. */
LASTING_TABLE(uint16_t, s_by_name, NAME_SLOTS);

static uint32_t name_hash(const char *name, const char *end)
{
    uint32_t h = 5381;
    for (; name < end; name++)
        h = h * 33 + (uint8_t)*name;
    return h % NAME_SLOTS;
}

static void make_index(void)
{
    static bool is_made;
    for (uint32_t i = 0; i < ALLOC_FUNCTIONS && !is_made; i++) {
        const char *name = alloc_functions[i].name;
        uint32_t slot = name_hash(name, name + strlen(name));
        while (s_by_name[slot])
            slot = (slot + 1) % NAME_SLOTS;
        s_by_name[slot] = (uint16_t)(i + 1);
    }
    is_made = true;
}

/* The function of the name up to `end`. */
static const struct alloc_function *by_name(const char *name, const char *end)
{
    for (uint32_t slot = name_hash(name, end); s_by_name[slot]; slot = (slot + 1) % NAME_SLOTS) {
        const struct alloc_function *f = &alloc_functions[s_by_name[slot] - 1];
        if (strncmp(f->name, name, (size_t)(end - name)) == 0 && !f->name[end - name])
            return f;
    }
    return NULL;
}

/* jemalloc is often linked with a prefix before its names. sallocx is a name that nothing else has. */
static void report_prefix(const char *name, const char *end, const struct search *search)
{
    static const char sign[] = "sallocx";
    char text[2 * NAME_BYTES + RECORDING_PREFIX_BYTES];
    const size_t n = (size_t)(end - name), of_sign = sizeof sign - 1;
    if (n <= of_sign || n - of_sign >= NAME_BYTES / 4 || memcmp(end - of_sign, sign, of_sign) != 0)
        return;
    char *at = stpcpy(stpncpy(text, base_name(search->object), NAME_BYTES),
                      " has allocation functions that begin with ");
    at = stpncpy(at, name, n - of_sign);
    at = stpcpy(at, ", which are not recorded without --alloc-prefix=");
    *stpncpy(at, name, n - of_sign) = 0;
    native_problem(text);
}

/* Names may end with a version after an @. A local function with a name of C may be static and something else. */
static void see_symbol(const struct file_symbol *s, void *any)
{
    const struct search *search = any;
    const char *end = strchrnul(s->name, '@');
    const struct alloc_function *f = by_name(s->name, end);
    const bool may_be_another = f && s->is_local && f->kind == ALLOC_STANDARD && f->name[0] != '_';
    if (f && f->kind != ALLOC_NAMED && is_wanted(search, f) && !(may_be_another && !search->has_own_malloc)) {
        note(s->address, s->size, f, 0, true);
        return;
    }
    const char *plain = s_prefix_count ? alloc_plain_name(s->name) : NULL;
    for (uint32_t p = 0; p < s_prefix_count; p++) {
        f = alloc_by_prefix(plain, s_prefixes[p].text);
        if (f && f->action != ALLOC_NOTHING)
            note(s->address, s->size, f, p + 1, true);
        if (f)
            return;
    }
    report_prefix(s->name, end, search);
}

/* -- patching -- */

/* NAME of OBJECT is not recorded, ... */
static void report(const struct found *f, const struct link_map *object, const char *more, const char *why)
{
    char text[3 * NAME_BYTES], *at = stpcpy(text, f->heap ? s_prefixes[f->heap - 1].text : "");
    at = stpcpy(stpcpy(at, f->does->name), " of ");
    at = stpcpy(stpncpy(at, base_name(object), NAME_BYTES), " is not recorded");
    stpcpy(stpcpy(stpcpy(at, more), ": "), why);
    native_problem(text);
}

/* Does interposition reach the calls of malloc and free that other objects make? */
static bool is_interposed(const struct search *search)
{
    void *function = host_symbol(search->object, "free");
    return function && function == native_next("free");
}

/* Is the function, which has no name of C or C++, exported? */
static bool is_own_function(const struct found *f)
{
    return f->does->kind == ALLOC_OF_ALLOCATORS && !f->heap && !f->is_of_file;
}

/* Has the object such a function that makes blocks? NULL = it has none. */
static const struct found *own_function(void)
{
    for (uint32_t i = 0; i < s_found_count; i++)
        if (is_own_function(&s_found[i]) && s_found[i].does->action < ALLOC_RESIZE)
            return &s_found[i];
    return NULL;
}

/* Does another object of this list need one of them? */
static bool is_needed_by(const struct link_map *o, const struct search *search)
{
    for (; o; o = o->l_next)
        for (uint32_t i = 0; i < s_found_count && o != search->object && o != search->own; i++)
            if (is_own_function(&s_found[i]) && host_symbol_is_needed(o, s_found[i].does->name))
                return true;
    return false;
}

/* None of the object's functions is patched, because `f` cannot be: what is recorded nevertheless, and what is not. */
static void report_all(const struct found *f, const struct search *search, const char *why)
{
    char text[4 * NAME_BYTES], *at = stpcpy(text, "of the allocator in ");
    const struct found *own = own_function();
    if (!is_interposed(search)) {
        report(f, search->object, ", and so the other functions of this allocator are not", why);
        return;
    }
    at = stpncpy(at, base_name(search->object), NAME_BYTES);
    at = stpcpy(at, ", calls of malloc, free and their relatives by other objects are recorded");
    at = stpcpy(at, ", but not those within it");
    if (own) {
        at = stpcpy(stpcpy(at, ", nor its functions of other names, such as "), own->does->name);
        at = stpcpy(at, is_needed_by(_r_debug.r_map, search) ? "" : " (no object that is loaded needs them)");
    }
    at = stpcpy(stpcpy(at, "; the functions themselves are not changed ("), f->does->name);
    stpcpy(stpcpy(stpcpy(at, ": "), why), ")");
    native_problem(text);
}

/* A prefix has a heap of its own. Each recording has to name it. */
static void announce_heap(uint32_t heap)
{
    struct prefix *p = &s_prefixes[heap - 1];
    if (p->is_known || !p->is_wanted || !native_ring_lock())
        return;
    p->is_known = true;
    NATIVE_PUT(heap, .kind = RAW_KIND_CUSTOM, .heap = RAW_HEAP_POOL | heap, .name = native_text(p->text));
    NATIVE_PUT(slot, .slot = native_heap_slot(heap), .heap = RAW_HEAP_POOL | heap);
    native_ring_unlock();
}

/* A place in the table: a new one, or that of a function that is gone. */
static struct watched *new_watched(void)
{
    for (uint32_t i = 0; i < s_watched_count; i++)
        if (!s_watched[i].patch.function)
            return &s_watched[i];
    return s_watched_count < MOST_WATCHED ? &s_watched[s_watched_count++] : NULL;
}

/* Returns NULL, or why the function remains as it is. */
static const char *patch(const struct search *search, const struct found *f)
{
    struct watched *w = new_watched();
    if (!w)
        return "there are too many";
    *w = (struct watched){
        .patch = {.function = (void *)f->address, .size = (uint32_t)f->size, .is_shared = !s_alone},
        .does = f->does,
        .object = search->object,
        .heap = f->heap,
        .how = f->how,
        .has_others = search->has_others};
    const char *why = code_patch(&w->patch, (void *)entry);
    if (why)
        w->patch.function = NULL;
    else if (f->heap)
        announce_heap(f->heap);
    return why;
}

/* Let the functions of an object that are patched do what they did. */
static void ignore_all(const struct link_map *object)
{
    for (uint32_t i = 0; i < s_watched_count; i++)
        s_watched[i].is_ignored |= s_watched[i].object == object;
}

/* Some function that makes blocks is not recorded, so others get blocks that the trace does not have. */
static void expect_others(const struct link_map *object)
{
    for (uint32_t i = 0; i < s_watched_count; i++)
        s_watched[i].has_others |= s_watched[i].object == object;
}

/* Without functions that free or resize blocks, all blocks would seem to leak. So they are patched first; if that fails,
 * none of the object's functions is recorded. */
static void patch_all(const struct search *search, const char *path, const char *forbidden)
{
    for (uint32_t makes = 0; makes < 2; makes++)
        for (uint32_t i = 0; i < s_found_count; i++) {
            const struct found *f = &s_found[i];
            if ((f->does->action < ALLOC_RESIZE) != makes)
                continue;
            if (f->is_of_file && !file_has_code(search->object, path, f->address))
                continue;
            const char *why = forbidden ? forbidden : patch(search, f);
            if (why && !makes) {
                report_all(f, search, why);
                ignore_all(search->object);
                return;
            }
            if (why) {
                report(f, search->object, "", why);
                expect_others(search->object);
            }
        }
}

/* -- objects -- */

static bool was_searched(const struct link_map *object)
{
    for (uint32_t i = 0; i < s_searched_count; i++)
        if (s_searched[i].object == object && s_searched[i].dynamic == object->l_ld)
            return true;
    return false;
}

/* Is an allocator found all of whose functions are in the list? */
static bool is_complete(void)
{
    for (uint32_t i = 0; i < s_found_count; i++)
        if (s_found[i].does->is_complete)
            return true;
    return false;
}

/* The libc of another namespace frees what it keeps for a thread when that ends; these were never blocks. */
static void search_object(const struct link_map *object, bool is_first, bool is_own_namespace)
{
    const struct link_map *own = self();
    const char *path = is_first && is_own_namespace ? "/proc/self/exe" : object->l_name;
    if (!own || object == own || !object->l_ld || alloc_text_after(base_name(object), "libljtrace-") ||
        alloc_text_after(object->l_name, "linux-vdso") || was_searched(object) ||
        s_searched_count == MOST_OBJECTS)
        return;
    struct search search = {
        .object = object,
        .own = own,
        .is_language = is_own_namespace && !is_first && native_is_language_library(base_name(object)),
        .has_own_malloc = !host_symbol_is_needed(object, "malloc") && !host_symbol_is_needed(object, "free")};
    s_searched[s_searched_count++] = (struct searched){object, object->l_ld};
    s_found_count = 0;
    s_allocator = NULL;
    s_kinds_differ = false;
    search_exported(&search);
    if (native_process.patches)
        file_symbols_each(object, path, FILE_FUNCTIONS, see_symbol, &search);
    if (is_first && is_own_namespace)
        put_allocator();
    search.has_others = !search.is_language && !(is_own_namespace && is_complete());
    for (uint32_t i = 0; s_kinds_differ && i < s_found_count; i++)
        if (s_found[i].does->action == ALLOC_FREE)
            s_found[i].how = MT_HOWS;
    pool_patch_object(object, path, !s_alone);
    patch_all(&search, path, native_process.patches ? NULL : "the program's seccomp filter forbids that");
}

/* The list of each namespace: that of the program, then those of dlmopen. */
static const struct r_debug_extended *first_namespace(void)
{
    return (const struct r_debug_extended *)&_r_debug;
}

static const struct r_debug_extended *next_namespace(const struct r_debug_extended *of)
{
    return _r_debug.r_version > 1 ? of->r_next : NULL;
}

/* The dynamic linker uses one loader for all namespaces, which has functions of its own. */
static void search_all(void)
{
    for (const struct r_debug_extended *r = first_namespace(); r; r = next_namespace(r))
        for (const struct link_map *o = r->base.r_state == RT_CONSISTENT ? r->base.r_map : NULL; o;
             o = o->l_next)
            if (!alloc_text_after(base_name(o), "ld-linux"))
                search_object(o, o == r->base.r_map, r == first_namespace());
    for (uint32_t i = 0; i < s_watched_count && !native_calls_nest; i++)
        native_calls_nest = s_watched[i].patch.function != NULL;
    if (native_calls_nest)
        native_heap_patched();
}

static bool is_loaded(const struct link_map *object, const ElfW(Dyn) * dynamic)
{
    for (const struct r_debug_extended *r = first_namespace(); r; r = next_namespace(r))
        for (const struct link_map *o = r->base.r_map; o; o = o->l_next)
            if (o == object && (!dynamic || o->l_ld == dynamic))
                return true;
    return false;
}

static void forget_unloaded(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s_searched_count; i++)
        if (is_loaded(s_searched[i].object, s_searched[i].dynamic))
            s_searched[kept++] = s_searched[i];
    s_searched_count = kept;
    for (uint32_t i = 0; i < s_watched_count; i++)
        if (s_watched[i].patch.function && !was_searched(s_watched[i].object))
            s_watched[i].patch.function = NULL;
    pool_patch_forget(was_searched);
}

/* -- from outside -- */

static void lock(void)
{
    while (__atomic_exchange_n(&s_lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock(void)
{
    __atomic_store_n(&s_lock, 0, __ATOMIC_RELEASE);
}

/* A prefix keeps its number in later recordings of the process. */
static void want_prefix(const char *text, size_t n)
{
    uint32_t i = 0;
    while (i < s_prefix_count && (strncmp(s_prefixes[i].text, text, n) != 0 || s_prefixes[i].text[n]))
        i++;
    if (i == RECORDING_PREFIXES)
        return;
    memcpy(s_prefixes[i].text, text, n);
    s_prefixes[i].is_wanted = true;
    s_prefix_count += i == s_prefix_count;
}

void alloc_patch_prefixes(void)
{
    const char *list = native_options.prefixes;
    for (uint32_t i = 0; i < s_prefix_count; i++)
        s_prefixes[i].is_wanted = s_prefixes[i].is_known = false;
    while (*list) {
        const size_t n = strcspn(list, ",");
        want_prefix(list, n);
        list += n + 1;
    }
}

/* The number of threads of this process, from the kernel. */
static bool is_only_thread(void)
{
    char text[1024];
    kernel_read_text("/proc/self/stat", text, sizeof text);
    const char *at =
        strrchr(text, ')'); /* the third field and the following ones come after it; the 20th is wanted */
    for (int i = 2; at && i < 20; i++)
        at = strchr(at + 1, ' ');
    return at && at[1] == '1' && at[2] == ' ';
}

void alloc_patch_begin(void)
{
    const int error = errno;
    if (!s_watched) {
        s_watched = native_memory(MOST_WATCHED * sizeof *s_watched);
        s_found = native_memory(MOST_FOUND * sizeof *s_found);
        s_searched = native_memory(MOST_OBJECTS * sizeof *s_searched);
    }
    if (!s_watched || !s_found || !s_searched)
        return;
    lock();
    make_index();
    pool_patch_begin();
    s_alone = is_only_thread();
    s_searched_count = 0;
    for (uint32_t i = 0; i < s_watched_count; i++)
        s_watched[i].is_ignored = false;
    for (uint32_t i = 0; i < s_watched_count; i++)
        if (s_watched[i].patch.function && s_watched[i].heap)
            announce_heap(s_watched[i].heap);
    search_all();
    unlock();
    errno = error;
}

void alloc_patch_objects_changed(void)
{
    if (!s_watched || !s_found || !s_searched)
        return;
    lock();
    forget_unloaded();
    s_alone = true; /* nothing executes the code of new objects yet */
    search_all();
    unlock();
}

void alloc_patch_put_facts(void)
{
    char list[RECORDING_PREFIX_BYTES], *at = list;
    for (uint32_t i = 0; i < s_prefix_count; i++)
        if (s_prefixes[i].is_wanted && (size_t)(at - list) + strlen(s_prefixes[i].text) + 2 < sizeof list)
            at = stpcpy(stpcpy(at, at > list ? "," : ""), s_prefixes[i].text);
    if (at > list)
        native_put_fact("alloc_prefix", list);
}

void alloc_patch_end(void)
{
    char text[NAME_BYTES];
    for (uint32_t i = 0; i < s_prefix_count; i++) {
        if (s_prefixes[i].is_known || !s_prefixes[i].is_wanted || !native_ring_try_lock())
            continue;
        stpcpy(stpcpy(stpcpy(text, "--alloc-prefix="), s_prefixes[i].text),
               " names no allocation function that has a symbol in the program or its libraries");
        native_problem(text);
        native_ring_unlock();
    }
}

void *alloc_patch_original(void *function)
{
    for (uint32_t i = 0; function && i < s_watched_count; i++)
        if (s_watched[i].patch.function == function)
            return s_watched[i].patch.original;
    return function;
}
