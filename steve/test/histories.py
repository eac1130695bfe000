"""Random heap histories for hypothesis: blocks that do not overlap, accesses inside and outside them.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from hypothesis import strategies as st

from reference import Event, Op

GRID = 64  # every block begins at a multiple of this and is not longer, so that blocks never overlap
BASE = 0x10000


@st.composite
def histories(draw: st.DrawFn, longest: int = 120) -> list[Event]:
    """A strategy for lists of New, Free, Resize and accesses. Some frees and accesses match no block."""
    live: dict[int, int] = {}
    history: list[Event] = []
    for _ in range(draw(st.integers(0, longest))):
        add_event(draw, live, history)
    return history


def place(draw: st.DrawFn) -> int:
    return BASE + GRID * draw(st.integers(0, 12))


def add_event(draw: st.DrawFn, live: dict[int, int], history: list[Event]) -> None:
    """Draw one event and update the live blocks."""
    letter, addr = draw(st.sampled_from("NNFRLLLLSSSM")), place(draw)
    size = draw(st.integers(1, GRID))
    if letter == "N" and addr not in live:
        live[addr] = size
        history.append(Event("N", addr, size))
    elif letter == "F":
        live.pop(addr, None)
        history.append(Event("F", addr, 0))
    elif letter == "R":
        target = place(draw)
        if target not in live or target == addr:
            live.pop(addr, None)
            live[target] = size
            history.append(Event("R", target, size, addr))
    elif letter in "LSM":
        width = draw(st.sampled_from((1, 2, 4, 8, 16)))
        history.append(Event(letter, addr + draw(st.integers(0, GRID - 1)), width))


@st.composite
def operations(draw: st.DrawFn, longest: int = 200) -> list[Op]:
    """A strategy for operations of an ops file. Runs of operations on one block make life counters grow and
    fall."""
    live: list[int] = []
    ops: list[Op] = []
    handles = 0
    for _ in range(draw(st.integers(0, longest // 4))):
        letter = draw(st.sampled_from("NNFRAAAAA"))
        if letter == "N":
            ops.append(Op(handles, "N", BASE + GRID * handles, draw(st.integers(0, GRID))))
            live.append(handles)
            handles += 1
        elif live:
            i = draw(st.integers(0, len(live) - 1))
            handle = live.pop(i) if letter == "F" else live[i]
            run = draw(st.integers(1, 8)) if letter == "A" else 1
            ops += [
                Op(
                    handle,
                    draw(st.sampled_from("LSM")) if letter == "A" else letter,
                    BASE + GRID * handle,
                    0 if letter == "F" else 4,
                )
            ] * run
    return ops
