# SPDX-License-Identifier: GPL-2.0-or-later
"""Put the report together: from data and drawings to one HTML file that needs nothing else.

The page links to nothing and loads nothing; fonts are the reader's, drawings are inline. Its size is capped:
all tables and drawings are bounded, and if names are so long that it would still be too large, fewer sites
are shown.
"""
from __future__ import annotations

import html
import os
import re
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from steve.analysis import looks
from steve.analysis.owners import RECORDER
from steve.system import samples
from steve.system.errors import SteveError
from steve.trace import runtimes
from steve.terminal.units import counted, human_bytes, human_count, human_ns, human_ns_or_less
from steve.report.charts import Drawing, blocks_over_time, lifetimes, memory_over_time, size_lifetime_map
from steve.report import offsets
from steve.report.collect import NEVER_FREED, TraceData, clean, runs
from steve.report.comparison import Comparison
from steve.report.filmstrip import Filmstrip
from steve.report.findings import findings, not_judged, threshold_text, without_result
from steve.report.sentences import link_to, of_snapshot, sentences
from steve.analysis.totals import dropped_text

SIZE_CAP = 5 << 20
SCRIPT = "report/page.js"  # of the explorable part


@dataclass(frozen=True)
class HeaderNumber:
    """A number of the header with its definition."""

    name: str
    value: str
    exact: str
    meaning: str


@dataclass(frozen=True)
class Chart:
    """A chart with its choices; the first is shown."""

    key: str
    title: str
    text: str
    drawings: list[Drawing]


_ENDINGS = {
    "exit": "The program ended by itself.",
    "killed": "The program was killed; every event up to then is here.",
    "exec": "The program was replaced by another (exec); every event up to then is here.",
    "limit": "The file reached its largest size (--max-size or ulimit -f); later events are not here.",
    "stopped": "Tracing was ended on request; later events are not here.",
    "detached": "The recorder was detached; the program went on.",
    "unknown": "The trace has no end: the program is still running, or the recorder was killed.",
}


def as_sentence(text: str) -> str:
    """A text that begins a sentence: with a capital letter, unless its first word is a name of code, such as malloc_trim(0)."""
    first = text.partition(" ")[0]
    return text if any(sign in first for sign in "(_.=") else text[:1].upper() + text[1:]


def completeness(data: TraceData) -> str:
    """A sentence on how the trace ends and what is missing in it."""
    if data.problem is not None:
        return f"This report covers what comes before the trouble: {data.problem}"
    if data.stats["damaged_chunks"]:
        return f"{data.stats['damaged_chunks']} damaged parts of the file were skipped."
    number = dropped_text(data.dropped, data.dropped_at_least)
    number = number[0].upper() + number[1:]
    missing = f" {number} events are missing: the recorder left them out." if data.dropped else ""
    if data.stats["is_text"]:
        return "A classic text trace: it does not say how the program ended." + missing
    ending = str(data.stats["ending"])
    return _ENDINGS.get(ending, f"The trace ended: {ending}.") + missing + estimated(data) + not_seen(data)


def not_seen(data: TraceData) -> str:
    """A sentence for each runtime whose memory the trace does not show, and one if accesses are of a part of the run; "" if
    there is none."""
    remarks = [*runtimes.remarks(data.not_seen), *filter(None, [data.accesses_in_part])]
    return "".join(f" {remark[0].upper()}{remark[1:]}." for remark in remarks)


def marks_left_out(made: int, kept: int) -> str:
    """A sentence if only the first marks are kept; else ""."""
    return f" Of {made:,} marks, only the first {kept:,} are shown." if made > kept else ""


def estimated(data: TraceData) -> str:
    """A sentence on numbers that are estimates; "" if the trace is no sample of the blocks."""
    if not data.sample:
        return ""
    return (
        f" The numbers of blocks, bytes and accesses are {data.sample.how} was recorded on average. Operations are the "
        "recorded ones."
    )


def _estimate(text: str, value: int, error: float) -> str:
    """A number as text, with its standard error in percent if it is an estimate that has one."""
    return f"{text} ±{error / value:.0%}" if error and value else text


def _bytes_metric(name: str, value: int, meaning: str, error: float = 0) -> HeaderNumber:
    return HeaderNumber(name, _estimate(human_bytes(value), value, error), f"{value:,} bytes", meaning)


def _count_metric(name: str, value: int, meaning: str, error: float = 0) -> HeaderNumber:
    return HeaderNumber(name, _estimate(human_count(value), value, error), f"{value:,}", meaning)


def _has_no_free(data: TraceData) -> bool:
    """Was free memory that allocators keep looked for, and not found?"""
    found = data.kept_free[0]
    return found is not None and not found.is_much


