"""What allocators take for a block: compared with the allocators themselves, and in steve resident.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import Steve
from steve.analysis import chunks_of_blocks
from test_resident import ALONE, HEAP, IN_ARENA, PAGE, RW, Maker, by_kind, found, pages

LIBRARIES = {"glibc": "", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2.0"}
SIZES = [*range(3000), *range(3000, 130_000, 997), 4096, 8192, 16384, 65536]
LARGE = (200_000, 1_000_000, 5_000_000)  # glibc gives them mappings of their own
ASK = """
import ctypes, sys
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.malloc_usable_size.restype, c.malloc_usable_size.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
for size in map(int, sys.stdin.read().split()):
    block = c.malloc(size)
    print(block, size, c.malloc_usable_size(block))
"""
SCRIPT = f"""\
info recorder native
stack main small
stack main other
stack =[arena]
N {HEAP + 2 * PAGE + 16} 4 1
N {HEAP + 2 * PAGE + 48} 100 2
N {IN_ARENA + 4 * PAGE} 100 1
pages 50 end - 1 0 2 1
mapping {HEAP} {pages(4)} {RW} {pages(4)} [heap] 4:{ALONE}
mapping {IN_ARENA} {pages(8)} {RW} {pages(8)} - 8:{ALONE}
region {IN_ARENA} {pages(8)} 3
end exit
"""


@pytest.mark.parametrize("allocator", LIBRARIES)
def test_the_rules_are_those_of_the_allocators(allocator: str) -> None:
    """Of blocks that nothing was freed before, so that none has more than it needs."""
    sizes = [*SIZES, *(LARGE if allocator == "glibc" else ())]
    env = {**os.environ, "LD_PRELOAD": LIBRARIES[allocator]}
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        input=" ".join(map(str, sizes)),
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    if "cannot be preloaded" in asked.stderr:
        pytest.skip(f"{LIBRARIES[allocator]} is not installed")
    addr, size, usable = np.array([line.split() for line in asked.stdout.splitlines()]).astype("u8").T
    starts, ends = chunks_of_blocks.with_overhead(allocator, addr, size, PAGE)
    if allocator != "glibc":
        assert (starts == addr).all() and (ends == addr + usable).all()
        return
    is_mapped = size >= min(LARGE)
    assert (starts == addr - np.where(is_mapped, 16, 8).astype("u8")).all()
    exact = ends == addr + usable
    assert exact[is_mapped].all()
    assert exact.mean() > 0.95 and ((addr + usable - ends)[~exact] == 16).all()  # too little for a block of its own


def test_overhead_is_not_free(steve: Steve, trace: Maker) -> None:
    """4 bytes take 32 of glibc, and 100 bytes take 112."""
    trace(SCRIPT.replace("stack =[arena]", "stack =[arena]\nmodule 0x400000 4096 /lib/libc.so.6"))
    kinds = by_kind(found(steve))
    assert (kinds["live"], kinds["overhead"]) == (204, 28 + 12 + 12)
    assert sum(kinds.values()) == pages(12)
    rows = {row["site"].split()[0]: row for row in found(steve, "--by", "site")["rows"]}
    assert (rows["small"]["overhead"], rows["other"]["overhead"]) == (28 + 12, 12)
    # what is free of a page is divided in proportion to what the blocks take of it; a header alone keeps its page
    beside = {"small": (PAGE - 144) * 32 / 144 + (PAGE - 104) + (PAGE - 8), "other": (PAGE - 144) * 112 / 144}
    assert {name: row["pinned"] for name, row in rows.items()} == {name: round(size) for name, size in beside.items()}
    assert "headers and rounding of live blocks: 17 bytes a block (--by site)" in steve("resident", "t.ljt").out


def test_overhead_of_other_allocators_is_not_known(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT.replace("stack =[arena]", "stack =[arena]\nmodule 0x400000 4096 /lib/libtcmalloc.so.4"))
    rows = {row["kind"]: row for row in found(steve)["rows"]}
    assert "overhead" not in rows
    assert "with headers and rounding of live blocks, which are not known of this allocator" in rows["free"]["detail"]


def test_the_map_has_a_place_for_overhead(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT.replace("stack =[arena]", "stack =[arena]\nmodule 0x400000 4096 /lib/libc.so.6"))
    for color in ("owner", "site"):
        drawn = json.loads(steve("map", "t.ljt", "--json", "--color", color).out)["layers"]
        assert {one["title"]: one["bytes"] for one in drawn}["headers and rounding of live blocks"] == 52
    assert steve("map", "t.ljt", "-o", "map.png", "--color", "site").returncode == 0
