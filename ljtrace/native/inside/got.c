/* got.c - redirect the program's calls of allocation functions to this library, and back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each relocation that names a function which this library exports is looked at: the entry of a PLT, or a pointer. It is
 * changed if it points to the function that the program calls otherwise, or if the PLT has not been used yet. A weak
 * function that nothing else defines, such as that of LJTRACE_MARK, is 0 otherwise. To
 * restore, no state is needed: every pointer to this library is replaced by the program's function.
 *
 * If the library was preloaded, the dynamic linker binds nearly all pointers to it. It does not do so in objects that are
 * opened with RTLD_DEEPBIND, which look for functions in their own libraries first. Only objects that are opened while
 * the program runs are looked at then.
 *
 * The dynamic linker protects most pointers from being written when it has written them (RELRO). So a pointer there
 * that can still be written belongs to an object that is being loaded: it is left for later, as changing the protection
 * now would harm the dynamic linker. writable.h knows which memory can be written.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/native/inside/maps.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/writable.h"
#include "ljtrace/protocol/kernel.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* -- before constructors -- */

/* The dynamic linker calls the function for debuggers when it has mapped new objects, then relocates them, and then calls
 * the function that the entry DT_INIT of an object's dynamic section names, before the object's other constructors. At
 * the first moment the section can be written, and nothing has looked at the entry. A function of this file is put there
 * and calls the original one. Objects without the entry have no hook; events of the program notice them later.
 *
 * The objects at the end of the list are initialized first, since what an object needs follows it. So if there are more
 * new objects than hooks, the last ones get them. The dynamic linker's lock is held in all of this. */

enum { HOOKS = 8 };

typedef void init_function(int argc, char **argv, char **environment);

/* The object that a hook belongs to; NULL = the hook is free. */
static struct hook {
    const struct link_map *object;
    ElfW(Dyn) * entry;
    ElfW(Addr) original; /* what the entry had */
} s_hooks[HOOKS];

static void on_init(struct hook *h, int argc, char **argv, char **environment)
{
    const int error = errno;
    init_function *original = (init_function *)(h->object->l_addr + h->original);
    h->object = NULL;
    if (got_is_late)
        got_catch_up();
    errno = error;
    original(argc, argv, environment);
}

#define HOOK(i)                                                                                              \
    static void hook_##i(int argc, char **argv, char **environment)                                          \
    {                                                                                                        \
        on_init(&s_hooks[i], argc, argv, environment);                                                       \
    }
HOOK(0)
HOOK(1)
HOOK(2)
HOOK(3)
HOOK(4)
HOOK(5)
HOOK(6)
HOOK(7)

static init_function *const s_functions[HOOKS] = {hook_0, hook_1, hook_2, hook_3,
                                                  hook_4, hook_5, hook_6, hook_7};

static bool is_loaded(const struct link_map *object)
{
    const struct link_map *map = _r_debug.r_map;
    while (map && map != object)
        map = map->l_next;
    return map != NULL;
}

/* A free hook; NULL = there is none. An object that could not be opened in the end never uses its hook. */
static struct hook *free_hook(void)
{
    for (struct hook *h = s_hooks; h < s_hooks + HOOKS; h++) {
        if (h->object && !is_loaded(h->object))
            h->object = NULL;
        if (!h->object)
            return h;
    }
    return NULL;
}

static bool is_hooked(const struct link_map *object)
{
    for (struct hook *h = s_hooks; h < s_hooks + HOOKS; h++)
        if (h->object == object)
            return true;
    return false;
}

static void hook_add(const struct link_map *object)
{
    struct hook *h = is_hooked(object) ? NULL : free_hook();
    ElfW(Dyn) *d = object->l_ld;
    while (d && d->d_tag != DT_NULL && d->d_tag != DT_INIT)
        d++;
    if (!h || !d || d->d_tag != DT_INIT)
        return;
    *h = (struct hook){object, d, d->d_un.d_ptr};
    d->d_un.d_ptr = (ElfW(Addr))s_functions[h - s_hooks] - object->l_addr;
}

/* The dynamic linker has just mapped the objects that follow this one in its list, but may not have relocated them
 * yet. When it has, got_catch_up is called, before their constructors. Only while the dynamic linker calls the
 * function for debuggers. */
