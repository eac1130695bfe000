// throws.cc - C++ exceptions through frames that hold heap objects, in the main thread and in others.
//
// What is thrown is itself a heap block, made by the C++ runtime. Prints sums that come out right only if
// every destructor ran. It does not run out of memory: refused.cc does.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Held {
    explicit Held(int &count) : alive(count), text(100, 'x')
    {
        alive++;
    }
    ~Held()
    {
        alive--;
    }
    int &alive;
    std::string text;
};

static int dive(int depth, int &alive)
{
    auto held = std::make_unique<Held>(alive);
    std::vector<int> numbers(depth + 1, depth);
    if (depth == 15)
        throw std::runtime_error("depth " + std::to_string(numbers.back()) + std::string(50, '!'));
    return dive(depth + 1, alive) + static_cast<int>(held->text.size());
}

static void rounds(int &caught, int &alive)
{
    for (int i = 0; i < 200; i++)
        try {
            dive(0, alive);
        } catch (const std::exception &e) {
            caught += std::string(e.what()).size() > 50;
        }
}

int main()
{
    int caught[4] = {}, alive[4] = {};
    std::vector<std::thread> threads;
    for (int i = 1; i < 4; i++)
        threads.emplace_back(rounds, std::ref(caught[i]), std::ref(alive[i]));
    rounds(caught[0], alive[0]);
    for (auto &t : threads)
        t.join();
    for (int i = 0; i < 4; i++)
        std::printf("caught %d, alive %d\n", caught[i], alive[i]);
    return 0;
}
