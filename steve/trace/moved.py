"""Places of code in two traces, of which the second may come from a later version of the program.

A place is known by its function and by where in the function it is, not by the number of its line: lines that are
inserted above a function move all places in it. Functions are matched by their names and files, and Lua functions of one
name, or without a name, by their order in the file. The places of a function are matched in order, so that many find a
partner and the shift from a place to its partner changes seldom: an insertion shifts all places below it. What is left
between two matched places is matched in the same way. A place that finds no partner is only in one of the traces. Files
are matched by their paths, or the ends of these, and those that are left by the functions that they share.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from steve.trace.frames import base_name, file_name, function_name, is_lua

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

FEW = 1 << 10  # places of a function of which all shifts are tried
FEW_PAIRS = 1 << 16  # pairs of places of a function of which all chains are tried
UNSPECIFIC = frozenset(("", "main chunk"))  # names of functions that do not show that two files are one
Matches = dict[str, str]


class Place(NamedTuple):
    """What a name refers to. file: a source file or, without one, the object; function: "" for a Lua function without a
    name, and for names of files; defined, nth: where a Lua function begins, and which it is there; line: 0 if it is not
    known or is not part of the name."""

    file: str
    function: str
    defined: int = 0
    nth: int = 0
    line: int = 0


Definition = tuple[str, int, int]  # of a function: its name, defined, nth


def compared_text(frame: Frame | None, text: str) -> str:
    """The name by which a frame is compared. Of Lua's parser it has no line: at which line it reads ahead and lets its tables
    grow depends on all text above."""
    if frame is None or frame.kind != "vm" or not frame.line:
        return text
    ending = f":{frame.line})"
    return text.removesuffix(ending) + ")" if text.endswith(ending) else text


def place_of(frame: Frame | None, text: str, by: str) -> Place:
    """The place of a name. by: what has the name, one of steve.trace.rollups.BY; text: the name."""
    if frame is None or not (frame.function or frame.file):
        return Place("", text)
    if by == "object":
        return Place(frame.object, "") if frame.object else Place("", text)
    file = frame.file or frame.object
    if by == "file":
        return Place(file, "")
    line = frame.line if by in ("stack", "line") and frame.kind != "vm" else 0
    if not is_lua(frame):
        return Place(file, frame.function, line=line)
    is_named = function_name(frame) != f"{file_name(frame)}:{frame.defined}"
    return Place(file, frame.function if is_named else "", frame.defined, frame.nth, line)


def matched(first: Mapping[str, Place], second: Mapping[str, Place]) -> Matches:
    """For names of the second trace, those of the same places in the first one."""
    found: Matches = {}
    files = _by_file(first), _by_file(second)
    for one, other in _same_files(*files).items():
        a, b = files[0][one], files[1][other]
        shift = _usual_shift(a, b)
        for of_a, of_b in _same_functions(a, b).items():
            found.update(_same_places(a[of_a], b[of_b], of_a, of_b, shift))
    return found


OfFunctions = dict[Definition, dict[int, str]]  # the names of the places in each function of a file, by line


def _by_file(places: Mapping[str, Place]) -> dict[str, OfFunctions]:
    found: dict[str, OfFunctions] = defaultdict(lambda: defaultdict(dict))
    for text, place in places.items():
        found[place.file][place.function, place.defined, place.nth].setdefault(place.line, text)
    return found


def _same_files(first: dict[str, OfFunctions], second: dict[str, OfFunctions]) -> dict[str, str]:
    """Which file of the second trace a file of the first one is."""
    found = {file: file for file in first if file in second}
    left_a, left_b = ([file for file in files if file not in found] for files in (first, second))
    scores = []
    names_a, names_b = (
        {file: {name for name, _, _ in files[file]} - UNSPECIFIC for file in left}
        for files, left in ((first, left_a), (second, left_b))
    )
    for a in left_a:
        for b in left_b:
            shared, ends = len(names_a[a] & names_b[b]), _common_end(a, b)
            if ends or shared and 2 * shared >= min(len(names_a[a]), len(names_b[b])):
                scores.append((ends, shared, a, b))
    taken: set[str] = set()
    for _, _, a, b in sorted(scores, key=lambda score: (-score[0], -score[1], *score[2:])):
        if a not in found and b not in taken:
            found[a] = b
            taken.add(b)
    return found


def _common_end(one: str, other: str) -> int:
    """How many of the last parts of two paths are the same."""
    if base_name(one) != base_name(other):
        return 0
    pairs = list(zip(one.lstrip("@=").split("/")[::-1], other.lstrip("@=").split("/")[::-1]))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


def _same_functions(first: OfFunctions, second: OfFunctions) -> dict[Definition, Definition]:
    """Which function of the second trace a function of the first one is, in one file."""
    by_name = _by_name(first), _by_name(second)
    found = {}
    for name, a in by_name[0].items():
        b = by_name[1].get(name, {})
        for one, other in _in_order(sorted(a), sorted(b), 0):
            found.update(zip(a[one], b[other]))
    return found


def _by_name(functions: OfFunctions) -> dict[str, dict[int, list[Definition]]]:
    """The functions of each name, by the line on which they begin, in order."""
    found: dict[str, dict[int, list[Definition]]] = defaultdict(lambda: defaultdict(list))
    for definition in sorted(functions):
        found[definition[0]][definition[1]].append(definition)
    return found


def _usual_shift(first: OfFunctions, second: OfFunctions) -> int:
    """The shift of lines that most places of a file may have."""
    shifts: Counter[int] = Counter()
    for function, lines in first.items():
        if function in second and len(lines) * len(second[function]) < FEW:
            shifts.update({b - a for a in lines for b in second[function]})
    return max(shifts, key=lambda shift: (shifts[shift], -abs(shift)), default=0)


def _same_places(
    first: dict[int, str], second: dict[int, str], of_a: Definition, of_b: Definition, shift: int
) -> Iterator[tuple[str, str]]:
    """The pairs of names of the places in a function, those of the second trace first."""
    expected = of_b[1] - of_a[1] if of_a[1] else shift
    for a, b in _in_order(sorted(set(first) - {0}), sorted(set(second) - {0}), expected):
        yield second[b], first[a]
    if 0 in first and 0 in second:
        yield second[0], first[0]


def _in_order(first: Sequence[int], second: Sequence[int], expected: int) -> Iterator[tuple[int, int]]:
    """The pairs of two ascending lists of lines, in no particular order, of which none crosses another. expected: the shift
    that is chosen if others explain no more pairs."""
    parts = [(first, second)]
    while parts:
        a, b = parts.pop()
        if not a or not b:
            continue
        pairs = (_of_few_shifts if len(a) * len(b) <= FEW_PAIRS else _of_one_shift)(a, b, expected)
        yield from ((a[i], b[j]) for i, j in pairs)
        for (i, j), (next_i, next_j) in zip([(-1, -1), *pairs], [*pairs, (len(a), len(b))]):
            parts.append((a[i + 1 : next_i], b[j + 1 : next_j]))


Pairs = list[tuple[int, int]]  # indices in two lists, ascending in both
Chain = tuple[int, int, int, int]  # of pairs: how many without changes of the shift, how many, nearness, its number


def _of_one_shift(a: Sequence[int], b: Sequence[int], expected: int) -> Pairs:
    """The pairs with the shift that most lines may have, at least one."""
    some = a[:: len(a) * len(b) // (FEW * FEW) + 1]
    shifts = Counter(y - x for x in some for y in b)
    best = max(shifts, key=lambda shift: (shifts[shift], -abs(shift - expected), shift))
    of_b = {y: j for j, y in enumerate(b)}
    return [(i, of_b[x + best]) for i, x in enumerate(a) if x + best in of_b]


def _of_few_shifts(a: Sequence[int], b: Sequence[int], expected: int) -> Pairs:
    """The pairs, at least one, of which there are most when each change of the shift counts as one pair less. The shift is
    `expected` at first. Of equal choices, the one with more pairs, then the one nearer to that shift."""
    ends: list[tuple[int, int, int]] = [(-1, -1, 0)]  # by number of a chain: its last pair, and the chain without that
    none: Chain = (0, 0, 0, 0)
    of_shift = {expected: none}  # the best chain that ends with a pair of this shift
    best = [none] * (len(b) + 1)  # the best one of lines in `a` so far and of so many in `b`
    for i, x in enumerate(a):
        row = []
        for j, y in enumerate(b):
            shift = y - x
            score, count, near, before = best[j]
            if shift in of_shift:
                same = of_shift[shift]
                score, count, near, before = max((score, count, near, before), (same[0] + 1, *same[1:]))
            row.append((score, count + 1, near - abs(shift - expected), len(ends)))
            ends.append((i, j, before))
        of_shift.update(zip((y - x for y in b), row))
        best = [none, *accumulate(map(max, best[1:], row), max)]
    pairs, number = [], best[-1][-1]
    while number:
        i, j, number = ends[number]
        pairs.append((i, j))
    return pairs[::-1]
