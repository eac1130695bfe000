/* unwind_library.c - a library with one function, which calls back; FRAME is the size of its frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
void unwind_call(void (*f)(void));

void unwind_call(void (*f)(void))
{
    volatile char block[FRAME];
    block[0] = 1;
    f();
    block[FRAME - 1] = block[0];
}
