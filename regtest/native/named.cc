// named.cc - allocations of containers, lambdas, constructors, exceptions and templates, whose numbers by function are
// known; see test_names.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
#define APART __attribute__((noinline))

template <typename T> inline void keep(T *p)
{
    asm volatile("" : : "r"(p) : "memory");
}

namespace shop
{
using ledger =
    std::map<std::string, std::vector<std::map<std::string, std::vector<std::pair<std::string, long>>>>>;

struct refused {
    char reason[72];
};

class account
{
  public:
    account(int n) : rows(new long[n])
    {
        keep(rows);
    }
    ~account()
    {
        delete[] rows;
    }

  private:
    long *rows;
};

struct tree {
    std::unique_ptr<tree> left, right;
};

APART void vectors()
{
    for (int i = 0; i < 10; i++) {
        std::vector<int> v;
        v.reserve(100);
        keep(v.data());
    }
}

APART void strings()
{
    for (int i = 0; i < 20; i++) {
        std::string s(100, 'x');
        keep(s.data());
    }
}

APART void maps()
{
    std::map<int, int> m;
    for (int i = 0; i < 30; i++)
        m[i] = i;
    keep(&m);
}

APART void hashes()
{
    std::unordered_map<long, long> m(100);
    for (int i = 0; i < 15; i++)
        m[i] = i;
    keep(&m);
}

template <typename T> APART void fill(std::vector<T> &v, int n)
{
    for (int i = 0; i < n; i++)
        v.push_back(T());
}

APART void accounts()
{
    for (int i = 0; i < 9; i++) {
        account a(8);
        keep(&a);
    }
}

static int refuse(int n)
{
    if (n >= 0)
        throw refused();
    return n;
}

APART void exceptions()
{
    for (int i = 0; i < 6; i++)
        try {
            refuse(i);
        } catch (const refused &r) {
            keep(&r);
        }
}

APART std::unique_ptr<tree> grow(int depth)
{
    auto t = std::make_unique<tree>();
    if (depth) {
        t->left = grow(depth - 1);
        t->right = grow(depth - 1);
    }
    return t;
}

APART void closures()
{
    auto make = [](int n) {
        char *p = new char[n];
        keep(p);
        return std::unique_ptr<char[]>(p);
    };
    for (int i = 0; i < 7; i++)
        make(25);
    struct big {
        long a[10];
    } captured = {};
    std::function<long()> f = [captured] { return captured.a[0]; };
    keep(&f);
}

namespace
{
inline char *innermost(int n)
{
    return new char[n];
}
inline char *inner(int n)
{
    char *p = innermost(n);
    keep(p);
    return p;
}
} // namespace

APART void inlined()
{
    for (int i = 0; i < 11; i++)
        delete[] inner(33);
    for (int i = 0; i < 12; i++)
        delete[] inner(44);
}
} // namespace shop

int main()
{
    shop::vectors();
    shop::strings();
    shop::maps();
    shop::hashes();
    std::vector<shop::ledger> ledgers;
    shop::fill(ledgers, 5);
    keep(ledgers.data());
    shop::accounts();
    shop::exceptions();
    keep(shop::grow(4).get());
    shop::closures();
    shop::inlined();
    return 0;
}