static void init_hooks_add(const struct link_map *last)
{
    const struct link_map *object = _r_debug.r_map;
    while (object && object->l_next)
        object = object->l_next;
    for (; object && object != last; object = object->l_prev)
        hook_add(object);
}

/* -- GOT -- */

enum { MOST_ATTEMPTS = 1 << 20 };

bool got_is_late;
uint32_t got_generation = 1;

static bool s_redirected; /* by got_redirect */
static bool s_follows;    /* objects that are opened while the program runs are looked at */
static bool s_is_denied;  /* a sandbox denies the system calls by which pointers are changed */
/* The last object whose pointers were redirected, or were bound to this library. NULL = any object may be new. */
static const struct link_map *s_last;
/* A pointer that the dynamic linker has not written yet, and its value until then. 0 = none is known. */
static uint64_t s_unwritten, s_unwritten_value;
static const struct link_map *s_mapped; /* the last object when the list of objects changed last */
static int s_lock;
static uint32_t s_attempts; /* to redirect the pointers of objects that were loaded last */

/* An object whose pointers are redirected or restored. */
struct object {
    const struct link_map *map;
    const ElfW(Sym) * symbols;
    const char *names;
    uint64_t relro_from, relro_to; /* whole pages */
    uint64_t from, to;
};

static const struct link_map *self(void)
{
    struct dl_find_object found;
    return _dl_find_object((void *)self, &found) == 0 ? found.dlfo_link_map : NULL;
}

/* -- pointers -- */

static bool protect(uint64_t at, int how)
{
    const uint64_t page = at & ~(uint64_t)(KERNEL_PAGE - 1);
    return kernel_call(SYS_mprotect, (long)page, KERNEL_PAGE, how, 0, 0, 0) == 0;
}

static void set_pointer(uint64_t at, uint64_t value)
{
    const bool writable = writable_has(at); /* the caller has read which memory is */
    if (!writable && !protect(at, PROT_READ | PROT_WRITE))
        return;
    __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    if (!writable)
        protect(at, PROT_READ);
}

/* The function of that name in the first object of the list from `map` on that defines it, except this library. */
static uint64_t defined_from(const struct link_map *map, const char *name, const struct link_map *own)
{
    for (; map; map = map->l_next) {
        void *function = map != own ? host_symbol(map, name) : NULL;
        if (function)
            return (uint64_t)function;
    }
    return 0;
}

/* The function of the program with that name, whatever object defines it first. */
static uint64_t programs(const char *name, const struct link_map *own)
{
    return defined_from(_r_debug.r_map, name, own);
}

/* Do all objects that define a function have the same one? */
static bool is_only(uint64_t function, const char *name, const struct link_map *own)
{
    for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        const uint64_t defined = map != own ? (uint64_t)host_symbol(map, name) : 0;
        if (defined && defined != function)
            return false;
    }
    return true;
}

/* Functions that free come first when pointers are redirected, and last when they are restored: a block whose New is
 * recorded has its Free recorded, too. */
enum group { FREES, RESIZES, OTHERS, GROUPS };

static enum group group_of(const char *name)
{
    if (strncmp(name, "free", 4) == 0 || strncmp(name, "_Zd", 3) == 0)
        return FREES;
    return strncmp(name, "realloc", 7) == 0 ? RESIZES : OTHERS;
}

/* What the walk over the objects has to do and has done. */
struct pass {
    bool redirect, done;
    bool
        preloaded; /* pointers to the functions that this library calls are redirected, in new objects only */
    bool has_writable; /* it is known which memory can be written */
    enum group group;
    const struct link_map *own;
    const struct link_map *last; /* s_last */
    bool is_past;                /* the walk is past `last` */
};

/* Has the dynamic linker not written this pointer yet? Then it is 0, or relative to the object's address. */
static bool is_unwritten(const struct object *o, uint32_t type, uint64_t value)
{
    return type == R_X86_64_JUMP_SLOT ? o->map->l_addr && value < o->to - o->from : !value;
}

/* The function to which a pointer is bound without this library. 0 = there is none. */
static uint64_t theirs_of(const char *name, const struct pass *p)
{
    return p->preloaded ? defined_from(p->own->l_next, name, p->own) : programs(name, p->own);
}

/* The program has an object whose calls are not recorded. */
static void report_denied(const char *object)
{
    static const char begin[] = "a seccomp filter does not permit to record the calls of ";
    char text[400];
    *stpncpy(stpcpy(text, begin), object, sizeof text - sizeof begin) = 0;
    native_problem(text);
}

