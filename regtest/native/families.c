/* families.c - calls each allocation function of a family in alloc_functions.def that the process has. The functions of C
 * and C++ are the family `standard`.
 *
 *     LD_PRELOAD=ALLOCATOR families FAMILY [DELETER]
 *
 * Prints the name of each function that was called, and after that how many blocks it made, resized (`~`) and freed.
 * A block is freed by DELETER, the family's most general free; without it by free, and one of operator new by delete.
 * Status 1, and a line that says why, if a function does not do what it is for. Whether it is recorded or not, it does
 * the same.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 100, MORE = 5000, ALIGN = 64, PAGE = 4096 };

static void (*s_free)(void *);
static const char *s_name;

static void wrong(const char *what)
{
    printf("%s: %s\n", s_name, what);
    exit(1);
}

static void *good(void *p, size_t bytes, size_t align)
{
    if (!p || (uintptr_t)p % align)
        wrong("no memory, or not aligned");
    memset(p, 0x5a, bytes);
    return p;
}

static void *zeroed(void *p, size_t from, size_t to, size_t align)
{
    if (!p || (uintptr_t)p % align)
        wrong("no memory, or not aligned");
    for (size_t i = from; i < to; i++)
        if (((char *)p)[i])
            wrong("not zeroed");
    return p;
}

static char *kept(void *p)
{
    for (size_t i = 0; !p || i < BYTES; i++)
        if (!p || ((char *)p)[i] != 0x5a)
            wrong("contents are lost");
    return p;
}

/* A block of the family's plainest function. */
static void *block(void)
{
    static const char *const makers[] = {"mi_malloc", "tc_malloc", "scalable_malloc"};
    for (int i = 0; i < 3; i++)
        if (strncmp(s_name, makers[i], 3) == 0)
            return good(((void *(*)(size_t))dlsym(RTLD_DEFAULT, makers[i]))(BYTES), BYTES, 8);
    return good(malloc(BYTES), BYTES, 8);
}

typedef void *p1(size_t), *p2(size_t, size_t), *p3(size_t, size_t, size_t);
typedef void *r2(void *, size_t), *r3(void *, size_t, size_t), *rx(void *, size_t, int), *mx(size_t, int);
typedef size_t u1(const void *), x4(void *, size_t, size_t, int), ux(const void *, int), nx(size_t, int);
typedef int posix(void **, size_t, size_t);
typedef void f1(void *), f2(void *, size_t), f3(void *, size_t, size_t), fx(void *, int),
    sx(void *, size_t, int);
#define AS(type) ((type *)f)

static bool names_begin(const char *beginning)
{
    return strncmp(s_name, beginning, strlen(beginning)) == 0;
}

static bool is_aligned(void)
{
    return strstr(s_name, "align_val") != NULL;
}

/* Delete what the operator s_name has made. */
static void delete_it(void *p)
{
    const bool array = names_begin("_Zna");
    if (is_aligned())
        ((f2 *)dlsym(RTLD_DEFAULT, array ? "_ZdaPvSt11align_val_t" : "_ZdlPvSt11align_val_t"))(p, ALIGN);
    else
        ((f1 *)dlsym(RTLD_DEFAULT, array ? "_ZdaPv" : "_ZdlPv"))(p);
}

static void finish(void *p, const char *counts)
{
    if (names_begin("_Zn"))
        delete_it(p);
    else
        s_free(p);
    printf("%s %s\n", s_name, counts);
}
static void MADE(void *p)
{
    finish(p, "+-");
}
static void RESIZED(void *p)
{
    finish(p, "+~-");
}
static void FREED(void)
{
    printf("%s +-\n", s_name);
}

#define DO_SIZE(f) MADE(good(AS(p1)(BYTES), BYTES, 8))
#define DO_NEW(f) DO_SIZE(f)
#define DO_NEW_ARRAY(f) DO_SIZE(f)
#define DO_SIZE_ZERO(f) MADE(zeroed(AS(p1)(BYTES), 0, BYTES, 8))
#define DO_PAGES(f) MADE(good(AS(p1)(BYTES), BYTES, PAGE))
#define DO_WHOLE_PAGES(f) MADE(good(AS(p1)(BYTES), PAGE, PAGE))
#define DO_COUNT(f) MADE(good(AS(p2)(10, BYTES), 10 * BYTES, 8))
#define DO_COUNT_ZERO(f) MADE(zeroed(AS(p2)(10, BYTES), 0, 10 * BYTES, 8))
#define DO_SIZE_ALIGN(f) MADE(good(AS(p2)(BYTES, ALIGN), BYTES, ALIGN))
#define DO_NEW_ALIGNED(f) DO_SIZE_ALIGN(f)
#define DO_NEW_ARRAY_ALIGNED(f) DO_SIZE_ALIGN(f)
#define DO_SIZE_ALIGN_ZERO(f) MADE(zeroed(AS(p2)(BYTES, ALIGN), 0, BYTES, ALIGN))
#define DO_ALIGN_SIZE(f) MADE(good(AS(p2)(ALIGN, 2 * ALIGN), 2 * ALIGN, ALIGN))
#define DO_COUNT_ALIGN_ZERO(f) MADE(zeroed(AS(p3)(10, BYTES, ALIGN), 0, 10 * BYTES, ALIGN))
#define DO_POSIX(f)                                                                                          \
    {                                                                                                        \
        void *p = NULL;                                                                                      \
        if (AS(posix)(&p, ALIGN, BYTES) != 0)                                                                \
            wrong("no memory");                                                                              \
        MADE(good(p, BYTES, ALIGN));                                                                         \
    }
