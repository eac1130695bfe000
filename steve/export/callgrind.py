"""callgrind's format: costs by function and line, with the calls between them; for callgrind_annotate and kcachegrind.

Costs are sums over allocated blocks, not instructions. The inclusive cost of a call is counted once for each stack,
even if a function recurses. Calls of a function by itself are not written, because viewers would add their costs to
its own. An inlined function is a function of its own: the format's fi= and fe= would give its lines, without its name,
to the function that it was inlined in. https://valgrind.org/docs/manual/cl-format.html

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Iterator, Sequence

from steve.export.profile import Profile
from steve.trace.frames import function_label

EVENTS = ("alloc_space", "alloc_objects", "inuse_space", "peak_space", "loads", "stores")  # names of metrics
Function = tuple[str, str]  # file, name
Costs = list[int]


class Graph:
    """The call graph of a profile.

    own: function -> line -> costs. calls: caller -> (line of the call, callee, line in the callee) ->
    [number of stacks, costs...]. Costs are those of `events`, which were recorded."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.events = [metric.name for metric in profile.metrics if metric.name in EVENTS]
        self.own: dict[Function, dict[int, Costs]] = {}
        self.calls: dict[Function, dict[tuple[int, Function, int], Costs]] = {}
        self.total = [0] * len(self.events)
        columns = [at for at, metric in enumerate(profile.metrics) if metric.name in EVENTS]
        self._places = {number: self._where(number) for number in profile.used_frames()}
        for sample in profile.samples():
            self._add(profile.frames(sample.stack), [sample.values[column] for column in columns])

    def _where(self, number: int) -> tuple[Function, int]:
        if not number:
            return ("???", "(no stack)"), 0
        frame = self.profile.frame(number)
        return (frame.file or "???", function_label(frame)), frame.line

    def _add(self, frames: Sequence[int], costs: Costs) -> None:
        stack = [self._places[number] for number in frames]
        function, line = stack[0]
        bump(self.own.setdefault(function, {}), line, costs)
        self.total = [a + b for a, b in zip(self.total, costs)]
        edges = {
            (caller, at, callee, first) for (callee, first), (caller, at) in zip(stack, stack[1:]) if caller != callee
        }
        for caller, at, callee, first in edges:
            self.own.setdefault(caller, {})
            bump(self.calls.setdefault(caller, {}), (at, callee, first), [1, *costs])


def bump(table: dict, key: object, costs: Costs) -> None:
    """Add costs to those of a key."""
    known = table.get(key)
    table[key] = list(costs) if known is None else [a + b for a, b in zip(known, costs)]


def one_line(text: str) -> str:
    """The text with line breaks and runs of blanks replaced by single blanks."""
    return " ".join(text.split())


def joined(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def function_lines(graph: Graph, function: Function) -> Iterator[str]:
    """The text for one function: its own costs by line, then its calls."""
    file, name = map(one_line, function)
    yield f"\nfl={file}\nfn={name}\n"
    for line, costs in sorted(graph.own[function].items()):
        yield f"{line} {joined(costs)}\n"
    for (line, callee, first), costs in sorted(graph.calls.get(function, {}).items()):
        yield f"cfi={one_line(callee[0])}\ncfn={one_line(callee[1])}\ncalls={costs[0]} {first}\n"
        yield f"{line} {joined(costs[1:])}\n"


def callgrind(profile: Profile, version: str) -> Iterator[str]:
    """The text of the file, in pieces. version: of steve."""
    graph = Graph(profile)
    names = " ".join(graph.events)
    yield (
        f"# callgrind format\nversion: 1\ncreator: steve {version}\ncmd: {one_line(profile.command)}\n"
        f"positions: line\nevents: {names}\nsummary: {joined(graph.total)}\n"
    )
    for function in sorted(graph.own):
        yield from function_lines(graph, function)
    yield f"\ntotals: {joined(graph.total)}\n"
