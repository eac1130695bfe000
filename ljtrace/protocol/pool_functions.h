/* pool_functions.h - the functions of a pool, as --pool-fn names them, and those of known libraries.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * NAME:WHAT or NAME:WHAT:ARGUMENTS. WHAT is one of pool_whats. ARGUMENTS are words with a comma between, one for each argument
 * of the function, six at most: those of pool_argument_words, or _ for any other one. Two more may follow that are no
 * arguments: pool=VARIABLE, the pool is what this variable of the program points to; and size=text, the block is a text,
 * whose size is that with its final zero. A function that a program need not have is written ?NAME. A list has a semicolon
 * after each.
 *
 * A block may itself be a pool: what is made in it ends with it.
 */
#ifndef LJTRACE_PROTOCOL_POOL_FUNCTIONS_H
#define LJTRACE_PROTOCOL_POOL_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum pool_what {
    POOL_MAKE,
    POOL_ALLOC,
    POOL_RESIZE,
    POOL_FREE,
    POOL_CLEAR, /* its blocks end, and the pools in it */
    POOL_END,
    POOL_MOVE, /* a block, or a pool, is in this pool from here on */
    POOL_NAME, /* a block, or a pool, has this name */
    POOL_WHATS
};
enum pool_argument {
    POOL_ARG_POOL,
    POOL_ARG_BLOCK,
    POOL_ARG_SIZE,
    POOL_ARG_COUNT,  /* the size is that of one of so many */
    POOL_ARG_OUT,    /* the function writes the pool to where this points */
    POOL_ARG_PARENT, /* the pool that is made is in this one */
    POOL_ARG_NAME,   /* a text: the name of what is made */
    POOL_ARGS
};
enum {
    POOL_ARGUMENTS = 6,
    POOL_NAME_MOST = 200, /* also of a variable */
    POOL_LIST_BYTES = 2048,
    POOL_FUNCTIONS_MOST = 64,
    POOL_TEXT_MOST = 80 /* characters of the name of a pool */
};

struct pool_function {
    const char *name; /* not ended by a zero */
    uint32_t name_bytes;
    bool is_optional; /* a program need not have it */
    enum pool_what what;
    int8_t at[POOL_ARGS]; /* which argument, from 0; -1 = none is */
    const char *variable; /* that points to the pool; not ended by a zero; NULL = none */
    uint32_t variable_bytes;
    bool is_text; /* the block is one, which says its size */
};

/* By enum pool_what: the word, the usual arguments, and those of which there must be one. Without `block`, what is
 * moved is what the function returns. */
static const struct {
    const char *word, *arguments, *needed;
} pool_whats[POOL_WHATS] = {{"make", "", ""},
                            {"alloc", "pool,size", "pool,size"},
                            {"resize", "pool,block,size", "block,size"},
                            {"free", "pool,block", "block"},
                            {"clear", "pool", "pool"},
                            {"end", "pool", "pool"},
                            {"move", "pool,block", "pool"},
                            {"name", "block,name", "block,name"}};
static const char *const pool_argument_words[POOL_ARGS] = {"pool", "block",  "size", "count",
                                                           "out",  "parent", "name"};