def _has_garbage(data: TraceData) -> bool:
    """May there be garbage among the blocks that live at the end?"""
    return not data.of_collector.isdisjoint(data.found[NEVER_FREED].numbers.tolist())


def _from_before(data: TraceData, key: str) -> str:
    """How much of a number was there before the attach, if blocks from before were recorded; else "". key: blocks or bytes."""
    count = int(data.info.get(f"existing_{key}", 0))
    if not count:
        return ""
    return f"; {human_bytes(count) if key == 'bytes' else f'{count:,}'} of them from before the attach"


def _made_since(data: TraceData) -> str:
    """Which blocks count if those from before the attach do not; else "". What Lua had before is known in bytes."""
    if "attached" not in data.info or "existing_blocks" in data.info:
        return ""
    before = int(data.info.get("lua_bytes_before", 0))
    return f", of those made since the attach{f'; Lua had {human_bytes(before)} before' if before else ''}"


def _heap_metrics(data: TraceData) -> list[HeaderNumber]:
    t, error = data.totals, {**dict.fromkeys(data.totals, 0.0), **data.standard_errors}
    peak = f"the most bytes live at once, as asked for, first at operation {t['peak_operation']:,}"
    peak += _made_since(data)
    peak += f"; {samples.PEAK}" if data.sample else ""
    strays = f"blocks freed; {data.stats['unmatched_free']:,} more frees were of no block"
    return [
        _bytes_metric("peak of live memory", t["peak_bytes"], peak, error["peak_bytes"]),
        _bytes_metric(
            "live at the end",
            t["live_bytes"],
            f"in {counted(t['live_blocks'], 'block')} {data.not_freed}{', of those made since the attach' if _made_since(data) else ''}"
            + (", with garbage of Lua that was not yet collected" if _has_garbage(data) else ""),
            error["live_bytes"],
        ),
        _bytes_metric(
            "allocated",
            t["allocated"],
            f"all bytes ever asked for; a resize asks for its new size{_from_before(data, 'bytes')}",
            error["allocated"],
        ),
        _count_metric(
            "blocks made",
            t["new"],
            f"New events; at most {t['most_blocks']:,} lived at once{_from_before(data, 'blocks')}",
            error["new"],
        ),
        _count_metric("frees", t["free"], strays, error["free"]),
        _count_metric("resizes", t["resize"], "reallocations; the block keeps its identity", error["resize"]),
    ]


def _access_metrics(data: TraceData) -> list[HeaderNumber]:
    t, error = data.totals, data.standard_errors
    read = f"by {t['load']:,} loads and the {t['modify']:,} modifies"
    return [
        _bytes_metric("read", t["bytes_read"], read, error.get("bytes_read", 0)),
        _bytes_metric(
            "written", t["bytes_written"], f"by {t['store']:,} stores and the modifies", error.get("bytes_written", 0)
        ),
    ]


def _resident_metrics(data: TraceData) -> list[HeaderNumber]:
    """The most resident bytes, and who had most of them; none if the owners are not known."""
    over_time = data.resident
    if not over_time or not over_time["resident"]:
        return []
    most = max(over_time["resident"])
    at = over_time["resident"].index(most)
    sizes = dict(zip(over_time["kinds"], (part[at] for part in over_time["parts"])))
    titles = dict(zip(over_time["kinds"], over_time["titles"]))
    own = sizes.pop(RECORDER, 0)
    largest = sorted(sizes, key=lambda kind: -sizes[kind])[:3]
    said = ", ".join(f"{human_bytes(sizes[kind])} {titles[kind]}" for kind in largest if sizes[kind])
    with_own = f" with {human_bytes(own)} of the recorder" if own else ""
    meaning = f"RSS{with_own}, also between looks; {human_bytes(most)} at look {over_time['number'][at]}: {said}"
    return [_bytes_metric("resident at most", over_time["highest"], meaning)]


def _run_metrics(data: TraceData) -> list[HeaderNumber]:
    took = data.stats["totals"]["nanoseconds"] or data.stats["nanoseconds"]
    rows = []
    if data.instructions and data.time_unit == "instructions":
        rows.append(_count_metric("instructions", data.instructions, "guest instructions executed"))
    if took:
        rows.append(
            HeaderNumber("time under the tracer", human_ns(took), f"{took:,} ns", "wall clock, slowed by tracing")
        )
    if data.totals["badfree"]:
        meaning = (
            f"{data.stats['unmatched_free']:,} frees of addresses where no block begins; "
            f"{data.stats['mismatched_free']:,} of blocks that functions of another family made"
        )
        rows.append(_count_metric("bad frees", data.totals["badfree"], meaning))
    return rows


def metrics(data: TraceData) -> list[HeaderNumber]:
    """The totals with a definition each; those the trace knows nothing of are left out."""
    of_accesses = _access_metrics(data) if data.accesses else []
    return _heap_metrics(data) + _resident_metrics(data) + of_accesses + _run_metrics(data)


