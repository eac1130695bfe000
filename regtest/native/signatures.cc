// signatures.cc - functions whose parameters have types of all kinds; see test_names. They are inlined, so the program has
// no mangled names of them; with APART it has.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
#ifdef APART
#define IN __attribute__((noinline))
#else
#define IN static inline __attribute__((always_inline))
#endif
static void *volatile keep;
IN void takes_function(int (*f)(long, char))
{
    keep = malloc(f(1, 2) + 100);
}
IN void takes_array(int (&a)[3])
{
    keep = malloc(a[0] + 200);
}
IN void takes_constants(const char (&a)[6])
{
    keep = malloc(a[0] + 300);
}
IN void takes_table(int (*a)[3][4])
{
    keep = malloc(a[0][0][0] + 400);
}
IN void takes_volatile(volatile int *p)
{
    keep = malloc(*p + 500);
}
template <typename... T> IN void takes_pack(T... t)
{
    keep = malloc(sizeof...(t) + 600);
}
struct S {
    int a;
    int f(long) const;
    int g();
};
IN void takes_member(int S::*m, S *s)
{
    keep = malloc(s->*m + 700);
}
IN void takes_method(int (S::*m)(), S *s)
{
    keep = malloc((s->*m)() + 800);
}
IN void takes_constant_method(int (S::*m)(long) const, S *s)
{
    keep = malloc((s->*m)(3) + 900);
}
IN void takes_rvalue(S &&s)
{
    keep = malloc(s.a + 1000);
}
IN void takes_void(void (*f)())
{
    f();
    keep = malloc(1100);
}
IN void takes_pointers(const char *const *p)
{
    keep = malloc(p ? 1200 : 1);
}
IN void takes_vectors(std::vector<unsigned long> &v, std::map<long, std::vector<short>> &m)
{
    keep = malloc(v.size() + m.size() + 1300);
}
IN void takes_text(const std::string &s)
{
    keep = malloc(s.size() + 1400);
}
template <int N> IN void takes_number()
{
    keep = malloc(N + 1500);
}
static __attribute__((noinline)) int some(long a, char b)
{
    return a + b;
}
static void none()
{
    asm volatile("");
}
int S::f(long n) const
{
    return n;
}
int S::g()
{
    return a;
}
int main(int argc, char **argv)
{
    int a[3] = {argc}, t[3][4] = {{argc}};
    S s = {argc};
    std::vector<unsigned long> v;
    std::map<long, std::vector<short>> m;
    std::string x;
    takes_function(some);
    takes_array(a);
    takes_constants("hello");
    takes_table(&t);
    takes_volatile(&argc);
    takes_pack(1, 2L, 'c', 3ul);
    takes_member(&S::a, &s);
    takes_method(&S::g, &s);
    takes_constant_method(&S::f, &s);
    takes_rvalue(static_cast<S &&>(s));
    takes_void(none);
    takes_pointers(argv);
    takes_vectors(v, m);
    takes_text(x);
    takes_number<7>();
    return 0;
}
