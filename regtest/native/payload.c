/* payload.c - Fibonacci numbers by recursion, for a script that computes them alternately in C and in Lua.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
/* Not optimised, so that each call has its frame. */
__attribute__((visibility("default"), optimize("O0"))) double c_payload(double n);

double c_payload(double n)
{
    return n <= 1 ? n : c_payload(n - 1) + c_payload(n - 2);
}
