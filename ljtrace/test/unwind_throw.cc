/* unwind_throw.cc - exceptions, for test_unwind.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/test/unwind_cases.h"
#include <stdexcept>
#include <string>

namespace
{

struct Guard {
    ~Guard()
    {
        unwind_compare();
    }
};

__attribute__((noinline)) void raise(int depth)
{
    Guard guard;
    if (depth == 0) {
        unwind_compare();
        throw std::runtime_error("a text that is too long for the string itself " + std::to_string(depth));
    }
    raise(depth - 1);
}

} // namespace

void unwind_exceptions(void)
{
    for (int depth = 0; depth < 10; depth++) {
        try {
            raise(depth);
        } catch (const std::exception &e) {
            unwind_compare();
        }
    }
}
