"""How many bytes an allocator takes for each of its live blocks: with its headers, and rounded to its sizes.

Three allocators are known. glibc's malloc has 8 bytes before a block, of which it rounds the sum to 16, to 32 at least; a block
with a mapping of its own, which begins 16 bytes into a page, has this mapping. LuaJIT's allocator is of the same family and
rounds to 8. jemalloc and mimalloc have no headers and round to classes of sizes, four of them between two powers of two, 16
bytes apart or more. A part of memory that is not asked for and that no other block can have is *overhead* of a block.

What the allocator did is not recorded: a block of glibc may also have up to 16 bytes more, which were too few for a block of
their own, and an aligned block of jemalloc a larger class.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEAST_CHUNK, HEADER = 32, 8  # bytes, of glibc and of LuaJIT
LEAST_MAPPED = 128 << 10  # bytes from which on glibc and LuaJIT give a block a mapping of its own
IN_PAGE = 16  # where such a block begins in its first page
LEAST_CLASS, QUANTUM = 8, 16  # bytes, of jemalloc and mimalloc
ROUNDING = {"glibc": 16, "LuaJIT": 8}  # bytes
CLASSES = ("jemalloc", "mimalloc")


def is_known(allocator: str) -> bool:
    """Is it known how this allocator (allocators.ALLOCATORS, or LuaJIT) rounds?"""
    return allocator in ROUNDING or allocator in CLASSES


def with_overhead(allocator: str, addr: np.ndarray, size: np.ndarray, page: int) -> tuple[np.ndarray, np.ndarray]:
    """Where what an allocator takes for blocks begins and ends, as arrays of addresses. addr, size: of the blocks, u8; page:
    bytes. The allocator is a known one."""
    import numpy as np

    if allocator in CLASSES:
        return addr, addr + size_class(size)
    step = np.uint64(ROUNDING[allocator])
    header = np.minimum(addr, np.uint64(HEADER))
    chunk = np.maximum(rounded_up(size + np.uint64(HEADER), step), np.uint64(LEAST_CHUNK))
    starts, ends = addr - header, addr - header + chunk
    one = np.uint64(page)
    is_mapped = (size >= LEAST_MAPPED) & (addr % one == IN_PAGE)
    mapped = rounded_up(addr + size, one)
    return np.where(is_mapped, addr - np.minimum(addr, np.uint64(IN_PAGE)), starts), np.where(is_mapped, mapped, ends)


def size_class(size: np.ndarray) -> np.ndarray:
    """The class of sizes of jemalloc, and of mimalloc, for blocks of so many bytes."""
    import numpy as np

    asked = np.maximum(size, np.uint64(1))
    doubling = np.ceil(np.log2(asked.astype("f8"))).astype("i8")
    step = np.uint64(1) << np.maximum(doubling - 3, QUANTUM.bit_length() - 1).astype("u8")
    return np.where(asked <= LEAST_CLASS, np.uint64(LEAST_CLASS), rounded_up(asked, step))


def rounded_up(values: np.ndarray, steps: np.ndarray | np.uint64) -> np.ndarray:
    """Each value, or the next larger multiple of its step, a power of two."""
    import numpy as np

    less = steps - np.uint64(1)
    return (values + less) & ~less
