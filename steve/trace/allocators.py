"""Allocators that programs use: how each is recognized, and what its user can do about memory that it keeps free.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace


OWN = "own_allocator"  # the fact that names an allocator that is linked into the program


class Allocator(NamedTuple):
    """objects: a regular expression that fits the beginning of the name of an object file, without folders. whole: what
    returns whole free pages to the system, with {} for how many bytes at most. call: the program's call that returns them now.
    advice: what the user can set, a sentence each. of_arenas, of_ends: more of it, if there are arenas of threads, and if
    memory is free at the ends of heaps. caveat: why `whole` returns less."""

    name: str
    objects: str
    whole: str
    call: str
    advice: tuple[str, ...]
    caveat: str = ""
    of_arenas: tuple[str, ...] = ()
    of_ends: tuple[str, ...] = ()

    def offers(self, arenas: bool, ends: bool) -> list[str]:
        """What the user can set, the most promising first. arenas: are there any of threads? ends: is memory free at the ends
        of heaps?"""
        return [*self.advice, *(self.of_arenas if arenas else ()), *(self.of_ends if ends else ())]


ALLOCATORS = (
    Allocator(
        "jemalloc",
        r"libjemalloc",
        "jemalloc returns them after some seconds if the program goes on to allocate or free",
        'mallctl("arena.4096.purge")',
        (
            "MALLOC_CONF=background_thread:true returns them in a program that is idle, too (jemalloc 5 and later); without it, "
            "free pages are returned only by later calls of the allocator",
            "MALLOC_CONF=dirty_decay_ms:N,muzzy_decay_ms:N is the time until free pages are returned; 0 is at once",
            'mallctl("arena.4096.purge") returns those of all arenas now (4096 is MALLCTL_ARENAS_ALL)',
            "MALLOC_CONF=narenas:N limits the number of arenas",
        ),
    ),
    Allocator(
        "tcmalloc",
        r"libtcmalloc",
        "MallocExtension_ReleaseFreeMemory() returns them",
        "MallocExtension_ReleaseFreeMemory()",
        (
            "MallocExtension_ReleaseFreeMemory() returns free pages now",
            "TCMALLOC_RELEASE_RATE=N, up to 10, returns them sooner (gperftools)",
            "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES limits the caches of threads (gperftools)",
        ),
    ),
    Allocator(
        "mimalloc",
        r"libmimalloc",
        "mi_collect(true) returns them",
        "mi_collect(true)",
        (
            "MIMALLOC_PURGE_DELAY=0 returns free pages at once (MIMALLOC_RESET_DELAY in version 1)",
            "mi_collect(true) returns those of the calling thread now",
        ),
    ),
    Allocator(
        "glibc",
        r"libc\.so\.6|libc-2\.",
        "malloc_trim(0) can return {}",
        "malloc_trim(0)",
        (
            "malloc_trim(0) returns whole free pages of all arenas now",
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072, if the program frees blocks from this size on, gives them "
            "mappings of their own, which free returns at once; without it the threshold rises up to 32 MiB",
        ),
        "malloc_trim(0) returns neither the top chunks of arenas of threads, nor pages with freed blocks in the caches of threads "
        "(tcache). Neither are known: of the free memory above an arena's last live block, all or nothing may be its top chunk, "
        "which is why two sizes are given; a cache has at most 7 blocks of each size up to 1,032 bytes.",
        of_arenas=(
            "GLIBC_TUNABLES=glibc.malloc.arena_max=N limits the number of arenas, which otherwise is 8 for each CPU: threads then "
            "use memory that others have freed, but their blocks also lie between each other's, so that more may stay: steve tune "
            "tries it. With 1, malloc_trim(0) returns the end of the only one, too",
        ),
        of_ends=("GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072 keeps the end of the heap shorter than this",),
    ),
)
LUAJIT = Allocator(
    "LuaJIT",
    r"libluajit",
    "LuaJIT unmaps a segment of which nothing is in use",
    "collectgarbage()",
    (
        "a full collection, collectgarbage() twice, frees what is garbage; LuaJIT then returns segments that are empty",
        'collectgarbage("setpause", N) with N below 200 lets the heap grow less between collections',
    ),
)


def allocator_in(path: str) -> Allocator | None:
    """The allocator of an object file, by the file's name; None if it has none."""
    return next((one for one in ALLOCATORS if re.match(one.objects, os.path.basename(path))), None)


def is_in_library(path: str) -> bool:
    """Is this object file a library of an allocator that takes the place of the C library's?"""
    found = allocator_in(path)
    return found is not None and found.name != "glibc"


def allocator_of(trace: Trace) -> Allocator | None:
    """The allocator of the program's C heap: the one within the executable, which the native recorder has recognized by its
    functions, else that of the first object file with one. A trace has them in the order in which the dynamic linker looks for
    malloc: a library of LD_PRELOAD comes before those that the program is linked with. None: it is not known."""
    own = trace.info().get(OWN)
    for allocator in ALLOCATORS:
        if allocator.name == own:
            return allocator
    return next(filter(None, (allocator_in(module.object) for module in trace.modules())), None)
