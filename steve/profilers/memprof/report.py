"""memprof's report: what each place allocated, resized and freed, and what it holds at the end.

The sections ALLOCATIONS, REALLOCATIONS and DEALLOCATIONS list places, the most frequent first. HEAP SUMMARY lists
the bytes that each place holds at the end. A line has one of two forms:

    first RFC   @file:first, line N: events<TAB>bytes allocated<TAB>bytes freed
    today       @file:N: M events<TAB>+X<TAB>-Y

A block belongs to the place that allocated it or resized it last. (Tarantool's parser adds the new bytes of a
resize to the previous place, so that its sums can be negative.) Blocks allocated before the profile began belong to
no place.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steve.profilers.memprof.places import Names
from steve.terminal.tables import printable
from steve.terminal.tables import size as readable

if TYPE_CHECKING:
    from steve.profilers._ljstream import Heap

SECTIONS = ((1, "ALLOCATIONS"), (3, "REALLOCATIONS"), (2, "DEALLOCATIONS"))


class Report:
    """Writes the lines of reports. today: in the form of current parsers; human: sizes in KiB and larger units."""

    def __init__(self, today: bool = False, human: bool = False) -> None:
        self.names, self.human = Names(today), human

    def size(self, value: int) -> str:
        """A size in bytes as text, with its unit."""
        if not self.human:
            return f"{value}B"
        return readable(value).replace(" ", "") if value >= 0 else "-" + self.size(-value)

    def _plain(self, value: int) -> str:
        return self.size(value) if self.human else str(value)

    def entry(self, place: Any, row: Any) -> str:
        """The line of one place. row: its sums, as in Heap.rows."""
        where = self.names.text(place)
        if self.names.today:
            return f"{where}: {row.num} events\t+{self.size(row.alloc)}\t-{self.size(row.free)}"
        return f"{where}: {row.num}\t{self._plain(row.alloc)}\t{self._plain(row.free)}"

    def overrides(self, row: Any) -> Iterator[str]:
        """The lines that list the places whose blocks a place resized or freed."""
        if row.overrides:
            yield "\tOverrides:"
            yield from sorted("\t\t" + self.names.text(place) for place in row.overrides)
            yield ""

    def section(self, title: str, rows: dict) -> Iterator[str]:
        """The lines of one section. rows: sums by place."""
        yield title
        ranked = sorted(rows.items(), key=lambda item: (-item[1].num, self.names.text(item[0])))
        for place, row in ranked:
            yield self.entry(place, row)
            yield from self.overrides(row)
        yield ""

    def held(self, heap: Heap, leaks_only: bool = False) -> list[tuple]:
        """(place, bytes, allocations, frees) of each place that ever held a block, the one with most bytes first.
        leaks_only: only of places that hold bytes now."""
        rows = [(place, *numbers) for place, numbers in heap.held.items()]
        rows = [row for row in rows if not leaks_only or row[1] > 0]
        return sorted(rows, key=lambda row: (-row[1], self.names.text(row[0])))

    def summary(self, heap: Heap, leaks_only: bool = False) -> Iterator[str]:
        """The lines of HEAP SUMMARY."""
        yield "HEAP SUMMARY:"
        for place, held, allocs, frees in self.held(heap, leaks_only):
            if held or leaks_only:
                yield f"{self.names.text(place)} holds {self.size(held)}: {allocs} allocs, {frees} frees"
        yield ""

    def aliases(self) -> Iterator[str]:
        """The section that shows the text of chunks with short names."""
        if self.names.aliases:
            yield "ALIASES:"
            for chunk, alias in self.names.aliases.items():
                yield f"{alias}:"
                yield from map(printable, chunk.splitlines())
                yield ""

    def whole(self, heap: Heap, leaks_only: bool = False) -> Iterator[str]:
        """All lines of the report."""
        for kind, title in () if leaks_only else SECTIONS:
            yield from self.section(title, heap.rows[kind])
        yield from self.summary(heap, leaks_only)
        yield from self.aliases()

    def snapshot(self, heap: Heap, seconds: int) -> Iterator[str]:
        """The lines that list what each place holds `seconds` seconds after the start of the profile."""
        yield f"===== HEAP SNAPSHOT, {seconds} seconds passed"
        for place, held, _, _ in self.held(heap, leaks_only=True):
            if self.human:
                yield f"{self.names.text(place)} holds {self.size(held)}"
            else:
                yield f"{self.names.text(place)} holds {held} bytes"
        yield ""

    def as_json(self, heap: Heap) -> dict:
        """The report as one object, with the lists `allocations`, `reallocations`, `deallocations` and `heap`."""
        result: dict = {}
        for kind, title in SECTIONS:
            rows = sorted(heap.rows[kind].items(), key=lambda item: -item[1].num)
            result[title.lower()] = [
                {
                    "place": self.names.text(place),
                    "events": row.num,
                    "allocated": row.alloc,
                    "freed": row.free,
                    "overrides": sorted(map(self.names.text, row.overrides)),
                }
                for place, row in rows
            ]
        result["heap"] = [
            {"place": self.names.text(place), "bytes": held, "allocs": allocs, "frees": frees}
            for place, held, allocs, frees in self.held(heap)
        ]
        return result
