/* pool_functions.h - the functions of a pool, as --pool-fn names them, and those of known libraries.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * NAME:WHAT or NAME:WHAT:ARGUMENTS. WHAT is one of s_pool_whats. ARGUMENTS are words with a comma between: pool, block, size,
 * count (the size is that of one of so many), out (the function writes the pool to where this points), or _ for any other one;
 * at most four. A list has a semicolon after each.
 */
#ifndef LJTRACE_PROTOCOL_POOL_FUNCTIONS_H
#define LJTRACE_PROTOCOL_POOL_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum pool_what { POOL_MAKE, POOL_ALLOC, POOL_RESIZE, POOL_FREE, POOL_CLEAR, POOL_END, POOL_WHATS };
enum pool_argument { POOL_ARG_POOL, POOL_ARG_BLOCK, POOL_ARG_SIZE, POOL_ARG_COUNT, POOL_ARG_OUT, POOL_ARGS };
enum { POOL_ARGUMENTS = 4, POOL_NAME_MOST = 200, POOL_LIST_BYTES = 1024, POOL_FUNCTIONS_MOST = 32 };

struct pool_function {
    const char *name; /* not ended by a zero */
    uint32_t name_bytes;
    enum pool_what what;
    int8_t at[POOL_ARGS]; /* which argument, from 0; -1 = none is */
};

/* By enum pool_what: the word, the usual arguments, and those of which there must be one. */
static const struct {
    const char *word, *arguments, *needed;
} pool_whats[POOL_WHATS] = {{"make", "", ""},
                            {"alloc", "pool,size", "pool,size"},
                            {"resize", "pool,block,size", "pool,block,size"},
                            {"free", "pool,block", "block"},
                            {"clear", "pool", "pool"},
                            {"end", "pool", "pool"}};
static const char *const pool_argument_words[POOL_ARGS] = {"pool", "block", "size", "count", "out"};

/* Libraries whose functions are known. Blocks that others of their functions make are made by these. */
static const struct {
    const char *name, *functions;
} pool_libraries[] = {
    {"apr", "apr_pool_create_ex:make:out,_,_,_;apr_pool_create_unmanaged_ex:make:out,_,_;apr_palloc:alloc;"
            "apr_pool_clear:clear;apr_pool_destroy:end;"},
    {"nginx", "ngx_create_pool:make;ngx_palloc:alloc;ngx_pnalloc:alloc;ngx_pcalloc:alloc;ngx_pmemalign:alloc:"
              "pool,size,_;"
              "ngx_pfree:free;ngx_reset_pool:clear;ngx_destroy_pool:end;"},
};

static inline bool pool_word_is(const char *text, uint32_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* Does the list, which ends with a zero, have this argument? */
static inline bool pool_needs(const char *list, const char *word)
{
    const char *at = strstr(list, word);
    return at && (at == list || at[-1] == ',');
}

static inline bool pool_read_arguments(const char *text, uint32_t n, struct pool_function *f)
{
    memset(f->at, -1, sizeof f->at);
    for (uint32_t from = 0, number = 0; n && from <= n; number++) {
        uint32_t to = from, word = 0;
        while (to < n && text[to] != ',')
            to++;
        while (word < POOL_ARGS && !pool_word_is(text + from, to - from, pool_argument_words[word]))
            word++;
        if (number == POOL_ARGUMENTS || (word == POOL_ARGS && !pool_word_is(text + from, to - from, "_")) ||
            (word < POOL_ARGS && f->at[word] >= 0))
            return false;
        if (word < POOL_ARGS)
            f->at[word] = (int8_t)number;
        from = to + 1;
    }
    for (uint32_t word = 0; word < POOL_ARGS; word++)
        if (f->at[word] < 0 && pool_needs(pool_whats[f->what].needed, pool_argument_words[word]))
            return false;
    return true;
}

/* Read one function of n characters. Returns false if it is none. */
static inline bool pool_read(const char *text, uint32_t n, struct pool_function *f)
{
    const char *colon = (const char *)memchr(text, ':', n);
    if (!colon || colon == text || colon - text > POOL_NAME_MOST)
        return false;
    f->name = text;
    f->name_bytes = (uint32_t)(colon - text);
    const char *what = colon + 1, *end = text + n;
    const char *more = (const char *)memchr(what, ':', (size_t)(end - what));
    uint32_t i = 0;
    while (i < POOL_WHATS && !pool_word_is(what, (uint32_t)((more ? more : end) - what), pool_whats[i].word))
        i++;
    if (i == POOL_WHATS)
        return false;
    f->what = (enum pool_what)i;
    return more ? pool_read_arguments(more + 1, (uint32_t)(end - more - 1), f)
                : pool_read_arguments(pool_whats[i].arguments, (uint32_t)strlen(pool_whats[i].arguments), f);
}

/* Read the function at *list, which is moved after it. Returns false at the end of the list, or if it is none. */
static inline bool pool_next(const char **list, struct pool_function *f)
{
    const char *end = strchr(*list, ';');
    if (!end || !pool_read(*list, (uint32_t)(end - *list), f))
        return false;
    *list = end + 1;
    return true;
}

/* Is this a list of functions? */
static inline bool pool_list_is_valid(const char *list)
{
    struct pool_function f;
    uint32_t n = 0;
    if (!memchr(list, 0, POOL_LIST_BYTES))
        return false;
    while (*list && n <= POOL_FUNCTIONS_MOST && pool_next(&list, &f))
        n++;
    return !*list && n <= POOL_FUNCTIONS_MOST;
}

#endif
