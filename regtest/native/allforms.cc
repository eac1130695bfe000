// allforms.cc - every form in which a C or C++ program asks for heap memory, so that none is missed.
//
// The case compares the trace with DHAT's totals and asks that each `how` of the format is there. Sizes are
// all different. It leaks one block on purpose. It does not check what the functions return: libc's own tests
// do.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <memory>
#include <new>
#include <obstack.h>
#include <string>
#include <vector>

#define obstack_chunk_alloc std::malloc
#define obstack_chunk_free std::free

struct alignas(64) Wide {
    char bytes[192];
};

struct Named {
    std::string name = "a name that is too long for the small string buffer";
    virtual ~Named() = default;
};

// Keeps the compiler from removing pairs of new and delete.
template <class T> static T *seen(T *p)
{
    asm volatile("" : "+r"(p) : : "memory");
    return p;
}

static void with_new()
{
    delete seen(new int(1));
    delete[] seen(new short[33]);
    delete seen(new (std::nothrow) long(2));
    delete[] seen(new (std::nothrow) char[77]);
    delete seen(new Wide);
    delete[] seen(new Wide[3]);
    delete seen(new Named);
    delete[] seen(new Named[4]);
    alignas(Named) unsigned char room[sizeof(Named)];
    seen(new (room) Named)->~Named();
    ::operator delete (seen(::operator new(501)), std::size_t{501});
    constexpr std::align_val_t align{128};
    ::operator delete[](seen(::operator new[](709, align, std::nothrow)), align);
    ::operator delete (seen(::operator new(711, align)), std::size_t{711}, align);
    ::operator delete[](seen(::operator new[](713)), std::size_t{713});
}

static void with_c()
{
    free(seen(malloc(101)));
    free(seen(malloc(0)));
    free(seen(calloc(7, 15)));
    free(seen(memalign(64, 203)));
    free(seen(aligned_alloc(128, 384)));
    free(seen(valloc(305)));
    void *p = nullptr;
    if (posix_memalign(&p, 256, 407) == 0)
        free(seen(p));
    free(seen(strdup("a copy of this string")));
    free(seen(strndup("a copy of a part", 6)));
    free(seen(reallocarray(nullptr, 19, 29)));
    char *text = nullptr;
    if (asprintf(&text, "%0*d", 612, 7) == 612)
        free(seen(text));
    void *usable = seen(malloc(119));
    std::printf("usable %zu\n", malloc_usable_size(usable));
    std::memset(usable, 1, malloc_usable_size(usable));
    free(usable);
    free(nullptr);
}

static void with_realloc()
{
    void *p = seen(realloc(nullptr, 40));
    p = seen(realloc(p, 4000));
    p = seen(realloc(p, 400));
    p = seen(realloc(p, 400));
    free(p);
    p = seen(realloc(malloc(51), 0)); // frees, and gives null
    free(p);
}

// What libc allocates for its callers, and on top of malloc.
static void with_library()
{
    char text[] = "a line that is as long as it is\nanother\n", *line = nullptr, *written = nullptr;
    std::size_t room = 0, length = 0;
    std::FILE *in = fmemopen(text, sizeof text - 1, "r"), *out = open_memstream(&written, &length);
    while (in && out && getline(&line, &room, in) > 0)
        std::fputs(line, out);
    std::fclose(in);
    std::fclose(out);
    free(line);
    free(written);
    free(realpath("/", nullptr));
    struct obstack stack;
    obstack_init(&stack);
    for (int i = 0; i < 100; i++)
        obstack_alloc(&stack, 95);
    obstack_free(&stack, nullptr);
    void *p = seen(reallocarray(nullptr, 3, 41));
    free(seen(reallocarray(p, 300, 41)));
    free(seen(realloc(seen(malloc(3 << 20)), 9 << 20))); // which glibc would move by mremap
}

static void with_containers()
{
    std::vector<std::unique_ptr<Named>> v;
    for (int i = 0; i < 100; i++)
        v.push_back(std::make_unique<Named>());
    try {
        throw std::string("an exception is a heap block as well, with its text");
    } catch (const std::string &s) {
        std::printf("caught %zu characters\n", s.size());
    }
}

int main()
{
    with_new();
    with_c();
    with_realloc();
    with_library();
    with_containers();
    static void *leak = seen(malloc(999));
    return leak == nullptr;
}
