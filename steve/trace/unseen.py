"""What of the program's heap was not recorded, as the facts of a trace state.

A recorder finds allocation functions by their names. If it cannot record one, it says so in the fact `problems`; if the
program has used memory but hardly any block was recorded, in the facts `unseen_...`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.trace import missing

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

# facts that a recorder notes if the program seems to use an allocator that it does not know
FACTS = ("unseen_mapped_bytes", "unseen_block_bytes", "unseen_reason")
PROBLEMS = "problems"  # the fact with lines on what was not recorded
NAMES = "--alloc-prefix, --observe-alloc and --heap=mmap"
# by the fact's word: what kind of program it is, what it did, what may help
REASONS = {
    "static": ("a static program without symbols ", "mapped", "--heap=mmap"),
    "copy": ("a program with a library that is loaded twice ", "mapped", "--heap=mmap"),
    "native": ("", "used", "--alloc-prefix, and valgrind --tool=ljtrace --heap=mmap,"),
}


def text(recording: dict) -> str:
    """The warning for a program whose allocator the recorder does not seem to know; "" if there is none. recording: the
    facts."""
    mapped, seen, reason = (recording.get(name, "") for name in FACTS)
    if FACTS[0] not in recording:
        return ""
    why, how, remedy = REASONS.get(reason, ("", "mapped", NAMES))
    return f"not seen: {why}{how} {mapped} bytes, its recorded blocks have {seen}; see {remedy} in ljtrace(1)"


def facts(trace: Trace, blocks: int) -> dict:
    """The key of an object of --json that has these sentences; {} if there are none."""
    found = remarks(trace, blocks)
    return {"not_recorded": found} if found else {}


def remarks(trace: Trace, blocks: int) -> list[str]:
    """What was not recorded, a sentence each. blocks: how many the whole trace has."""
    recording = trace.info()
    found = [line for line in recording.get(PROBLEMS, "").splitlines() if line]
    if FACTS[0] in recording:  # the native recorder has noted it among the problems as well
        found += [text(recording)] if recording.get(FACTS[2]) != "native" else []
    elif blocks == 0 and trace.problem is None and not ("sample_mean" in recording or "sample_every" in recording):
        found.append(
            "the trace has no blocks: the program has allocated none while it was recorded, or by functions that the recorder "
            "does not know; see --alloc-prefix in ljtrace(1)"
        )
    if part := missing.accesses_in_part(trace):
        found.append(part)
    return found