def _charts(data: TraceData) -> list[Chart]:
    return _heap_charts(data) + _address_charts(data)


def _address_charts(data: TraceData) -> list[Chart]:
    if not data.addresses:
        return []
    text = (
        "Whose the resident pages were when most bytes were resident, or which blocks were there: by the stacks that made "
        "them, by their ages or by their sizes. steve map draws other times."
    )
    return [
        Chart("addresses", "Address space", text, [Drawing(key, key, each) for key, each in data.addresses.items()])
    ]


def _heap_charts(data: TraceData) -> list[Chart]:
    return [
        Chart(
            "memory",
            "Memory over time",
            "The most live bytes in each interval, as the program asked for them. Point at the curve for numbers."
            + marks_left_out(data.totals["marks"], len(data.marks)),
            memory_over_time(data),
        ),
        Chart(
            "liveblocks",
            "Live blocks over time",
            "The most live blocks in each interval.",
            [Drawing("n", "blocks", blocks_over_time(data))],
        ),
        Chart(
            "lifetime",
            "Lifetimes",
            "How many operations blocks lived, from New to Free. Blocks never freed have "
            "no lifetime and are shown separately.",
            lifetimes(data),
        ),
        Chart(
            "map",
            "Size and lifetime",
            "Which sizes live how long; stronger colour means more (log scale).",
            size_lifetime_map(data),
        ),
    ]


def trace_name(path: str) -> str:
    """The name of a trace in its report."""
    return "standard input" if path == "-" else clean(os.path.abspath(path), 4096)


def trace_of_report(path: str) -> str:
    """The name of the trace whose report a file is; "" if it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(r'<meta name="steve-trace" content="([^"]*)">', file.read(16384))
    except (OSError, ValueError):
        return ""
    return html.unescape(found[1]) if found else ""


@lru_cache(maxsize=None)
def script(name: str) -> str:
    """A script that was bundled when steve was built."""
    import steve

    for folder in steve.__path__:
        if (Path(folder) / name).is_file():
            return (Path(folder) / name).read_text(encoding="utf-8")
    raise SteveError(f"{name}: is missing in {' and '.join(steve.__path__)}: build or install steve again")


def environment() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(str(Path(__file__).parent))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(
        runs=runs,
        bytes=human_bytes,
        count=human_count,
        ns=human_ns,
        ns_or_less=human_ns_or_less,
        group=lambda n: f"{n:,}",
        counted=counted,
        sentence=as_sentence,
    )
    return environment


FREE_TEXTS = {"title": looks.FREE_TITLE, "rule": looks.FREE_RULE}


def some_growth(data: TraceData) -> bool:
    """Does a line grow, or, between two snapshots, what a path of references leads to?"""
    of_lines = "growth" in data.found and bool(data.found["growth"].rows["size"].any())
    return of_lines or bool(data.lua_growth and data.lua_growth.rows)


def _render(data: TraceData, sites: int, comparison: Comparison | None, film: Filmstrip | None) -> str:
    found = findings(data)
    text: str = (
        environment()
        .get_template("report.html.j2")
        .render(
            data=data,
            name=trace_name(data.path),
            totals=data.totals,
            whole=data.complete,
            sentence=completeness(data),
            metrics=metrics(data),
            charts=_charts(data) if len(data.timeline) else [],
            sites=data.sites[:sites],
            all_sites=data.all_sites,
            findings=found,
            without_result=[*without_result(data), *([FREE_TEXTS["title"]] if _has_no_free(data) else [])],
            threshold=threshold_text(data),
            not_judged=not_judged(data),
            sentences=sentences(data, found),
            free=kept_free if (kept_free := data.kept_free[0]) and kept_free.is_much else None,
            free_texts={**FREE_TEXTS, "help": looks.free_help([data.free_call], data.kept_free[0])},
            no_growth=data.not_judged.get("growth", ""),
            some_growth=some_growth(data),
            link=partial(link_to, data),
            of_snapshot=partial(of_snapshot, data),
            offsets=offsets,
            comparison=comparison,
            film=film,
            cap=SIZE_CAP,
            explorable=data.explorable,
            script=Markup(script(SCRIPT)) if data.explorable else "",
        )
    )
    return text


def render(data: TraceData, comparison: Comparison | None = None, film: Filmstrip | None = None) -> bytes:
    """The page as UTF-8, never larger than SIZE_CAP."""
    sites = len(data.sites)
    while True:
        page = _render(data, sites, comparison, film).encode("utf-8")
        if len(page) <= SIZE_CAP:
            return page
        if sites == 0:
            raise SteveError(
                f"{data.path}: the report would be larger than {human_bytes(SIZE_CAP)}; "
                "give fewer --allocstats files or no --film"
            )
        sites //= 2
