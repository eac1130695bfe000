# SPDX-License-Identifier: GPL-2.0-or-later
"""The first sentences of the report: what is wrong with the program's use of memory, in order of importance.

Each names a line of the program, the bytes, and the path to the line, and links to the view of the explorable part that
shows these blocks. At most MOST sentences are made: of each kind of trouble (memory that is kept, that is of no use, that
is requested only for a moment) the one with most bytes comes first, then what else the rules found. A site has a second
sentence only if no other site has that kind of trouble. What is less than WORTH of the peak, or of all bytes
allocated, is left to the section of findings.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from steve.analysis.looks import KeptFree
from steve.analysis.site_rules import no_longer
from steve.analysis.totals import NEVER_FREED as ENDED, duration, end_time
from steve.report.collect import NEVER_FREED, Site, TraceData, runs, without_middle
from steve.report.findings import Finding
from steve.report.lua_growth import objects_of
from steve.terminal.units import counted, human_bytes, human_ns

MOST = 3
MUCH = 0.25  # of what Lua reaches, for what holds it to be worth a sentence
WORTH = 0.02
APPROXIMATE = "or what runs after it (see below) "  # of code that was compiled before an attach
BEFORE_ATTACH = "[before the attach]"  # the frame of blocks from before
KEPT, OF_NO_USE, BRIEF, WAITING = range(4)  # kinds of trouble, the worst first; garbage that waits is hardly one


# words about several blocks, and the same about one
SINGULAR = (
    ("that are", "that is"),
    ("that live", "that lives"),
    ("that die", "that dies"),
    ("points to them", "points to it"),
    ("that were not freed", "that was not freed"),
    ("that live at the end:", "that lives at the end:"),
    ("with their parts", "with its parts"),
    ("their end", "its end"),
    ("their first use", "its first use"),
    ("were added", "was added"),
)


class Rule(NamedTuple):
    """What is said of a rule of steve.analysis.rules: the kind of trouble; words that follow the line; the metric of the
    page that shows the blocks."""

    trouble: int
    words: str
    metric: str

    def text(self, size: int, blocks: int) -> str:
        """What is said of so many bytes in so many blocks."""
        words = self.words
        for many, one in SINGULAR if blocks == 1 else ():
            words = words.replace(many, one)
        return words.format(bytes=human_bytes(size), blocks=counted(blocks, "block"), objects=counted(blocks, "object"))


SAID = {
    "leaked": Rule(KEPT, "leaks {bytes} in {blocks} that are not freed, and nothing points to them at the end", "live"),
    "growth": Rule(KEPT, "keeps more and more: {bytes} in {blocks} were added", "growth"),
    "never_freed": Rule(KEPT, "allocates {bytes} in {blocks} that are never freed", "live"),
    "held": Rule(
        KEPT,
        "has {bytes} in {objects} with their parts that live at the end and that Lua reached in the last snapshot",
        "live",
    ),
    "uncollected": Rule(
        WAITING, "has {bytes} in {blocks} of Lua that live at the end: not yet collected, or still held", "live"
    ),
    "unfreed": Rule(KEPT, "allocates {bytes} in {blocks} that were not freed before the recording ended", "live"),
    "unsure": Rule(
        WAITING, "has {bytes} in {blocks} that live at the end: still held, or garbage of Lua not yet collected", "live"
    ),
    "pinned_pages": Rule(KEPT, "has blocks that keep {bytes} of pages in use", "peak"),
    "capacity": Rule(OF_NO_USE, "requests {bytes} in {blocks} that nothing ever accesses", "allocated"),
    "never_touched": Rule(OF_NO_USE, "allocates {bytes} in {blocks} that nothing ever accesses", "allocated"),
    "low_utilisation": Rule(OF_NO_USE, "allocates {bytes} in {blocks} of which less than half is used", "allocated"),
    "never_read": Rule(OF_NO_USE, "allocates {bytes} in {blocks} that are written and never read", "allocated"),
    "written_once": Rule(OF_NO_USE, "allocates {bytes} in {blocks} that are written once and never read", "allocated"),
    "idle_tail": Rule(OF_NO_USE, "allocates {bytes} in {blocks} that are idle long before their end", "peak"),
    "late_first_use": Rule(OF_NO_USE, "allocates {bytes} in {blocks} long before their first use", "peak"),
    "temporary_line": Rule(BRIEF, "makes {blocks} with {bytes} that live only for a moment", "allocated"),
    "resize_chain": Rule(BRIEF, "resizes {blocks} with {bytes} again and again", "allocated"),
    "churn": Rule(BRIEF, "requests {bytes} in {blocks} that die, many times what is live of them at the peak", "freed"),
    "short_lived": Rule(BRIEF, "makes {blocks} with {bytes} that live only for a moment", "allocated"),
}

OF_LUA = (
    "held",
    "uncollected",
)  # what lives at the end in the heap of a garbage collector: other findings come before it


class Sentence(NamedTuple):
    """line: the place in the program, first in the sentence; text: the rest; path: the callers; link: the view of the page,
    "" if it has none; held: through what the blocks can be reached, "" if that is not known."""

    line: str
    text: str
    path: str
    link: str
    held: str = ""


class Candidate(NamedTuple):
    """What a rule finds at a site. share: of the peak, or of all bytes allocated."""

    key: str
    rule: Rule
    site: Site
    line: str
    blocks: int
    bytes: int
    share: float


def link_to(data: TraceData, site: Site, key: str = "") -> str:
    """The address within the page of the view that shows the blocks of a site; of one that is too small for that, those of its
    line, with what that calls. key: of a rule. "" if the page has no explorable part."""
    if not data.explorable or site.stack not in data.linked.lines:
        return ""
    fields: dict[str, object] = {"metric": SAID[key].metric} if key in SAID else {}
    if key == "growth":  # much of it may be freed when the program ends
        fields["from"], fields["to"] = grown_in(data, site)
    of_site = {"site": site.stack} if site.stack in data.linked.apart else {"line": data.linked.lines[site.stack]}
    return "#explore:" + urlencode({**fields, **of_site})


def grown_in(data: TraceData, site: Site) -> tuple[int, int]:
    """The operations between which a site that grows was judged."""
    row = data.found["growth"].of(site.stack)
    return int(row["since"]), int(row["until"])


def when(data: TraceData, each: Candidate) -> str:
    """The part of the run that a sentence is about, if it is not the whole; else ""."""
    if each.key != "growth":
        return ""
    return " from operation {:,} to {:,}".format(*grown_in(data, each.site)) + last_made(data, each.site)


def last_made(data: TraceData, site: Site) -> str:
    """When a site that grew made its last block, if that was in the first half of the recording; else ""."""
    end = end_time(data.time_unit, data.stats, data.totals["time"])
    row = data.found["growth"].of(site.stack)
    if not no_longer(row, end):
        return ""
    times = (duration(int(time), data.time_unit) for time in (row["most_recent"], end))
    return ", the last one at {} of {}".format(*times)


def held_text(data: TraceData, site: Site) -> str:
    """Through what Lua reaches the blocks of a site, as the last snapshot shows it; "" if that is not known."""
    held = data.held.get(site.stack)
    return held.text if held is not None and held.path else ""


def of_snapshot(data: TraceData, site: Site) -> str:
    """What the last snapshot says of the blocks of a site that live at the end; "" if it says nothing."""
    held = data.held.get(site.stack)
    if held is None:
        return ""
    texts = [f"held by {held.path}"] if held.path else []
    texts += [f"{human_bytes(held.garbage)} garbage (objects with their parts)"] if held.garbage else []
    return f"{'; '.join(texts)} in the snapshot '{held.snapshot}'"


def path_of(site: Site) -> str:
    """The callers of a site, the nearest first: those of the program; of Lua code, those in Lua, since what runs Lua is the
    same for all."""
    first, end = (0, site.lua) if site.lua else site.own
    frames = site.frames[first:end]
    return without_middle(tuple(runs(frames))) if frames else ""


def _whole(data: TraceData, rule: Rule) -> tuple[int, str]:
    """What the bytes are compared with, and its name."""
    if rule.trouble in (KEPT, WAITING):
        return data.totals["peak_bytes"], "the peak"
    return data.judged_bytes, "all bytes allocated"


def _candidates(data: TraceData, finding: Finding) -> Iterator[Candidate]:
    if finding.key not in SAID:
        return
    for site, line, blocks, size, _ in finding.sites:
        if site.stack in data.of_runtime:  # buffers of the C library, which the program cannot change
            continue
        key = finding.key
        if key == NEVER_FREED and site.stack in data.of_collector:
            key, blocks, size = _of_collector(data, site, blocks, size)
        elif key == NEVER_FREED and data.not_freed != ENDED:
            key = "unfreed"
        rule = SAID[key]
        yield Candidate(key, rule, site, line, blocks, size, size / (_whole(data, rule)[0] or 1))


def _of_collector(data: TraceData, site: Site, blocks: int, size: int) -> tuple[str, int, int]:
    """What is said of the blocks of a garbage collector that live at the end, and how many they are. Many of them may be
    garbage; a snapshot leaves the objects that it reached, with their parts. blocks, size: of all of them."""
    if not data.held:
        return "uncollected", blocks, size
    held = data.held.get(site.stack)
    return ("held", held.objects, held.bytes) if held is not None else ("held", 0, 0)


def _chosen(data: TraceData, findings: list[Finding]) -> list[Candidate]:
    """At most MOST of what the rules find, the worst first; of what is about the same, what comes first in SAID. A site has one
    sentence for each kind of trouble, and comes again only if no other site has that kind. What grows because it leaks is
    called a leak."""
    found = [each for finding in findings for each in _candidates(data, finding) if each.share >= WORTH]
    growing = {each.site.stack for each in found if each.key == "growth"}
    found = [each for each in found if each.key not in OF_LUA or each.site.stack not in growing]
    leaked = {each.site.stack: each.bytes for each in found if each.key == "leaked"}
    found = [each for each in found if each.key != "growth" or 2 * leaked.get(each.site.stack, 0) < each.bytes]
    order = list(SAID)
    found.sort(key=lambda each: (each.key in OF_LUA, -round(each.share, 1), order.index(each.key), -each.share))
    chosen: list[Candidate] = []

    def take(some: list[Candidate], most: int) -> None:
        for are_others in (True, False):
            for each in some:
                known = [other.rule.trouble for other in chosen if other.site.stack == each.site.stack]
                if most and (not known if are_others else each.rule.trouble not in known):
                    chosen.append(each)
                    most -= 1

    for trouble in (KEPT, OF_NO_USE, BRIEF):
        take([each for each in found if each.rule.trouble == trouble], 1)
    for some in ([each for each in found if each.rule.trouble != WAITING], found):
        take([each for each in some if each not in chosen], max(MOST - len(chosen), 0))
    return sorted(chosen[:MOST], key=lambda each: (each.rule.trouble, each.key in OF_LUA, -each.share))


def _of_peak(data: TraceData) -> Iterator[Sentence]:
    """What the peak consists of, above all."""
    site = max(data.sites, key=lambda site: site.tally["peak_bytes"], default=None)
    peak = data.totals["peak_bytes"]
    if site is None or not site.tally["peak_bytes"] or site.frames == [BEFORE_ATTACH]:  # nobody saw who made these
        return
    text = f"has {human_bytes(site.tally['peak_bytes'])} of the {human_bytes(peak)} that are live at the peak"
    yield Sentence(
        data.lines[site.stack],
        f"{text} ({site.tally['peak_bytes'] / peak:.0%}), more than any other site.",
        path_of(site),
        link_to(data, site),
    )


def _of_marks(data: TraceData) -> Iterator[Sentence]:
    """What was kept between the marks of the program, if that is much."""
    kept, peak = data.kept, data.totals["peak_bytes"]
    if kept is None or kept.bytes < WORTH * peak or not kept.bytes:
        return
    between = {"from": kept.operations[0], "to": kept.operations[1], "metric": "growth", "own": kept.line}
    yield Sentence(
        kept.short,
        f"made {human_bytes(kept.bytes)} in {counted(kept.blocks, 'block')} between the marks {kept.marks[0]} and "
        f"{kept.marks[1]} that live at the last one, more than any other line ({kept.bytes / peak:.1%} of the peak).",
        "",
        "#explore:" + urlencode(between),
    )


def _of_lua_growth(data: TraceData) -> Iterator[Sentence]:
    """Through what Lua reaches what grew most between the last two snapshots, if that is much."""
    growth, peak = data.lua_growth, data.totals["peak_bytes"]
    if growth is None or not growth.rows or not peak or growth.rows[0]["more_bytes"] < WORTH * peak:
        return
    row = growth.rows[0]
    rate = f", {human_bytes(growth.rate(row['more_bytes']))} a second" if growth.seconds else ""
    yield Sentence(
        row["path"],
        f"{growth.retains(row)} " f"({row['more_bytes'] / peak:.1%} of the peak{rate}): {objects_of(row)}.",
        "",
        "#lua-growth",
    )


def _of_lua_held(data: TraceData) -> Iterator[Sentence]:
    """What holds most of what Lua reaches in the only snapshot, if that is much."""
    held = data.lua_held
    row = held.rows[0] if held and held.rows else None
    if held is None or row is None or row["share"] < MUCH or row["bytes"] < WORTH * data.totals["peak_bytes"]:
        return
    yield Sentence(
        row["path"],
        f"holds {human_bytes(row['bytes'])} of the {human_bytes(held.reached)} that Lua reaches in the snapshot '{held.name}' "
        f"({row['share']:.0%}): {counted(row['objects'], 'object')}.",
        "",
        "#lua-held",
    )


def _of_what_is_kept(data: TraceData) -> list[Sentence]:
    """Both of them, the larger first: a path that holds what several lines made says more than one of these."""
    marks, paths = [*_of_marks(data)], [*_of_lua_growth(data)]
    both = marks and paths and data.kept and data.lua_growth
    if both and data.lua_growth.rows[0]["more_bytes"] > data.kept.bytes:
        return paths + marks
    return marks + paths


def _of_nothing(data: TraceData) -> Iterator[Sentence]:
    """That the trace has no event of a block, and what that means."""
    if any(data.totals[name] for name in ("new", "free", "resize", "badfree")) or data.problem is not None:
        return
    took = data.stats["totals"]["nanoseconds"] or data.stats["nanoseconds"]
    text = f"Nothing was allocated or freed{f' in {human_ns(took)}' if took else ''}"
    if data.info.get("attached") != "yes":
        yield Sentence("", f"{text}: the recording has no block.", "", "")
        return
    before = ""
    if "existing_blocks" not in data.info:
        before = " What it had before the attach is not recorded: ljtrace attach --existing-blocks does that for C, "
        before += "--universe for Lua."
        if "universe" in data.info:
            before = " What Lua had before the attach is in the snapshot, which steve universe shows; ljtrace attach "
            before += "--existing-blocks records that of C."
    yield Sentence(
        "", f"{text}: while it was recorded, the process was idle or used memory that it had.{before}", "", ""
    )


def _of_free(data: TraceData) -> Iterator[Sentence]:
    """What the allocators keep at the look with the most resident bytes and at the last one, if that is much at one of them."""
    last, of = data.kept_free[0], data.owners
    if last is None:  # it is not known what is free
        return
    most = of and KeptFree(of.free, of.whole, of.returnable, of.resident, of.recorder)
    if most and most.is_much and most[:5] != last[:5]:
        text = f"{_of_resident(most)} at the maximum are free memory that the allocator keeps, {_returned(most)}"
        yield Sentence("", f"{text}. {last.at.capitalize()} it was {_of_resident(last)}.", "", "#resident")
    elif last.is_much:
        text = f"{_of_resident(last)} {last.at} are free memory that the allocator keeps, {_returned(last)}"
        yield Sentence("", f"{text}.", "", "#resident" if of else "")


def _of_resident(found: KeptFree) -> str:
    return f"{found.of_resident} ({found.free / (found.of_program or 1):.0%})"


def _returned(found: KeptFree) -> str:
    """What of free memory can be returned to the system."""
    return f"{found.of_returnable} of it, in whole pages, can be returned to the system"


def sentences(data: TraceData, findings: list[Finding]) -> list[Sentence]:
    """The first sentences of the page, at least one if any block was allocated: what allocators keep, what was kept
    between marks and what holds what grew in Lua, what the rules found, and if that is less than MOST, what the peak consists of.
    What a snapshot alone says comes first of a program that was attached to, most of whose objects may be older.
    """
    of_lua, is_attached = [*_of_lua_held(data)], "attached" in data.info
    found = [
        *_of_nothing(data),
        *_of_free(data),
        *_of_what_is_kept(data),
        *(of_lua if is_attached else ()),
        *(
            Sentence(
                each.line,
                f"{APPROXIMATE if each.line in data.approximate else ''}{each.rule.text(each.bytes, each.blocks)}"
                f"{when(data, each)} ({each.share:.1%} of {_whole(data, each.rule)[1]}).",
                path_of(each.site),
                link_to(data, each.site, each.key),
                held_text(data, each.site) if each.rule.trouble == KEPT else "",
            )
            for each in _chosen(data, findings)
        ),
        *(() if is_attached else of_lua),
    ][:MOST]
    return found if len(found) == MOST else [*found, *_of_peak(data)]
