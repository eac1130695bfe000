/* inside.c - a Lua state's allocator that makes accesses of its own to blocks of C; those must not be in the
 * trace.
 *
 * The program asks a Lua state for memory, COUNT times, and after each call makes a known store to a block
 * that the allocator touches as well. The modes differ in what else comes while the allocator runs:
 *
 *     inside own        nothing: the state has LuaJIT's own allocator
 *     inside plain      only its own accesses
 *     inside mark       a mark in the trace
 *     inside slab       as many accesses as fill the memory in which the recorder passes them on
 *     inside thread     another thread, with a state like this one and a store of its own
 *     inside jump       it is left by a long jump; the call after that one returns
 *
 * Marks `begin` and `end` enclose calls that do the same in every run: nothing is collected or hashed between
 * them. Output: as in expected.h, and before it `marks N`: so many `inside` were made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "expected.h"
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "../../ljtrace/ljtrace.h"

enum { COUNT = 400, OWN_STORES = 20, SLAB_STORES = 60000, SLAB_EVERY = 150, EVERY = 7 };

static enum { OWN, PLAIN, MARK, SLAB, THREAD, JUMP, MODES } s_mode;
static const char *const s_modes[MODES] = {"own", "plain", "mark", "slab", "thread", "jump"};
static int s_calls, s_marks, s_running; /* running: the known part, between the marks */
static jmp_buf s_out;
static sem_t s_asked, s_answered;

static void fail(const char *what)
{
    fprintf(stderr, "inside: %s\n", what);
    exit(1);
}

static void store(int block, size_t at)
{
    *(volatile char *)(s_block[block] + at) = 1;
    expect('S', block, at, 1);
}

static void store_unseen(int n)
{
    for (int i = 0; i < n; i++) {
        *(volatile char *)(s_block[0] + i) = 2;
        *(volatile char *)(s_block[1] + i) = 3;
    }
}

static void let_other_run(void)
{
    sem_post(&s_asked);
    sem_wait(&s_answered);
}

static void interrupt(void)
{
    if (s_mode == MARK && s_calls % EVERY == 0) {
        LJTRACE_MARK("inside");
        s_marks++;
    }
    if (s_mode == SLAB && s_calls % SLAB_EVERY == 0)
        store_unseen(SLAB_STORES);
    if (s_mode == THREAD && s_calls % EVERY == 0)
        let_other_run();
    if (s_mode == JUMP && s_calls % EVERY == 0)
        longjmp(s_out, 1);
}

/* ud: NULL = of the state that is interrupted. */
static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)osize;
    store_unseen(OWN_STORES);
    if (!ud && s_running && ++s_calls)
        interrupt();
    void *result = nsize ? realloc(ptr, nsize) : (free(ptr), NULL);
    store_unseen(OWN_STORES);
    return result;
}

static lua_State *new_state(void *ud)
{
    lua_State *L = s_mode == OWN ? luaL_newstate() : lua_newstate(allocate, ud);
    if (!L)
        fail("no state");
    lua_gc(L, LUA_GCSTOP, 0);
    return L;
}

static void ask(lua_State *L, int i)
{
    lua_newuserdata(L, 100 + (size_t)i % 50);
    lua_settop(L, 0);
    lua_checkstack(L, 20 + i);
}

static void *other(void *unused)
{
    static int ud;
    lua_State *L = new_state(&ud);
    for (int i = 0;; i++) {
        sem_wait(&s_asked);
        if (!s_running)
            break;
        ask(L, i);
        store(2, (size_t)i);
        sem_post(&s_answered);
    }
    lua_close(L);
    return unused;
}

static void run(lua_State *L)
{
    LJTRACE_MARK("begin");
    s_running = 1;
    for (volatile int i = 0; i < COUNT; i = i + 1) {
        if (setjmp(s_out))
            continue;
        ask(L, i);
        store(0, (size_t)i);
    }
    s_running = 0;
    LJTRACE_MARK("end");
}

static void run_with_other(lua_State *L)
{
    pthread_t thread;
    sem_init(&s_asked, 0, 0);
    sem_init(&s_answered, 0, 0);
    if (pthread_create(&thread, NULL, other, NULL))
        fail("no thread");
    run(L);
    sem_post(&s_asked);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    while (s_mode < MODES && (argc < 2 || strcmp(argv[1], s_modes[s_mode])))
        s_mode++;
    if (s_mode == MODES)
        fail("own, plain, mark, slab, thread or jump?");
    for (int i = 0; i < BLOCKS; i++)
        s_block[i] = malloc(s_size[i]);
    lua_State *L = new_state(NULL);
    if (s_mode == THREAD)
        run_with_other(L);
    else
        run(L);
    lua_gc(L, LUA_GCCOLLECT, 0);
    store(1, 5);
    lua_close(L);
    printf("marks %d\n", s_marks);
    report();
    return 0;
}
