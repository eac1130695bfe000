// refused.cc - operator new without memory: new handlers are called, std::bad_alloc is thrown and caught.
//
// Sizes are asked for that no machine has. The program's own operator new with an alignment makes room for
// them after all, from malloc's heap; the block is then new's, and its delete no error. It uses up no memory.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

static const volatile std::size_t HUGE_SIZE = std::size_t{1} << 60;

void *operator new(std::size_t size, std::align_val_t align)
{
    void *p = std::aligned_alloc(std::size_t(align), size < HUGE_SIZE ? size : 4321);
    if (!p)
        throw std::bad_alloc();
    return p;
}

struct Other : std::bad_alloc {
};

static int s_called;

static void give_up_at_third()
{
    if (++s_called == 3)
        std::set_new_handler(nullptr);
}

static void throw_other()
{
    throw Other();
}

static const char *outcome(const std::function<void *()> &ask)
{
    std::string held(100, 'x'); // its destructor runs while the exception passes
    try {
        return ask() ? "memory" : "null";
    } catch (const Other &) {
        return "other";
    } catch (const std::bad_alloc &) {
        return "bad_alloc";
    }
}

static void plain_forms()
{
    std::printf("new %s\n", outcome([] { return ::operator new(HUGE_SIZE); }));
    std::printf("new[] %s\n", outcome([] { return ::operator new[](HUGE_SIZE); }));
    std::printf("nothrow %s\n", outcome([] { return ::operator new(HUGE_SIZE, std::nothrow); }));
    std::printf("vector %s\n", outcome([]() -> void * {
                    std::vector<char> v;
                    v.reserve(HUGE_SIZE);
                    return v.data();
                }));
    std::printf("ptrdiff %s\n", outcome([] { return ::operator new (~std::size_t{0} / 2); }));
}

static void handlers()
{
    std::set_new_handler(give_up_at_third);
    std::printf("handler %s, called", outcome([] { return ::operator new(HUGE_SIZE); }));
    std::printf(" %d\n", s_called);
    std::set_new_handler(throw_other);
    std::printf("throwing handler %s\n", outcome([] { return ::operator new[](HUGE_SIZE); }));
    std::set_new_handler(nullptr);
}

static void room_after_all()
{
    constexpr std::align_val_t align{128};
    ::operator delete(::operator new(HUGE_SIZE, align), align);
    std::puts("room made");
}

int main()
{
    plain_forms();
    handlers();
    room_after_all();
    std::thread(plain_forms).join();
    return 0;
}
