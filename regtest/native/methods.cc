// methods.cc - functions of C++ to be watched: their names have parameters, of which some have parentheses.
//
// Single stores into a block of 80001 bytes tell where the program was.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>

static volatile char *s_block;

namespace shop
{
struct Till {
    __attribute__((noinline)) void put(int at) const
    {
        s_block[at] = 1;
        s_block[at + 1] = 1;
    }
    __attribute__((noinline)) void operator()(int at) const
    {
        s_block[at] = 2;
        s_block[at + 1] = 2;
    }
};

__attribute__((noinline)) void each(void (*f)(int))
{
    f(10);
    s_block[30] = 3;
}
} // namespace shop

static void put(int at)
{
    shop::Till().put(at);
}

int main()
{
    s_block = static_cast<volatile char *>(std::malloc(80001));
    s_block[1] = 1;
    shop::each(put);
    s_block[2] = 1;
    shop::Till()(20);
    s_block[3] = 1;
    return 0;
}
