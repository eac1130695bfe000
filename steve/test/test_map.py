"""steve map: its layers are the owners of `steve resident`, each cell has the colour of what is there, and nothing is cut.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import Steve
from steve.analysis import address_map
from steve.analysis.address_map import COLUMNS, LEAST_CELL, MOST_STRETCHES, NONE, TOP, AddressMap, Layer
from steve.analysis.live_at import LiveBlocks
from steve.analysis.owners import KINDS
from steve.plots.style import OWNER_COLORS, drawing
from steve.trace import page_runs
from steve.trace.page_runs import Ranges

Maker = Callable[..., Path]
PAGE = 4096
HEAP, OWN, STACK = 0x500000, 0x7F3000000000, 0x7F2000001000
LEGEND = 160  # pixels: above are title and legend
RUN = 2 << 20  # bytes that the program maps


def script(stacks: int = 1) -> str:
    """A heap with blocks of two sites, memory that the program mapped, and stacks of threads."""
    lines = [
        "info recorder native",
        "stack main@a.c:1 map@a.c:2 mmap",
        "stack main@a.c:1 keep@a.c:9",
        "stack main@a.c:3 hold@a.c:7",
    ]
    lines += [
        "time 1000000",
        f"N {HEAP} {3 * PAGE} 2",
        "time 3000000",
        f"N {HEAP + 4 * PAGE} 100 3",
        f"N {HEAP + 6 * PAGE} 30 3",
    ]
    lines += [
        "time 4000000",
        f"pages 4000000 end - 2 8388608 {2 + 2 * stacks} 1",
        f"mapping {HEAP} {8 * PAGE} 3 {8 * PAGE} [heap] 8:9",
    ]
    for i in range(stacks):
        at = STACK + (i << 24)
        lines += [f"mapping {at - PAGE} {PAGE} 0 0 - 1:0", f"mapping {at} {2048 * PAGE} 3 {2 * PAGE} - 2046:0 2:9"]
    lines += [f"mapping {OWN} {RUN} 3 {RUN} - {RUN // PAGE}:9", f"region {OWN} {RUN} 1"]
    return "\n".join([*lines, "end exit"]) + "\n"


def numbers(steve: Steve, *options: str) -> dict:
    done = steve("map", "t.ljt", "--json", *options)
    assert done.returncode == 0, done.err
    return json.loads(done.out)


def layers(found: dict) -> dict[str, int]:
    return {layer["title"]: layer["bytes"] for layer in found["layers"]}


def test_owners(steve: Steve, trace: Maker) -> None:
    trace(script())
    found = numbers(steve)
    rows = json.loads(steve("resident", "t.ljt", "--json").out)["rows"]
    assert {layer["key"]: layer["bytes"] for layer in found["layers"]} == {
        row["kind"]: row["bytes"] for row in rows if row["bytes"]
    }
    assert [(each["start"], each["resident"], each["name"]) for each in found["stretches"]] == [
        (hex(HEAP), 8 * PAGE, "heap"),
        (hex(STACK + 2046 * PAGE), 2 * PAGE, "stack of a thread"),
        (hex(OWN), RUN, "map (a.c:2)"),
    ]
    assert found["not_drawn"] == {"stretches": 0, "bytes": 0} and found["look"] == 1


@pytest.mark.parametrize(
    ("color", "expected"),
    (
        ("site", {"keep (a.c:9)": 3 * PAGE, "hold (a.c:7)": 130}),
        ("age", {"aged 1 ms to 10 ms": 3 * PAGE + 130}),
        ("size", {"of 16 B to 64 B": 30, "of 64 B to 256 B": 100, "of 4 KiB to 16 KiB": 3 * PAGE}),
    ),
)
def test_blocks(steve: Steve, trace: Maker, color: str, expected: dict[str, int]) -> None:
    trace(script())
    found = layers(numbers(steve, "--color", color))
    free = 8 * PAGE - 3 * PAGE - 130
    assert found == {**expected, "free in the allocators": free, "other resident memory": RUN + 2 * PAGE}


def test_picture(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """The colours of the cells of the heap, in the file."""
    import matplotlib.image

    trace(script())
    done = steve("map", "t.ljt", "--color", "site")
    assert done.returncode == 0 and "wrote t.ljt-map.png" in done.err
    image = matplotlib.image.imread(tmp_path / "t.ljt-map.png")[:, :, :3]
    cell = numbers(steve, "--color", "site")["cell"]
    top, left = 0, 0
    for name, color, first, last in (
        ("keep", "#0072b2", 0, 3 * PAGE),
        ("hold", "#e69f00", 4 * PAGE, 6 * PAGE + 30),
        ("free", "#dfd3b6", 3 * PAGE, 8 * PAGE),
    ):
        wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        rows, columns = np.nonzero((np.abs(image - wanted) < 0.01).all(axis=2))
        rows, columns = rows[rows > LEGEND], columns[rows > LEGEND]
        top, left = (int(rows.min()), int(columns.min())) if name == "keep" else (top, left)
        # a cell has 6 pixels; the first ones are below the border
        cells = (rows - top + 1) // 6 * COLUMNS + (columns - left + 1) // 6
        assert (int(cells.min()), int(cells.max())) == (first // cell, (last - 1) // cell), name
    for ending in ("svg", "pdf"):
        assert (
            steve("map", "t.ljt", "-o", f"map.{ending}").returncode == 0
            and (tmp_path / f"map.{ending}").stat().st_size > 1000
        )


def test_many_stretches(steve: Steve, trace: Maker) -> None:
    """The smallest are left out, with their number."""
    trace(script(MOST_STRETCHES + 8))
    found = numbers(steve)
    assert len(found["stretches"]) == MOST_STRETCHES
    assert found["not_drawn"] == {"stretches": 10, "bytes": 10 * 2 * PAGE}
    assert {each["name"] for each in found["stretches"]} >= {"heap", "map (a.c:2)"}
    assert steve("map", "t.ljt").returncode == 0


def test_without_looks(steve: Steve, trace: Maker) -> None:
    trace("stack main@a.c:1 keep@a.c:2\nN 4096 100 1\nN 8192 50 1\nF 8192\nend exit\n")
    found = numbers(steve)
    assert layers(found) == {"live blocks": 100} and found["look"] is None
    assert "Valgrind" in found["notes"][0] and "allocator" in found["notes"][1]
    for options, why in ((("--color", "age"), "needs a look"), (("--at", "loaded"), "has no look")):
        done = steve("map", "t.ljt", *options)
        assert done.returncode == 1 and why in done.err
    trace("stack main@a.c:1\nN 4096 100 1\nF 4096\nend exit\n")
    found = numbers(steve)
    assert found["layers"] == found["stretches"] == [] and found["notes"][0] == "There is nothing to draw."
    assert steve("map", "t.ljt").returncode == 0
    trace(script())
    for options, why in ((("--at", "9"), "no such look"), (("--format", "gif"), "gif")):
        done = steve("map", "t.ljt", *options)
        assert done.returncode == 2 and why in done.err
    assert steve("map", "-", stdin=b"x").returncode == 2


@pytest.mark.parametrize("seed", range(10))
def test_cells(seed: int) -> None:
    """Each cell is of the layer with most of its bytes; blocks that are drawn as such come first. Addresses near the end of the
    address space change nothing."""
    choose = random.Random(seed)
    at, addr, size = LEAST_CELL * choose.randrange(1000), [], []
    for _ in range(200):
        at += choose.choice((0, 3, 64, 900, 70000))
        addr.append(at)
        size.append(choose.choice((1, 20, 64, 5000)))
        at += size[-1]
    addr, size = [*addr, TOP + 5, (1 << 64) - 9], [*size, 100, 8]
    none = np.zeros(len(addr), "u4")
    live = LiveBlocks(np.array(addr, "u8"), np.array(size, "u8"), none, none, none.astype("u8"), {})
    blocks = address_map.classified(live, "size", 0, none, str)
    found = address_map.made(None, blocks, "size", str)
    assert found.omitted == 0 and found.omitted_bytes == 108
    assert sum(each.resident for each in found.stretches) == sum(size) - 108
    for each in found.stretches:
        assert each.start % found.cell == 0 and len(each.cells) == (each.end - each.start) // found.cell
        for i, layer in enumerate(each.cells.tolist()):
            low, high = each.start + i * found.cell, each.start + (i + 1) * found.cell
            here = [page_runs.clipped(some.ranges, low, high).bytes for some in found.layers]
            assert (layer == NONE and not any(here)) or here[layer] == max(here) > 0


def test_ranges() -> None:
    choose = random.Random(3)
    for _ in range(50):
        sets = [{choose.randrange(60) for _ in range(choose.randrange(40))} for _ in range(2)]
        some, others = (
            page_runs.union(np.array(sorted(s), "u8"), np.array([x + 1 for x in sorted(s)], "u8")) for s in sets
        )
        for found, expected in (
            (page_runs.intersection(some, others), sets[0] & sets[1]),
            (page_runs.difference(some, others), sets[0] - sets[1]),
        ):
            assert {x for a, b in zip(found.starts.tolist(), found.ends.tolist()) for x in range(a, b)} == expected
            assert (found.starts[1:] > found.ends[:-1]).all()


def test_nothing_is_cut_off() -> None:
    """All texts are within the picture and apart, also the longest of the legend and the names."""
    from steve.plots.address_map import Picture, notes_of

    cells = np.zeros(3 * COLUMNS, "u1")
    ranges = Ranges(np.array([0], "u8"), np.array([123456789], "u8"))
    all_layers = [Layer("block", i, f"{'a very long name of a site ' * 9}{i}", ranges) for i in range(10)]
    stretches = [
        address_map.Stretch(
            0x7FFF00000000 + (i << 30),
            0x7FFF00000000 + (i << 30) + 3 * COLUMNS * 64,
            1 << 45,
            1023 << 10,
            "W" * 200,
            cells,
        )
        for i in range(MOST_STRETCHES)
    ]
    found = AddressMap(64, True, all_layers, stretches, 3, 1 << 30)
    with drawing() as plt:
        picture = Picture(plt, found, "site", "t.ljt: 98 MiB", notes_of(found))
        renderer = picture.figure.canvas.get_renderer()
        boxes = [text.get_window_extent(renderer) for text in picture.axes.texts]
        width, height = picture.figure.get_size_inches() * picture.figure.dpi
        for box in boxes:
            assert 0 <= box.x0 and box.x1 <= width and 0 <= box.y0 and box.y1 <= height
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_colours_are_those_of_the_report() -> None:
    css = (Path(__file__).parents[1] / "report" / "page" / "explore.css").read_text()
    assert dict(re.findall(r"\.x-owner-(\w+) { fill: (#\w+); background: \2; }", css)) == OWNER_COLORS
    assert set(OWNER_COLORS) == set(KINDS)
