"""Events that a trace lacks, as its facts state.

The native recorder may drop events: with --when-full=drop while its ring is full, or in signal handlers. What is known of
blocks is incomplete then, which every command says. Loads and stores are missing if they were not recorded, which the
commands say that count them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

KINDS = {
    "allocations": "allocations",
    "frees": "frees",
    "resizes": "resizes",
    "others": "types of blocks and samples of stacks",
    "in_handlers": "in signal handlers",
}


NO_ACCESSES = "the trace has no loads and stores"
# the fact of recordings in which accesses were switched off: "none" if they were never on, else "part"
SWITCHED = "accesses"
REPLACED = "the program has executed another one, or itself (exec): what runs since then is not in this file"
IN_PART = (
    "loads and stores were recorded in a part of the run only (--start-off=yes, --toggle-fn, LJTRACE_STOP or vgdb off): blocks "
    "may have more of them than are counted"
)


def counts(trace: Trace) -> dict[str, int]:
    """The number of missing events of each kind of KINDS; {} if none are missing."""
    facts = trace.info()
    found = {kind: int(facts.get(f"lost_{kind}", 0)) for kind in KINDS}
    return found if any(found.values()) else {}


def facts(trace: Trace) -> dict:
    """The key of an object of --json that has these numbers; {} if no events are missing."""
    found = counts(trace)
    return {"lost": found} if found else {}


def text(trace: Trace) -> str:
    """What is missing, and what that means for the results; "" if nothing is."""
    found = counts(trace)
    parts = [f"{n:,} {KINDS[kind]}" for kind, n in found.items() if n]
    return (
        f"{sum(found.values()):,} events are missing, which the recorder has dropped ({', '.join(parts)}): a block "
        "whose allocation is missing is not counted, and one whose free is missing counts as live until its memory is "
        "used again"
        if found
        else ""
    )


def remark(trace: Trace) -> str:
    """The same in short for a heading; "" if nothing is missing."""
    total = sum(counts(trace).values())
    return f" ({total:,} {'event is' if total == 1 else 'events are'} missing)" if total else ""


def remarks(trace: Trace) -> list[str]:
    """What the recorder reported that it did not see, one sentence each."""
    facts = trace.info()
    found = facts.get("problems", "").splitlines()
    if children := int(facts.get("unrecorded_children", 0)):
        found.append(
            f"{children:,} forked {'child is' if children == 1 else 'children are'} not recorded: out of the recorder's "
            "reach (another network namespace, a seccomp filter, a limit), or killed before its recording began"
        )
    if started := int(facts.get("started_programs", 0)):
        found.append(
            f"programs that it starts are not recorded ({started:,} or more here): record each by itself, or all with "
            "valgrind --tool=ljtrace --trace-children=yes"
        )
    if facts.get("recorder") == "native" and trace.stats()["ending"] == "exec":
        found.append(
            f"{REPLACED}: if it still runs, `ljtrace attach {facts.get('pid', 'PID')}` records it from now on; valgrind "
            "--tool=ljtrace --trace-children=yes records such programs from their start"
        )
    return [line for line in found if line]


def children(trace: Trace) -> str:
    """That forked children have files of their own; "" if the program has not forked."""
    count = int(trace.info().get("forked_children", 0))
    if not count:
        return ""
    return (
        "a forked child is not in this file: it has a file of its own, with its process id in the name, unless it executed "
        "another program"
        if count == 1
        else f"{count:,} forked children are not in this file: they have files of their own, with their process ids in the "
        "names, unless they executed another program"
    ) + ". Several files, or a folder of them, count as one"


def accesses(trace: Trace) -> str:
    """That the trace has no loads and stores, and how they are recorded, for a command that counts them; "" if they were
    recorded or nothing is known of that."""
    why = not_recorded(trace)
    return why and why.replace(NO_ACCESSES, f"{NO_ACCESSES}, which this command counts")


def not_recorded(trace: Trace) -> str:
    """The same for other commands."""
    facts = trace.info()
    if facts.get("recorder") == "native":
        why = "`ljtrace run` and `ljtrace attach` do not record them; `valgrind --tool=ljtrace` does"
    elif facts.get("trace_mem") == "no":
        why = "it was recorded with --trace-mem=no; record without that option"
    elif facts.get(SWITCHED) == "none":
        why = (
            "they were switched off in all of the run (--start-off=yes, --toggle-fn, vgdb off); record without that, or switch "
            "them on"
        )
    elif "accesses" in facts.get("lacks", "").split(", "):
        why = f"it was imported from {facts['imported_from']}; `valgrind --tool=ljtrace` records them"
    else:
        return ""
    return f"{NO_ACCESSES}: {why}"


def has_accesses(trace: Trace, counted: int) -> bool:
    """Were loads and stores recorded? A program may have made none. counted: how many of them were read; if the facts of
    the trace say nothing, it has them if there are any."""
    if accesses(trace):
        return False
    return counted > 0 or trace.info().get("trace_mem") == "yes"


def accesses_in_part(trace: Trace) -> str:
    """That there are loads and stores of a part of the run only; "" if they were recorded in all of it, or not at all."""
    return IN_PART if trace.info().get(SWITCHED) == "part" and not accesses(trace) else ""


def has_all_accesses(trace: Trace, counted: int) -> bool:
    """Were loads and stores recorded in all of the run, so that what has none was not accessed? counted: see
    has_accesses()."""
    return has_accesses(trace, counted) and not accesses_in_part(trace)
