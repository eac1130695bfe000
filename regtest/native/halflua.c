/* halflua.c - a program that has some of LuaJIT's functions, but not all, as a linker may leave them.
 *
 * Nothing is run by them; what the recorder makes of it is to be seen.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stddef.h>

void *luaL_newstate(void);
int luaJIT_setmode(void *L, int index, int mode);

/* Known to the recorder by its name. */
__attribute__((noinline)) void *luaL_newstate(void)
{
    static long state[100];
    return state;
}

__attribute__((noinline)) int luaJIT_setmode(void *L, int index, int mode)
{
    return L != NULL && index == 0 && mode;
}

int main(void)
{
    return luaJIT_setmode(luaL_newstate(), 0, 0);
}
