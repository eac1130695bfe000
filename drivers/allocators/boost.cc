// boost.cc - driver for the best fit of Boost.Interprocess (rbtree_best_fit), which consists of headers only.
//
// It works in the given buffer, without a lock, and keeps free blocks in a red-black tree by size. It does not report
// which part of the heap it uses, so `highest` is the end of the highest block since nothing was last live.
//
// SPDX-License-Identifier: GPL-2.0-or-later
#include "drivers/sdk/driver.h"

#include <boost/interprocess/indexes/flat_map_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <boost/version.hpp>
#include <new>

namespace
{
namespace ipc = boost::interprocess;
using algorithm = ipc::rbtree_best_fit<ipc::null_mutex_family, void *>;
using buffer = ipc::basic_managed_external_buffer<char, algorithm, ipc::flat_map_index>;

alignas(buffer) char s_room[sizeof(buffer)];
buffer *s_buffer;
char *s_base, *s_top;
size_t s_live;

bool drv_init(void *base, size_t size)
{
    s_base = s_top = static_cast<char *>(base);
    try {
        s_buffer = new (s_room) buffer(ipc::create_only, base, size);
    } catch (const ipc::interprocess_exception &) {
        return false;
    }
    return true;
}

size_t drv_usable(void *ref)
{
    return s_buffer->get_segment_manager()->size(ref);
}

void *drv_malloc(size_t size, uint32_t)
{
    void *p = s_buffer->allocate(size, std::nothrow);
    if (!p)
        return nullptr;
    char *end = static_cast<char *>(p) + drv_usable(p);
    s_top = end > s_top ? end : s_top;
    s_live++;
    return p;
}

void drv_free(void *ref, uint32_t)
{
    s_buffer->deallocate(ref);
    if (--s_live == 0)
        s_top = s_base;
}

void *drv_highest()
{
    return s_top;
}

const char *drv_package()
{
    return BOOST_LIB_VERSION;
}
} // namespace

extern "C" const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "boost",
    .description = "Boost.Interprocess rbtree_best_fit in a fixed buffer (Debian: libboost-dev)",
    .confinement = STEVE_IN_HEAP,
    .flags = 0,
    .least_heap = 4096,
    .package = drv_package,
    .unavailable = nullptr,
    .init = drv_init,
    .destroy = nullptr,
    .malloc = drv_malloc,
    .free = drv_free,
    .realloc = nullptr,
    .usable = drv_usable,
    .lock = nullptr,
    .unlock = nullptr,
    .where = nullptr,
    .compact = nullptr,
    .highest = drv_highest,
    .walk = nullptr,
    .header = nullptr,
};
