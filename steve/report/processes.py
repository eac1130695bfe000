# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of several traces, which are processes of one program: totals and findings of all, which process has how much, and
which lines in how many of them.

It has no timeline: the clocks of two recordings are known to a second only, and an operation of one process has no place in
another one. The page of a single trace has that.
"""
from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from steve.analysis.totals import NEVER_FREED, program_end_text
from steve.report.collect import clean
from steve.report.lua_growth import MOST as MOST_PATHS, LuaGrowth, LuaHeld, objects_of
from steve.report.page import environment
from steve.report.sentences import APPROXIMATE, KEPT, MOST, MUCH, SAID, WAITING, WORTH, Sentence
from steve.terminal.units import counted, human_bytes
from steve.trace import earlier_code
from steve.trace.rollups import PROCESS

MOST_LINES = 60
MOST_FOUND = 12  # lines of each rule
MOST_PROCESSES = 1000
NAME_LIMIT = 300  # letters of a name
PATH_SUMS = ("more_bytes", "more_objects", "bytes", "objects")
HELD_SUMS = ("bytes", "objects")
RATE = "rate"  # a sum of a path: bytes more a second
EVEN = 1.1  # if the largest part is less than this times the mean, no process is named
SUMS = ("blocks", "bytes", "live_bytes_at_peak", "live_bytes_at_end", "accesses")


class Line(NamedTuple):
    """A line of the program in all processes: its sums by name, and the bytes of each process that has some."""

    text: str
    sums: Counter[str]
    processes: Counter[str]

    def where(self) -> str:
        """In which processes, and which of them has most, or grows fastest if that is known, unless all have nearly the same."""
        ((name, most),) = self.processes.most_common(1)
        if len(self.processes) == 1:
            return name
        share = most / (sum(self.processes.values()) or 1)
        if share * len(self.processes) < EVEN:
            return f"{len(self.processes):,} processes, about evenly"
        superlative = "fastest" if RATE in self.sums else "most"
        return f"{len(self.processes):,} processes, {superlative} in {name} ({share:.0%})"


class Found(NamedTuple):
    """What a rule finds: its object of `steve findings --json`, and its lines."""

    rule: dict
    lines: list[Line]


def lines_of(rows: Iterable[Mapping[str, Any]], key: str = "bytes") -> list[Line]:
    """The lines of rows by line and process, those with most bytes first. key: the column that says how much a process has."""
    found: dict[str, Line] = {}
    for row in rows:
        text = clean(str(row["site"]), NAME_LIMIT)
        line = found.setdefault(text, Line(text, Counter(), Counter()))
        line.sums.update({name: row[name] for name in SUMS if row.get(name)})
        line.processes[clean(row[PROCESS], NAME_LIMIT)] += row[key]
    return sorted(found.values(), key=lambda line: (-line.sums[key], line.text))


def paths_of(in_lua: Mapping[str, LuaGrowth | LuaHeld], names: Sequence[str]) -> list[Line]:
    """The paths through which Lua holds objects, those with most of the first column first. in_lua: by process; names: of the
    columns that are summed up. Of growth in times that are known, there is the sum RATE, too, and it says which process has
    most: the times between two snapshots are not the same in all."""
    is_timed = times_of(in_lua) is not None
    found: dict[str, Line] = {}
    for process, of_process in in_lua.items():
        for row in of_process.rows:
            text = clean(row["path"], NAME_LIMIT)
            line = found.setdefault(text, Line(text, Counter(), Counter()))
            line.sums.update({name: row[name] for name in names})
            part = row[names[0]]
            if is_timed and isinstance(of_process, LuaGrowth):
                part = of_process.rate(part)
                line.sums[RATE] += part
            line.processes[clean(process, NAME_LIMIT)] += part
    return sorted(found.values(), key=lambda line: (-line.sums[names[0]], line.text))


def times_of(in_lua: Mapping[str, LuaGrowth | LuaHeld]) -> list[tuple[str, float]] | None:
    """Of processes whose snapshots were compared, the ns between these; None if it is not known of all."""
    compared = {name: one for name, one in in_lua.items() if isinstance(one, LuaGrowth) and not one.is_too_large}
    if not all(one.seconds for one in compared.values()):
        return None
    return [(clean(name, NAME_LIMIT), 1e9 * (one.seconds or 0)) for name, one in compared.items()]


class InLua(NamedTuple):
    """What snapshots say: of processes with two or more, growths; of those with one, held. By process."""

    growths: dict[str, LuaGrowth]
    held: dict[str, LuaHeld]

    @classmethod
    def of(cls, in_lua: Mapping[str, LuaGrowth | LuaHeld]) -> InLua:
        """The two apart."""
        return cls(
            {process: one for process, one in in_lua.items() if isinstance(one, LuaGrowth)},
            {process: one for process, one in in_lua.items() if isinstance(one, LuaHeld)},
        )

    @property
    def reached(self) -> int:
        """Bytes that the snapshots of `held` reach."""
        return sum(one.reached for one in self.held.values())


def _too_large(of: Mapping[str, LuaGrowth | LuaHeld]) -> list[str]:
    """The processes whose snapshots have too many objects."""
    return [clean(process, NAME_LIMIT) for process, one in of.items() if one.is_too_large]


def _of_held(held: list[Line], in_lua: InLua, peak: int) -> list[Sentence]:
    """What holds most of what Lua reaches in single snapshots, if that is much. peak: of all processes."""
    if not held or not in_lua.reached or held[0].sums["bytes"] < max(MUCH * in_lua.reached, WORTH * peak):
        return []
    first, size = held[0], held[0].sums["bytes"]
    return [
        Sentence(
            first.text,
            f"holds {human_bytes(size)} of the {human_bytes(in_lua.reached)} that Lua reaches in the snapshots "
            f"({size / in_lua.reached:.0%}): {counted(first.sums['objects'], 'object')}.",
            f"in {first.where()}",
            "#lua-held",
        )
    ]


def _of_paths(paths: list[Line], in_lua: InLua, peak: int) -> list[Sentence]:
    """Through what Lua reaches what grew most between the last two snapshots, if that is much. peak: of all processes."""
    if not paths or not peak or paths[0].sums["more_bytes"] < WORTH * peak:
        return []
    first = paths[0]
    more = first.sums["more_bytes"]
    count = sum(not one.is_too_large for one in in_lua.growths.values())
    is_some = count < len(in_lua.growths) + len(in_lua.held)
    compared = f"each of {counted(count, 'process', 'processes')}" if is_some else "each process"
    rate = f", {human_bytes(first.sums[RATE])} a second" if first.sums[RATE] else ""
    return [
        Sentence(
            first.text,
            f"retains {human_bytes(more)} more in the last snapshot of {compared} than in the one before ({more / peak:.1%} of "
            f"the peaks{rate}): {objects_of(first.sums)}.",
            f"in {first.where()}",
            "#lua-growth",
        )
    ]


class Ends(NamedTuple):
    """What is known of the blocks that live at the ends of the recordings. not_freed: what is true of them, as
    steve.analysis.totals.not_freed says it of each; of_lua: are some of them in a heap of Lua?"""

    not_freed: set[str]
    of_lua: bool

    def key(self, rule: str) -> str:
        """The key in SAID of what a rule finds."""
        if rule != "never_freed" or self.not_freed <= {NEVER_FREED} and not self.of_lua:
            return rule
        return "unsure" if self.of_lua else "unfreed"


def sentences_of(
    found: Iterable[Found], totals: Mapping[str, Any], ends: Ends, approximate: Collection[str]
) -> list[Sentence]:
    """What is wrong with the program, the worst of each kind of trouble. totals: `bytes` of `steve summary --json`; approximate:
    lines of Lua that are."""
    candidates = []
    for rule, lines in found:
        said = SAID.get(ends.key(rule["finding"]))
        for line in lines if said else ():
            is_live = said.trouble in (KEPT, WAITING)
            whole = totals["peak_live"] if is_live else totals["allocated"]
            share = line.sums["bytes"] / (whole or 1)
            if share >= WORTH:
                candidates.append((said, line, share, "the peaks" if is_live else "all bytes allocated"))
    candidates.sort(key=lambda one: -one[2])
    chosen = {said.trouble: (said, *rest) for said, *rest in reversed(candidates)}
    return [
        Sentence(
            line.text,
            f"{APPROXIMATE if line.text in approximate else ''}{said.text(line.sums['bytes'], line.sums['blocks'])} "
            f"({share:.1%} of {whole}).",
            f"in {line.where()}",
            "",
        )
        for _, (said, line, share, whole) in sorted(chosen.items())
    ][:MOST]


def _processes(objects: list[dict]) -> list[dict]:
    """The rows of the table of processes, that with most live bytes at its end first."""
    ranked = sorted(objects, key=lambda one: (-one["bytes"]["live_at_end"], -one["bytes"]["peak_live"]))
    return [
        {
            "name": clean(one[PROCESS], NAME_LIMIT),
            "bytes": one["bytes"],
            "blocks": one["blocks"],
            "ended": program_end_text(one["program"]) + ("" if one["complete"] else ", not complete"),
        }
        for one in ranked[:MOST_PROCESSES]
    ]


def render(
    name: str,
    command: str,
    remark: str,
    totals: dict,
    findings: list[dict],
    errors: list[dict],
    rows: Iterable[Mapping[str, Any]],
    drawings: Mapping[str, str],
    accesses: bool,
    ends: Ends,
    cut: Mapping[str, str],
    in_lua: Mapping[str, LuaGrowth | LuaHeld],
    approximate: list[str],
) -> bytes:
    """The page as UTF-8. name: of the files; command: of the first process; remark: what is true of the numbers;
    totals: the object of `steve summary --json`; findings, errors: those of `steve findings --json --by line,process`;
    rows: those of `steve sites`, likewise; drawings: flame graphs as SVG, by title; accesses: were they recorded of
    all? ends: how the recordings ended; cut: what is missing at the ends of some, by process; in_lua: what
    the snapshots say, by process; approximate: lines of Lua that are.
    """
    of_lua = InLua.of(in_lua)
    paths, held = paths_of(of_lua.growths, PATH_SUMS), paths_of(of_lua.held, HELD_SUMS)
    found = [Found(rule, lines_of(rule["sites"][:])) for rule in findings]
    lines = lines_of(rows)
    page: str = (
        environment()
        .get_template("processes.html.j2")
        .render(
            name=clean(name, 4096),
            command=clean(command, 200),
            remark=remark,
            cut=[(clean(process, NAME_LIMIT), clean(why, 400)) for process, why in list(cut.items())[:MOST_FOUND]],
            more_cut=max(len(cut) - MOST_FOUND, 0),
            totals=totals,
            processes=_processes(totals["processes"]),
            hidden=max(len(totals["processes"]) - MOST_PROCESSES, 0),
            sentences=[
                *_of_paths(paths, of_lua, totals["bytes"]["peak_live"]),
                *_of_held(held, of_lua, totals["bytes"]["peak_live"]),
                *sentences_of(found, totals["bytes"], ends, set(approximate)),
            ][:MOST],
            approximate=earlier_code.remark_on(approximate),
            paths=paths[:MOST_PATHS],
            most_paths=MOST_PATHS,
            with_snapshots=len(of_lua.growths),
            times=times_of(of_lua.growths),
            too_large=_too_large(of_lua.growths),
            held=held[:MOST_PATHS],
            with_one=len(of_lua.held),
            reached=of_lua.reached,
            too_large_alone=_too_large(of_lua.held),
            not_freed=" or ".join(sorted(ends.not_freed))
            + (", with garbage of Lua not yet collected" if ends.of_lua else ""),
            no_growth="".join(one.rule["not_judged"] or "" for one in found if one.rule["finding"] == "growth"),
            some_growth=any(one.lines for one in found if one.rule["finding"] == "growth"),
            findings=[one for one in found if one.lines],
            nothing=[one.rule["title"] for one in found if not one.lines and not one.rule["not_judged"]],
            not_judged=[(one.rule["title"], one.rule["not_judged"]) for one in found if one.rule["not_judged"]],
            errors=errors,
            lines=lines[:MOST_LINES],
            all_lines=len(lines),
            most=MOST_FOUND,
            accesses=accesses,
            drawings={title: base64.b64encode(svg.encode()).decode() for title, svg in drawings.items()},
        )
    )
    return page.encode()