/* Libraries whose functions are known. Blocks that others of their functions make are made by these. */
static const struct {
    const char *name, *functions;
} pool_libraries[] = {
    {"apr",
     "apr_pool_create_ex:make:out,parent,_,_;apr_pool_create_unmanaged_ex:make:out,_,_;apr_palloc:alloc;"
     "apr_pool_clear:clear;apr_pool_destroy:end;"},
    {"nginx", "ngx_create_pool:make;ngx_palloc:alloc;ngx_pnalloc:alloc;ngx_pcalloc:alloc;ngx_pmemalign:alloc:"
              "pool,size,_;"
              "ngx_pfree:free;ngx_reset_pool:clear;ngx_destroy_pool:end;"},
    {"talloc",
     "_talloc:alloc;talloc_named_const:alloc:pool,size,name;_talloc_zero:alloc:pool,size,name;"
     "_talloc_array:alloc:pool,size,count,name;_talloc_zero_array:alloc:pool,size,count,name;"
     "_talloc_memdup:alloc:pool,_,size,name;_talloc_pooled_object:alloc:pool,size,name,_,_;talloc_pool:alloc;"
     "talloc_strdup:alloc:pool,_,size=text;talloc_strndup:alloc:pool,_,_,size=text;"
     "talloc_vasprintf:alloc:pool,_,_,size=text;"
     "_talloc_realloc:resize:pool,block,size,name;_talloc_realloc_array:resize:pool,block,size,count,name;"
     "talloc_strdup_append:resize:block,_,size=text;talloc_strdup_append_buffer:resize:block,_,size=text;"
     "talloc_strndup_append:resize:block,_,_,size=text;talloc_strndup_append_buffer:resize:block,_,_,size="
     "text;"
     "talloc_vasprintf_append:resize:block,_,_,size=text;"
     "talloc_vasprintf_append_buffer:resize:block,_,_,size=text;"
     "_talloc_free:free:block,_;talloc_unlink:free:_,block;talloc_free_children:clear;"
     "_talloc_steal_loc:move:pool,block,_;talloc_reparent:move:_,pool,block;talloc_set_name_const:name;"},
    {"postgres",
     "AllocSetContextCreateInternal:make:parent,name,_,_,_;GenerationContextCreate:make:parent,name,_,_,_;"
     "SlabContextCreate:make:parent,name,_,_;?BumpContextCreate:make:parent,name,_,_,_;"
     "MemoryContextAlloc:alloc;MemoryContextAllocZero:alloc;?MemoryContextAllocZeroAligned:alloc;"
     "MemoryContextAllocExtended:alloc:pool,size,_;MemoryContextAllocHuge:alloc;"
     "palloc:alloc:size,pool=CurrentMemoryContext;palloc0:alloc:size,pool=CurrentMemoryContext;"
     "palloc_extended:alloc:size,_,pool=CurrentMemoryContext;"
     "repalloc:resize:block,size;repalloc_huge:resize:block,size;?repalloc_extended:resize:block,size,_;"
     "pfree:free:block;MemoryContextReset:clear;MemoryContextResetOnly:clear;MemoryContextDelete:end;"
     "MemoryContextSetParent:move:block,pool;"},
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

/* One word of ARGUMENTS. number: of the next argument, which is counted. */
static inline bool pool_read_word(const char *text, uint32_t n, uint32_t *number, struct pool_function *f)
{
    uint32_t word = 0;
    if (n > 5 && memcmp(text, "pool=", 5) == 0) {
        const bool again = f->variable || n - 5 > POOL_NAME_MOST;
        f->variable = text + 5;
        f->variable_bytes = n - 5;
        return !again;
    }
    if (pool_word_is(text, n, "size=text")) {
        const bool again = f->is_text;
        f->is_text = true;
        return !again;
    }
    while (word < POOL_ARGS && !pool_word_is(text, n, pool_argument_words[word]))
        word++;
    if (*number == POOL_ARGUMENTS || (word == POOL_ARGS ? !pool_word_is(text, n, "_") : f->at[word] >= 0))
        return false;
    if (word < POOL_ARGS)
        f->at[word] = (int8_t)*number;
    ++*number;
    return true;
}

static inline bool pool_read_arguments(const char *text, uint32_t n, struct pool_function *f)
{
    for (uint32_t from = 0, number = 0; n && from <= n;) {
        uint32_t to = from;
        while (to < n && text[to] != ',')
            to++;
        if (!pool_read_word(text + from, to - from, &number, f))
            return false;
        from = to + 1;
    }
    const bool has[] = {f->variable, false, f->is_text};
    for (uint32_t word = 0; word < POOL_ARGS; word++) {
        const bool other = word <= POOL_ARG_SIZE && has[word];
        if (other ? f->at[word] >= 0
                  : f->at[word] < 0 && pool_needs(pool_whats[f->what].needed, pool_argument_words[word]))
            return false;
    }
    return true;
}

/* Read one function of n characters. Returns false if it is none. */
static inline bool pool_read(const char *text, uint32_t n, struct pool_function *f)
{
    const char *end = text + n, *name = text + (n && *text == '?');
    const char *colon = (const char *)memchr(name, ':', (size_t)(end - name));
    if (!colon || colon == name || colon - name > POOL_NAME_MOST)
        return false;
    memset(f, 0, sizeof *f);
    memset(f->at, -1, sizeof f->at);
    f->name = name;
    f->name_bytes = (uint32_t)(colon - name);
    f->is_optional = name != text;
    const char *what = colon + 1;
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
