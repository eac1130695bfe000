"""steve leaks of Lua: what the last snapshot reaches of the blocks that live at the end, what is garbage, what was made later.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from steve.analysis.lost import is_leak
from steve.analysis.reachable import Survivors
from steve.kernels._lives import LIFE
from steve.trace._memtrace import TYPE_NAMES

LEFT = """\
stack main make@a.lua:1
stack main waste@a.lua:2
stack main keep@a.lua:3
heap 0x77 lua
N 0x4000 400 1 1
N 0x5000 60 1 1
N 0x100000 40 3 1
N 0x6000 30 2 1
N 0x7000 10 2 1
N 0x9000 64 2
S 0x4000 8
snapshot early 1 500 0
object thread@0x4000 400 - root
object tab@0x5000 100
object str@0x6000 30
object str@0x7000 10
link 0 1 array 1
link 1 2 value other weak
endsnapshot
mark middle
F 0x7000
N 0x7000 20 2 1
R 0x5000 0x5000 61 1 1
mark later
snapshot late 1 500 0
object thread@0x4000 400 - root
object tab@0x5000 100
object str@0x6000 30
object str@0x7000 20
link 0 3 array 1
endsnapshot
end exit
"""


def leaks(steve: Any, *arguments: object) -> dict:
    rows = json.loads(steve("leaks", "--json", *arguments).out)
    return {row["site"].split(" ")[0]: (row["bytes"], row["reachable"], row["unreachable"]) for row in rows}


def test_leaks_are_told_apart(steve: Any, trace: Callable) -> None:
    """Objects include their parts and count for the sites that made them. Objects with weak references only are
    garbage."""
    path = trace(LEFT)
    assert leaks(steve, path) == {"make": (461, 400, 100), "keep": (40, 0, 0), "waste": (114, 20, 30)}
    assert leaks(steve, path, "--to", "middle") == {"make": (460, 500, 0), "keep": (40, 0, 0), "waste": (104, 0, 40)}
    assert leaks(steve, path, "--from", "middle") == {"waste": (20, 20, 0)}
    assert leaks(steve, path, "--where", "size = 61") == {"make": (61, 0, 100)}
    title = "objects of Lua with their parts: 420 bytes reachable, 130 garbage in the snapshot 'late'; a part can be a block of"
    assert title in steve("leaks", path).out
    assert title in steve("leaks", "-", stdin=path.read_bytes()).out


PARTS = """\
stack main make@a.lua:1
stack main fill@a.lua:2
heap 0x77 lua
N 0x5000 40 1 1
N 0x6000 60 2 1
snapshot s 1 500 0
object tab@0x5000 100
endsnapshot
end exit
"""


def test_garbage_counts_an_object_with_its_parts(steve: Any, trace: Callable) -> None:
    """An array is a block of the site that filled the table, and part of the object of the site that made it. The
    heading and the help say what counts."""
    path = trace(PARTS)
    assert leaks(steve, path) == {"make": (40, 0, 100), "fill": (60, 0, 0)}
    assert "objects of Lua with their parts: 0 bytes reachable, 100 garbage" in steve("leaks", path).out
    assert "these two columns can exceed `bytes`" in " ".join(steve("leaks", "--help").out.split())


def test_leaks_keeps_little_of_a_survivor() -> None:
    """With a million live blocks, complete lives would need a quarter of a gigabyte."""
    lives = np.zeros(1000, LIFE)
    lives["freed"][::2] = 1
    survivors = Survivors()
    survivors.add(lives, None)
    assert sum(kept.nbytes for kept in survivors.partial(0)) == 500 * (8 + 4 + 4 + 8 + 8 + 1 + 8)


def test_survivors_are_those_of_the_rule() -> None:
    """What a child inherited is in no row of leaks, so it must not be in the sum of the heading."""
    lives = np.zeros(10, LIFE)
    lives["handle"], lives["inherited"][:4] = range(10), 1
    leaks_of, all_of = Survivors(rule=is_leak), Survivors()
    for survivors in (leaks_of, all_of):
        survivors.add(lives, None)
    assert [len(np.concatenate(survivors.partial(0))) for survivors in (leaks_of, all_of)] == [6, 10]


def test_a_state_that_lives_on_is_not_called_closed(steve: Any, trace: Callable) -> None:
    """After an attach, nothing may be recorded of a state that goes on."""
    script = "heap 0x77 lua\nstack main a@a.lua:1\nN 0x4000 10 1 1\nF 0x4000 0 1\nend "
    assert "when its state was closed" in steve("leaks", trace(script + "exit\n")).err
    assert "closed" not in steve("leaks", trace("info attached yes\n" + script + "detached\n")).err


def test_the_table_of_strings_is_named_in_the_heading(steve: Any, trace: Callable) -> None:
    """It grows on any line, which does not leak for that."""
    kind = TYPE_NAMES.index("strtab")
    script = "heap 0x77 lua\nstack main a@a.lua:1\nN 0x4000 970 1 1\nN 0x5000 {} 1 1\ntype 0x5000 1 {}\nend detached\n"
    text = steve("leaks", trace(script.format(30, kind))).out
    assert "; 30 bytes are LuaJIT's table of strings" in text
    assert "table of strings" not in steve("leaks", trace(script.format(19, kind))).out


def test_leaks_without_snapshots(steve: Any, trace: Callable) -> None:
    lines = [line for line in LEFT.splitlines() if line.split()[0] not in ("object", "link")]
    path = trace("\n".join(line for line in lines if "snapshot" not in line) + "\n")
    assert leaks(steve, path)["make"] == (461, None, None)
    said = "551 bytes of them are of Lua, and garbage that was not yet collected counts among these"
    assert said in steve("leaks", path).out
    assert "garbage" not in steve("leaks", trace("stack main a\nN 64 8 1\nend exit\n")).out
    assert leaks(steve, trace("stack main a\nN 64 8 1\nend exit\n")) == {"a": (8, None, None)}


def test_what_was_made_after_the_snapshot(steve: Any, trace: Callable) -> None:
    """The snapshot says nothing of it: it is a column of its own, and a sum in the heading."""
    path = trace(LEFT.replace("end exit", "time 90\nN 0x20000 70 2 1\nN 0x30000 5 3 1\nN 0x40000 9 2\nend exit"))
    rows = {row["site"].split(" ")[0]: row for row in json.loads(steve("leaks", "--json", path).out)}
    assert {name: row["later"] for name, row in rows.items()} == {"make": 0, "keep": 5, "waste": 70}
    text = steve("leaks", path).out
    assert "130 garbage in the snapshot 'late'; 75 made after it, of which it says nothing" in text
    assert "made later" in text and "made later" not in steve("leaks", trace(LEFT)).out
