"""The totals of a trace: the object that `steve summary --json` prints and other tools count on.

Definitions: `bytes` are those that the program requested. A resize adds its new size to `allocated` and its old size to
`freed`, and makes no block. read and written both count a modify. instructions and seconds are those of the whole
run if the trace has them, else up to its last event; between marks, those between. Numbers of loads and stores are None
if they were not recorded. threads: number of threads with
events; states: number of Lua states. complete: the trace has a proper end and no events are missing. program: how
the program ended. dropped: number of missing events; dropped_at_least: there may be more, because accesses after
--max-size was reached were not counted; lost: of the missing ones, those that the native recorder has dropped.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from steve.terminal.units import human_count, human_ns
from steve.trace import earlier_blocks, missing, runtimes, unseen

if TYPE_CHECKING:
    from steve.kernels._totals import Summary
    from steve.trace._memtrace import Pages, Trace

# of a sample: the numbers that are estimates, with their names in the kernel
VARIANCES = {
    "events": {
        "new": "news",
        "free": "frees",
        "resize": "resizes",
        "load": "loads",
        "store": "stores",
        "modify": "modifies",
    },
    "bytes": {
        "allocated": "allocated",
        "freed": "freed",
        "peak_live": "peak_bytes",
        "live_at_end": "live_bytes",
        "read": "read",
        "written": "written",
    },
    "blocks": {"total": "news", "peak_live": "peak_blocks", "live_at_end": "live_blocks"},
}
# the facts about all blocks at the end of a sample by blocks, with their names in the object
EXACT = {
    "all_news": "new_events",
    "all_frees": "free_events",
    "all_resizes": "resize_events",
    "all_allocated": "bytes_allocated",
    "all_freed": "bytes_freed",
}
# the numbers that are not known of a trace without loads and stores
OF_ACCESSES = {"events": ("load", "store", "modify"), "bytes": ("read", "written"), "unmatched": ("access",)}
NEVER_FREED = "never freed"  # of what lives at the end of a recording that ended with the program
TIME_UNITS = ("instructions", "nanoseconds", "events")
PROGRAM_EVENTS = ("new", "free", "resize", "load", "store", "modify")


def is_complete(trace: "Trace", lost: int) -> bool:
    """Does a trace that was read to its end have all events? A truncated classic text cannot be recognised."""
    stats = trace.stats()
    ended = stats["is_text"] or stats["ending"] not in ("unknown", "limit")
    return trace.problem is None and ended and not stats["damaged_chunks"] and not lost


def program_end(trace: "Trace") -> dict:
    """How the program ended, whether or not its trace is complete. `ended`: exit (`status` is its exit status), signal
    (`signal` is its name), exec (the process executed another program), killed (most likely by SIGKILL, because nothing
    else ends program and recorder at the same time), detached (the program went on) or unknown."""
    facts, ending = trace.info(), trace.stats()["ending"]
    status, number = facts.get("exit_status", ""), facts.get("signal", "")
    if number.isdigit():
        names = {int(s): s.name for s in signal.Signals}
        return {"ended": "signal", "status": None, "signal": names.get(int(number), f"signal {number}")}
    if status.isdigit():
        return {"ended": "exit", "status": int(status), "signal": None}
    return {"ended": ending if ending in ("exec", "killed", "detached") else "unknown", "status": None, "signal": None}


def program_end_text(end: dict) -> str:
    """The same as text."""
    if end["ended"] == "exit":
        return f"exit status {end['status']}"
    return f"{end['signal']}" if end["ended"] == "signal" else end["ended"]


def cut_short(trace: "Trace", end: str | None) -> str:
    """That the program did not end as a program does that has done its work, or that the file ends before it: "" if nothing
    says so. end: the mark up to which it was read; what came after that is not judged."""
    if end is not None:
        return ""
    found = program_end(trace)
    how = {"killed": "was killed", "signal": f"was ended by {found['signal']}"}.get(found["ended"], "")
    if found["status"]:
        how = f"ended with exit status {found['status']}"
    if how:
        return f"the program {how}: what it had not done by then is missing"
    if trace.stats()["ending"] == "limit":
        return "the file reached its largest size: what came after that is missing"
    return ""


def ended_with_program(trace: "Trace") -> bool:
    """Did the recording end with the program? Else what lives at its end may still be freed. A classic text does not say how
    the program ended, and counts as one that did."""
    stats = trace.stats()
    return stats["is_text"] or stats["ending"] in ("exit", "killed", "exec")


def not_freed(trace: "Trace") -> str:
    """What is true of the blocks that live at the end of a trace."""
    return NEVER_FREED if ended_with_program(trace) else "not freed before the recording ended"


def time_unit(trace: "Trace") -> str:
    """What the times of events count: instructions; in a trace of the native recorder, nanoseconds; in an imported trace
    of a recording without times, events."""
    unit = trace.info().get("time_unit", "instructions")
    return unit if unit in TIME_UNITS else "instructions"


def duration(n: int, unit: str) -> str:
    """A time of a trace with its unit, which is one of time_unit()."""
    if unit != "nanoseconds":
        return f"{human_count(n)} {unit}"
    return human_ns(n) if n < 999 * 10**9 else f"{n / 1e9:,.0f} s"


def end_time(unit: str, stats: dict, last_event: int) -> int:
    """When the recording of a trace ended that was read to its end, in this unit of its times; 0: between two marks. stats: of the
    trace; last_event: its time."""
    if stats.get("between"):
        return 0
    return max(last_event, int(stats["totals"].get(unit, 0) or stats.get(unit, 0)))


def older_frees(trace: "Trace") -> int:
    """Frees and resizes of blocks that the program had before the recorder was attached to it; they are no events."""
    return int(trace.info().get("older_frees", 0))


def existing(trace: "Trace") -> dict:
    """What the recording has of the blocks from before the recorder was attached, if it was asked for them: their number
    and bytes, and why they are not known, or not all."""
    facts = trace.info()
    if "existing_blocks" not in facts:
        return {}
    found = {"blocks": int(facts["existing_blocks"]), "bytes": int(facts["existing_bytes"])}
    return {"existing": {**found, "problem": facts.get("existing_problem", "")}}


def peak_reserve(trace: "Trace") -> int:
    """Of the most bytes live in the whole trace: those of blocks that another allocator has divided into pieces after
    that. Such a block counts as a whole until its first piece, if the list of these blocks cannot be read ahead."""
    found = trace.info().get("peak_reserve", "")
    known = bool(trace.sample) or trace.has_containers()
    return int(found) if found.isdecimal() and not known else 0


def divided(trace: "Trace") -> dict:
    """Blocks that other allocators divided into blocks of their own, and that were not freed when the trace ended: their number
    and bytes; {} if there are none, or in a sample, which does not count all of them."""
    facts = trace.info()
    blocks, size = (facts.get(f"divided_{name}", "") for name in ("blocks", "bytes"))
    if trace.sample or not (blocks.isdecimal() and size.isdecimal()):
        return {}
    return {"divided": {"blocks": int(blocks), "bytes": int(size)}}


def reserve_remark(trace: "Trace") -> str:
    """The same for a heading; "" if there are none."""
    from steve.terminal.tables import size

    reserve = peak_reserve(trace)
    return f" (the peak has {size(reserve)} that another allocator divided into pieces later)" if reserve else ""


def most_resident(looks: "Iterable[Pages]") -> int:
    """The most bytes that were resident up to the last of these looks, as the kernel has counted them, between two looks, too.
    That is never less than what any look shows: the program runs while its pages are read."""
    return max(
        (max(look.highest, look.before, look.after, sum(each.rss for each in look.mappings)) for look in looks),
        default=0,
    )


def resident(trace: "Trace", stats: dict) -> dict:
    """The most bytes that were resident (--pages), with those of the recorder, and how many were the recorder's at the look
    with the most; {} if there was no look, or between two marks."""
    looks = trace.pages() if not stats.get("between") else []
    most = most_resident(looks)
    if not most:
        return {}
    from steve.analysis import owners

    largest = max(looks, key=lambda look: sum(each.rss for each in look.mappings))
    return {"resident": most, "resident_recorder": owners.of_recorder(trace, largest)}


def exact(trace: "Trace", stats: dict) -> dict:
    """What the program did with all blocks, if the trace is a sample and has these numbers. They are not those between two
    marks."""
    facts = trace.info()
    found = {name: int(facts[key]) for key, name in EXACT.items() if key in facts and not stats.get("between")}
    return {"exact": found} if found else {}


def extent(stats: dict, totals: dict) -> dict:
    """Instructions and seconds: of the whole run, up to the last event, or between two marks."""
    if stats.get("between"):
        return {"instructions": stats["instructions"], "seconds": stats["nanoseconds"] / 1e9}
    return {
        "instructions": stats["totals"]["instructions"] or stats["instructions"] or totals["last_event"],
        "seconds": (stats["totals"]["nanoseconds"] or stats["nanoseconds"]) / 1e9,
    }


def is_least(stats: dict) -> bool:
    """Can the number of dropped events be larger than counted?"""
    return stats["ending"] == "limit"


def dropped_text(dropped: int, at_least: bool) -> str:
    """That number as text."""
    return f"{'at least ' if at_least else ''}{dropped:,}"


def summary_object(trace: "Trace", summary: "Summary", whole: bool = True) -> dict:
    """The totals of a trace that `summary` has walked over. whole: all blocks, and not only those between marks?"""
    found = _totals(trace, summary, whole)
    if not missing.accesses(trace):
        return found
    for group, names in OF_ACCESSES.items():
        found[group].update(dict.fromkeys(names))
        for name in names:
            found.get("standard_errors", {}).get(group, {}).pop(name, None)
    return found


def _totals(trace: "Trace", summary: "Summary", whole: bool) -> dict:
    """The same with 0 for what was not recorded."""
    stats, events, totals = trace.stats(), summary.events, summary.totals
    variances = summary.variances
    heaps = [trace.heap(i) for i in range(trace.counts()["heaps"])]
    return {
        "events": {name: events[name] for name in PROGRAM_EVENTS},
        "bytes": {
            "allocated": totals["allocated"],
            "freed": totals["freed"],
            "peak_live": totals["peak_bytes"],
            "live_at_end": totals["live_bytes"],
            "read": totals["read"],
            "written": totals["written"],
        },
        "blocks": {"total": events["new"], "peak_live": totals["peak_blocks"], "live_at_end": totals["live_blocks"]},
        "unmatched": {"free": stats["unmatched_free"], "access": stats["unmatched_access"]},
        "mismatched_frees": stats["mismatched_free"],
        "older_frees": older_frees(trace),
        **({"older_resized": earlier_blocks.resized(trace)} if earlier_blocks.resized(trace) else {}),
        **existing(trace),
        **extent(stats, totals),
        "threads": summary.threads,
        "states": sum(heap.kind == "lua" for heap in heaps),
        "complete": is_complete(trace, totals["lost"]),
        "time_unit": time_unit(trace),
        "program": program_end(trace),
        "dropped": max(stats["totals"]["dropped"], totals["lost"]),
        "dropped_at_least": is_least(stats),
        **missing.facts(trace),
        **unseen.facts(trace, stats["handles"]),
        **runtimes.facts(trace, totals["peak_bytes"] if whole else None),
        **({"peak_reserve": peak_reserve(trace)} if peak_reserve(trace) else {}),
        **(divided(trace) if whole else {}),
        **resident(trace, stats),
        **trace.sample.facts(
            {
                group: {name: round(max(variances[of], 0) ** 0.5, 1) for name, of in names.items()}
                for group, names in VARIANCES.items()
            }
        ),
        **exact(trace, stats),
    }


def sum_of(objects: Sequence[dict]) -> dict:
    """The object of several traces: the sums of theirs, with these as `processes`. Each is at its own peak."""
    return {**_summed(objects), "files": len(objects), "processes": list(objects)}


# what is no sum
_OF_ALL: dict[str, Callable[[list], object]] = {
    "seconds": max,
    "complete": all,
    "dropped_at_least": any,
    "estimated": all,
    "sample_mean": max,  # they are equal
    "sample_every": max,
    "not_recorded": lambda found: list(dict.fromkeys(sum(found, []))),
    "not_seen": lambda found: [
        dict(each) for each in dict.fromkeys(tuple(one.items()) for some in found for one in some)
    ],
    "standard_errors": lambda found: _errors(found),
}
_OF_PROCESS = ("status", "signal")  # None if they differ


def _summed(objects: Sequence[dict]) -> dict:
    """The sum of objects, by key. What one does not know is not known of the sum; texts that differ are `several`."""
    found = {}
    for key in dict.fromkeys(key for one in objects for key in one if key != "process"):
        values = [one[key] for one in objects if key in one]
        if key in _OF_ALL:
            found[key] = _OF_ALL[key](values)
        elif isinstance(values[0], dict):
            found[key] = _summed(values)
        elif isinstance(values[0], str) or key in _OF_PROCESS:
            found[key] = values[0] if len(set(values)) == 1 else None if key in _OF_PROCESS else "several"
        else:
            found[key] = None if None in values else sum(values)
    return found


def _errors(found: list[dict]) -> dict:
    """The standard errors of sums, by their names."""
    return {
        group: {name: round(sum(one[group][name] ** 2 for one in found) ** 0.5, 1) for name in found[0][group]}
        for group in found[0]
    }
