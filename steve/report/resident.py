# SPDX-License-Identifier: GPL-2.0-or-later
"""What was resident, for the report, of a recording with --pages: RSS and its owners over time, and the tables of
`steve resident` at the look with the most resident bytes.

The values are known at the looks only. The page and `report --json` have the same numbers.
"""
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from steve.analysis import live_at, looks, owners as ownership, totals
from steve.analysis.owners import FREE, KINDS, LUA, RECORDER
from steve.analysis.resident_rows import View, facts_of, remarks_of
from steve.report.names import own_first, site_name
from steve.terminal.progress import Progress
from steve.terminal.tables import StackText, told_apart
from steve.terminal.units import human_bytes, human_ns
from steve.trace import policy
from steve.trace.policy import is_own
from steve.trace.places import Places

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Pages

UNKNOWN = "(unknown)"  # site
MOST_SITES = 20  # of the table
MOST_LOOKS = 60  # of the picture: each takes time in proportion to the live blocks


def resident_over_time(chosen: Blocks) -> dict[str, Any] | None:
    """For the page and for JSON; None if the trace has no look. looks: their number in the trace; why_not: why none is
    shown, ""; highest: the most bytes that were resident, also between looks; of those that are shown, as columns: number,
    time in nanoseconds, why, resident; of each kind of owner that has any: kinds, titles, and parts, its bytes at each
    look."""
    trace = chosen.trace
    every = looks.of_trace(trace)
    if not every:
        return None
    why_not = looks.why_no_owners(chosen)
    found: list[looks.Look] = []
    if not why_not:
        with Progress(chosen.command, chosen.args.quiet) as progress:
            found = looks.over_time(trace, chosen.open_again(), MOST_LOOKS, progress)
    kinds = [kind for kind in KINDS if any(look.kinds[kind] for look in found)]
    titles = looks.titles_of(trace.info())
    return {
        "looks": len(every),
        "why_not": why_not,
        "highest": totals.most_resident(trace.pages()),
        "number": [look.number for look in found],
        "time": [look.time for look in found],
        "why": [look.why for look in found],
        "resident": [look.resident for look in found],
        "kinds": kinds,
        "titles": [titles[kind] for kind in kinds],
        "parts": [[look.kinds[kind] for look in found] for kind in kinds],
    }


class PeakLook(NamedTuple):
    """The look with the most resident bytes. number: from 1 on; live: the blocks that were live then."""

    number: int
    pages: Pages
    live: LiveBlocks


class OwnerTables(NamedTuple):
    """Whose the pages were at that look: rows of `steve resident --by kind` and --by site, with texts; others: the number of
    sites that are left out; remarks: sentences, the last of which introduces the list `advice`, if there is one; free, whole,
    returnable: bytes that allocators keep, and of these what can be returned at most and at least; resident: all that was;
    recorder: of that, the recorder's."""

    title: str
    kinds: list[dict[str, Any]]
    sites: list[dict[str, Any]]
    others: int
    remarks: list[str]
    advice: list[str]
    free: int
    whole: int
    returnable: int
    resident: int
    recorder: int
    number: int


def peak_look(chosen: Blocks) -> PeakLook | None:
    """That look of a trace that was read, by another reading of it. None without looks, or if the owners of pages cannot be
    found: then `why_not` of resident_over_time() has the reason."""
    every = looks.of_trace(chosen.trace)
    if not every or looks.why_no_owners(chosen):
        return None
    number = looks.number_of(every, "peak")
    with Progress(chosen.command, chosen.args.quiet) as progress:
        live = live_at.live_at(chosen.open_again(), every[number - 1].time, progress)
    return PeakLook(number, every[number - 1], live)


def name_of_site(chosen: Blocks, site: int) -> str:
    """The name of a site where there is little room."""
    frames = _frames(chosen, site)
    return own_first(frames) if frames else UNKNOWN


def _name_with_callers(chosen: Blocks, site: int) -> str:
    """The same, of which a table shows as many callers as it takes to tell its rows from each other."""
    frames = _frames(chosen, site)
    own = next((at for at, frame in enumerate(frames) if frame is None or is_own(frame)), 0)
    return (
        StackText([own_first(frames), *site_name(frames[own + 1 :]).parts], 1)
        if frames[own + 1 :]
        else name_of_site(chosen, site)
    )


def _frames(chosen: Blocks, site: int) -> list[Any]:
    return chosen.places.sites.shown.frames(site) if site else []


def owners(chosen: Blocks, look: PeakLook) -> OwnerTables:
    """The tables for the page."""
    trace = chosen.trace
    found = ownership.Finder(trace, look.pages, look.live).find()
    view = View(trace, found, look.live, Places(trace, policy.of_arguments(chosen.args)), partial(name_of_site, chosen))
    facts = facts_of(trace, found, look.number)
    remarks = remarks_of(trace, view, facts, "peak")
    sites = sorted(view.of_sites(partial(_name_with_callers, chosen)), key=lambda row: -row["bytes"])
    shown = [row for row in sites[:MOST_SITES] if row["bytes"]]
    names = told_apart([row["site"] for row in shown if isinstance(row["site"], StackText)])
    shown = [{**row, "site": names.get(row["site"], row["site"])} for row in shown]
    why = f"mark {look.pages.name}" if look.pages.name else look.pages.reason
    return OwnerTables(
        f"{human_bytes(found.resident)} resident at look {look.number} ({human_ns(look.pages.time)}, {why})",
        view.of_kinds(),
        shown,
        sum(row["bytes"] > 0 for row in sites) - len(shown),
        [text for text in remarks if not text.startswith(" ")],
        [text.strip() for text in remarks if text.startswith(" ")],
        view.kinds[FREE] + view.kinds[LUA],
        view.whole(FREE)[0] + view.whole(LUA)[0],
        view.returnable(FREE) + view.returnable(LUA),
        found.resident,
        view.kinds[RECORDER],
        look.number,
    )