#define DO_RESIZE(f) RESIZED(kept(AS(r2)(block(), MORE)))
#define DO_RESIZE_OR_FREE(f) DO_RESIZE(f)
#define DO_RESIZE_COUNT(f) RESIZED(kept(AS(r3)(block(), 50, BYTES)))
#define DO_RESIZE_ALIGN(f) RESIZED(good(kept(AS(r3)(block(), MORE, 16)), MORE, 16))
/* what is there is zeroed from the block's usable size on, which may be more than was asked for */
#define DO_RESIZE_ZERO(f) RESIZED(zeroed(kept(AS(r2)(block(), MORE)), 2 * BYTES, MORE, 8))
#define DO_RESIZE_COUNT_ZERO(f) RESIZED(zeroed(kept(AS(r3)(block(), 50, BYTES)), 2 * BYTES, MORE, 8))
#define DO_MALLOCX(f) MADE(zeroed(AS(mx)(BYTES, 6 | 0x40), 0, BYTES, ALIGN))
#define DO_RALLOCX(f) RESIZED(kept(AS(rx)(block(), MORE, 6)))
#define DO_XALLOCX(f)                                                                                        \
    {                                                                                                        \
        void *p = block();                                                                                   \
        if (AS(x4)(p, BYTES, 0, 0) < BYTES)                                                                  \
            wrong("too small");                                                                              \
        MADE(p);                                                                                             \
    }
#define DO_USABLE(f)                                                                                         \
    {                                                                                                        \
        void *p = block();                                                                                   \
        if (AS(u1)(p) < BYTES)                                                                               \
            wrong("too small");                                                                              \
        MADE(p);                                                                                             \
    }
#define DO_USABLE_2(f)                                                                                       \
    {                                                                                                        \
        void *p = block();                                                                                   \
        if (AS(ux)(p, 0) < BYTES)                                                                            \
            wrong("too small");                                                                              \
        MADE(p);                                                                                             \
    }
#define DO_NALLOCX(f)                                                                                        \
    if (AS(nx)(BYTES, 0) < BYTES)                                                                            \
        wrong("too small");                                                                                  \
    printf("%s \n", s_name);
#define DO_FREE(f) AS(f1)(block()), FREED()
#define DO_FREE_MALLOC(f) DO_FREE(f)
/* After the block are its size, if it is in the name, its alignment, and what stands for std::nothrow. */
#define DO_DELETE(f) delete_by(f, "_Znwm", "_ZnwmSt11align_val_t"), FREED()
#define DO_DELETE_ARRAY(f) delete_by(f, "_Znam", "_ZnamSt11align_val_t"), FREED()
static void delete_by(void *f, const char *maker, const char *aligned_maker)
{
    void *p = is_aligned() ? ((p2 *)dlsym(RTLD_DEFAULT, aligned_maker))(BYTES, ALIGN)
                           : ((p1 *)dlsym(RTLD_DEFAULT, maker))(BYTES);
    if (names_begin("_ZdlPvm") || names_begin("_ZdaPvm"))
        AS(f3)(good(p, BYTES, 8), BYTES, ALIGN);
    else
        AS(f3)(good(p, BYTES, 8), is_aligned() ? ALIGN : (size_t) "", (size_t) "");
}
#define DO_FREE_2(f)                                                                                         \
    if (strcmp(s_name, "dallocx") == 0)                                                                      \
        AS(fx)(block(), 0);                                                                                  \
    else                                                                                                     \
        AS(f2)(block(), strstr(s_name, "aligned") ? 8 : BYTES);                                              \
    FREED();
#define DO_FREE_3(f)                                                                                         \
    if (strcmp(s_name, "sdallocx") == 0)                                                                     \
        AS(sx)(block(), BYTES, 0);                                                                           \
    else                                                                                                     \
        AS(f3)(block(), BYTES, 8);                                                                           \
    FREED();

/* What the allocator makes by functions that are not in the list is still its own, to be freed by those that are. */
static void try_others(void)
{
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "mi_strdup");
    s_name = "mi_strdup";
    for (int i = 0; copy && i < 1000; i++) {
        char *p = copy("text");
        if (strcmp(p, "text") != 0)
            wrong("is no copy");
        s_free(p);
    }
}

static void try(const char *name, const char *family, const char *wanted, void (*call)(void *f))
{
    void *f = strcmp(family, wanted) == 0 ? dlsym(RTLD_DEFAULT, name) : NULL;
    s_name = name;
    if (f)
        call(f);
}

#define FUNCTION(class, name, SHAPE, family)                                                                 \
    static void do_##name(void *f)                                                                           \
    {                                                                                                        \
        DO_##SHAPE(f);                                                                                       \
    }
#define STANDARD(name, SHAPE) FUNCTION(0, name, SHAPE, standard)
#include "ljtrace/protocol/alloc_functions.def"

int main(int argc, char **argv)
{
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    s_free = argc > 2 ? (void (*)(void *))dlsym(RTLD_DEFAULT, argv[2]) : free;
    if (argc < 2 || !s_free)
        return 2;
#define FUNCTION(class, name, SHAPE, family) try(#name, #family, argv[1], do_##name);
#define STANDARD(name, SHAPE) FUNCTION(0, name, SHAPE, standard)
#include "ljtrace/protocol/alloc_functions.def"
    if (strcmp(argv[1], "mimalloc") == 0)
        try_others();
    return 0;
}