/* Redirect one pointer, or restore it. Returns false if it has to be done later. */
static bool change(const struct object *o, const ElfW(Rela) * r, struct pass *p)
{
    const uint32_t type = ELF64_R_TYPE(r->r_info);
    const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r->r_info)];
    const uint64_t at = o->map->l_addr + r->r_offset;
    if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) || r->r_addend ||
        !ELF64_R_SYM(r->r_info))
        return true;
    const char *name = o->names + symbol->st_name;
    const uint64_t ours =
        group_of(name) == p->group && maps_needs(name) ? (uint64_t)host_symbol(p->own, name) : 0;
    const uint64_t theirs = ours ? theirs_of(name, p) : 0;
    const bool is_weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
    if (!ours || (!theirs && (!is_weak || p->preloaded)))
        return true;
    const uint64_t value = *(const volatile uint64_t *)at;
    if (p->redirect && !is_weak && is_unwritten(o, type, value)) {
        s_unwritten_value = value;
        s_unwritten = at;
        return false;
    }
    const bool unused = type == R_X86_64_JUMP_SLOT && value >= o->from && value < o->to &&
                        (!p->preloaded || is_only(theirs, name, p->own));
    if (p->redirect ? value != theirs && !unused : value != ours)
        return true;
    if (s_is_denied) {
        report_denied(o->map->l_name);
        return true;
    }
    if (!p->has_writable && !(p->has_writable = writable_read()))
        return true;
    if (at >= o->relro_from && at < o->relro_to && writable_has(at))
        return false;
    set_pointer(at, p->redirect ? ours : theirs);
    return true;
}

/* -- objects -- */

static uint64_t address(const struct link_map *map, uint64_t a)
{
    return a < map->l_addr ? a + map->l_addr : a;
}

/* Redirect or restore the pointers of a table of relocations. */
static bool change_table(const struct object *o, uint64_t table, uint64_t bytes, struct pass *p)
{
    bool done = true;
    const ElfW(Rela) *r = (const void *)table;
    for (uint64_t i = 0; table && i < bytes / sizeof *r; i++)
        done &= change(o, r + i, p);
    return done;
}

static bool change_object(struct object *o, struct pass *p)
{
    uint64_t rela = 0, rela_bytes = 0, plt = 0, plt_bytes = 0;
    for (const ElfW(Dyn) *d = o->map->l_ld; d && d->d_tag != DT_NULL; d++) {
        const uint64_t value = d->d_un.d_val, at = address(o->map, value);
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const void *)at;
        else if (d->d_tag == DT_STRTAB)
            o->names = (const void *)at;
        else if (d->d_tag == DT_RELA)
            rela = at;
        else if (d->d_tag == DT_RELASZ)
            rela_bytes = value;
        else if (d->d_tag == DT_JMPREL)
            plt = at;
        else if (d->d_tag == DT_PLTRELSZ)
            plt_bytes = value;
    }
    if (!o->symbols || !o->names)
        return true;
    const bool done = change_table(o, rela, rela_bytes, p);
    return change_table(o, plt, plt_bytes, p) && done;
}

/* The object with this dynamic section. */
static const struct link_map *find_map(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next)
                if ((uint64_t)map->l_ld == info->dlpi_addr + info->dlpi_phdr[i].p_vaddr)
                    return map;
    return NULL;
}

static bool is_kernels(const struct link_map *map)
{
    return strncmp(map->l_name, "linux-vdso", 10) == 0;
}

static int see_object(struct dl_phdr_info *info, size_t size, void *any)
{
    struct pass *p = any;
    struct object o = {.map = find_map(info), .from = UINT64_MAX};
    (void)size;
    const bool is_new = p->is_past;
    p->is_past |= o.map == p->last;
    if (!o.map || o.map == p->own || is_kernels(o.map) || (p->preloaded && !is_new))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint64_t from = info->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
        if (segment->p_type == PT_GNU_RELRO) {
            o.relro_from = from & ~(uint64_t)(KERNEL_PAGE - 1);
            o.relro_to = to & ~(uint64_t)(KERNEL_PAGE - 1);
        } else if (segment->p_type == PT_LOAD) {
            o.from = from < o.from ? from : o.from;
            o.to = to > o.to ? to : o.to;
        }
    }
    p->done &= change_object(&o, p);
    return 0;
}

/* The end of the list of objects. */
static const struct link_map *last_object(void)
{
    const struct link_map *map = _r_debug.r_map;
    while (map && map->l_next)
        map = map->l_next;
    return map;
}

/* Returns false if a later attempt may do more. */
static bool change_all(bool redirect)
{
    struct pass p = {.redirect = redirect, .done = true, .own = self()};
    p.preloaded = redirect && !s_redirected;
    p.last = s_last;
    s_unwritten = 0;
    if (!p.own)
        return true;
    const struct link_map *last = last_object();
    for (unsigned i = 0; i < GROUPS; i++) {
        p.group = redirect ? i : GROUPS - 1 - i;
        p.is_past = !s_last || !is_loaded(s_last);
        dl_iterate_phdr(see_object, &p); /* no object is loaded or unloaded meanwhile */
    }
    if (p.done)
        s_last = last;
    return p.done;
}

/* -- from outside -- */

static bool try_lock(void)
{
    return !__atomic_exchange_n(&s_lock, 1, __ATOMIC_ACQUIRE);
}

static void lock(void)
{
    while (!try_lock())
        sched_yield();
}

static void unlock(void)
{
    __atomic_store_n(&s_lock, 0, __ATOMIC_RELEASE);
}

bool got_redirect(void)
{
    lock();
    s_redirected = s_follows = writable_read();
    s_mapped = last_object();
    s_attempts = 0;
    got_is_late = s_redirected && !change_all(true);
    unlock();
    return s_redirected;
}

void got_follow(void)
{
    lock();
    s_last = s_mapped = last_object();
    s_follows = true;
    unlock();
}

void got_deny(void)
{
    s_is_denied = true;
}

void got_restore(void)
{
    lock();
    if (s_follows)
        change_all(false);
    s_redirected = s_follows = got_is_late = false;
    unlock();
}

/* Does the pointer that was not written yet still have its value? The kernel reads it, since its object may be unmapped
 * at any time. */
static bool still_unwritten(void)
{
    uint64_t value = 0;
    struct iovec here = {&value, sizeof value}, there = {(void *)s_unwritten, sizeof value};
    return s_unwritten && !s_is_denied &&
           kernel_call(SYS_process_vm_readv, kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)&here, 1,
                       (long)&there, 1, 0) == sizeof value &&
           value == s_unwritten_value;
}

/* Attempts number 1, 2, 4, 8 and so on are made, since an object may never become read-only. */
void got_catch_up(void)
{
    if (!try_lock())
        return;
    if (got_is_late && s_follows && !still_unwritten()) {
        const bool was_unwritten = s_unwritten != 0;
        const uint32_t attempt = s_attempts = was_unwritten ? 1 : s_attempts + 1;
        const bool done = (attempt & (attempt - 1)) == 0 && change_all(true);
        got_is_late = !done && attempt < MOST_ATTEMPTS;
    }
    unlock();
}

void got_objects_changed(void)
{
    __atomic_add_fetch(&got_generation, 1, __ATOMIC_RELEASE);
    s_attempts = 0;
    if (s_last && !is_loaded(s_last))
        s_last = got_is_late ? NULL : last_object();
    got_is_late = s_follows && native_is_on() && last_object() != s_last;
    if (got_is_late && s_mapped && is_loaded(s_mapped))
        init_hooks_add(s_mapped);
    s_mapped = last_object();
}

/* Does libc come after this library in the list of objects? */
static bool is_preloaded(const struct link_map *own)
{
    struct dl_find_object libc;
    const struct link_map *map = own->l_next;
    if (_dl_find_object((void *)gnu_get_libc_version, &libc) != 0)
        return false;
    while (map && map != libc.dlfo_link_map)
        map = map->l_next;
    return map != NULL;
}

/* dl_iterate_phdr is called only for the lock that it holds; the callback ends it at the first object. */
struct search {
    const char *name;
    void *found;
};

static int search_all(struct dl_phdr_info *info, size_t size, void *any)
{
    struct search *s = any;
    const struct link_map *own = self();
    (void)info, (void)size;
    if (own && is_preloaded(own))
        s->found = (void *)defined_from(own->l_next, s->name, own);
    if (!s->found)
        s->found = (void *)programs(s->name, own);
    return 1;
}

void *got_function(const char *name)
{
    struct search s = {name, NULL};
    dl_iterate_phdr(search_all, &s);
    return s.found;
}
