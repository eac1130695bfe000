"""Errors of the traced program in its use of the heap, as `steve findings` shows them.

These are accesses to freed memory, accesses that begin in a block and end after it or lie beside a block, and bad
frees. Errors of the same kind at the same place form one context, as in memcheck. The first error of each context is
shown in full, with the block concerned: where it was made and where it was freed. The walk over the lives collects
the errors. If there are any, the trace is read once more for the blocks concerned. Memory is O(contexts).

The string functions of the C library read whole vectors, which may begin before a block and end after it. Aligned loads
may do so too, because they stay within a page. Such loads are no errors here, nor are they in memcheck.

Only what the trace contains can be found: an access far from every block is not recorded.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from steve.trace._memtrace import BADFREE, BADFREE_NAMES, BEYOND, FREE, FREED, HOW_MASK, KERNEL, KIND_NAMES, NEW, RESIZE
from steve.terminal.units import counted

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NO_HANDLE = 2**64 - 1
LIBRARY = re.compile(r"(libc|ld-linux-x86-64|ld-musl-\w+)[.-]")
STRING_FUNCTION = re.compile(r"(__)?(raw)?(str|mem|wcs|wmem|stp)")
# as glibc calls those for a kind of processor, which static programs hold themselves
VECTOR_FUNCTION = re.compile(r"__(raw)?(str|mem|wcs|wmem|stp)\w*_(sse|avx|evex)\w*$")
TITLES = {
    "freed_access": ("Accesses to freed memory", "to memory that a block had, and that no other block has used since"),
    "beyond_end": ("Accesses beyond a block's end", "begin in a block and end after it"),
    "beside_block": (
        "Accesses beside a block",
        "begin at most a few bytes (16, or --redzone) before or after a block of " "malloc, and in no other",
    ),
    "double_free": ("Double frees", "the block is dead, or was moved away"),
    "invalid_free": ("Invalid frees", "no block begins there, as far as is known"),
    "inside_free": ("Frees inside a block", "the address is after the block's beginning"),
    "wrong_heap_free": ("Frees to a wrong heap", "the block belongs to another heap"),
    "mismatched_free": ("Mismatched frees", "made and freed by functions that do not belong together"),
}
OF_BADFREE = {
    "double": "double_free",
    "invalid": "invalid_free",
    "inside": "inside_free",
    "heap": "wrong_heap_free",
    "mismatch": "mismatched_free",
}


class Context(NamedTuple):
    """Errors of one kind at one place: finding (a key of TITLES), kind of event, stack (of a bad free) or site,
    whether a system call made them, their number, and the first of them."""

    finding: str
    kind: str
    ref: int
    kernel: bool
    count: int
    handle: Optional[int]
    offset: int
    size: int
    thread: int


class Story(NamedTuple):
    """A block concerned: its size at the end, the stacks of its New and its Free (0: not known)."""

    size: int
    made: int
    freed: int


def reads_vectors(trace: "Trace", site: int) -> bool:
    """Is this site in a string function of the C library or the dynamic linker, or of a static program's?"""
    known = trace.site(site)
    frame = trace.frame(known.frame) if known is not None and known.frame else None
    if frame is None:
        return False
    library = LIBRARY.match(os.path.basename(frame.object))
    return bool(STRING_FUNCTION.match(frame.function) if library else VECTOR_FUNCTION.match(frame.function))


def finding_of(kind: int, how: int) -> str:
    if kind == BADFREE:
        return OF_BADFREE[BADFREE_NAMES[how & HOW_MASK]]
    if how & FREED:
        return "beside_block" if how & BEYOND else "freed_access"
    return "beyond_end"


def first_case(e: np.void, count: int) -> Context:
    handle = int(e["handle"])
    offset = int(e["offset"].astype("i8")) if e["kind"] != BADFREE else int(e["offset"])
    return Context(
        finding_of(int(e["kind"]), int(e["how"])),
        KIND_NAMES[e["kind"]],
        int(e["ref"]),
        bool(e["how"] & KERNEL) and e["kind"] != BADFREE,
        count,
        None if handle == NO_HANDLE else handle,
        offset,
        0 if e["kind"] == BADFREE else int(e["size"]),
        int(e["thread"]),
    )


class Faults:
    """The errors found in walks over a trace, by kind, manner and place. take() is for steve.kernels._lives.Lives."""

    def __init__(self) -> None:
        self._found: Dict[Tuple[int, int, int], List] = {}

    def take(self, cases: np.ndarray, counts: np.ndarray) -> None:
        """Keep the contexts of a walk: the first event of each, and their numbers of errors."""
        self.merge([(cases[i : i + 1], count) for i, count in enumerate(counts.tolist())])

    def partial(self) -> List[Tuple[np.ndarray, int]]:
        """The result of a shard: the first error of each context, as an array of length 1, and the number of errors."""
        return [(np.array([event]), count) for event, count in self._found.values()]

    def merge(self, shard: List[Tuple[np.ndarray, int]]) -> None:
        """Add the partial() of the next shard."""
        for cases, count in shard:
            event = cases[0]
            key = (int(event["kind"]), int(event["how"]), int(event["ref"]))
            self._found.setdefault(key, [event, 0])[1] += count

    def contexts(self, trace: "Trace") -> List[Context]:
        """All contexts, in the order of their first errors, without loads of string functions."""
        cases = [first_case(event, count) for event, count in self._found.values()]
        return [c for c in cases if not (c.kind == "load" and not c.kernel and reads_vectors(trace, c.ref))]


def stories(trace: "Trace", handles: List[int], tick: Callable[[int, int], None]) -> Dict[int, Story]:
    """The stories of some blocks, from a walk over a trace that was just opened."""
    wanted = np.array(sorted(set(handles)), "u8")
    known: Dict[int, Story] = {}
    trace.pass_accesses()
    for batch in trace.batches():
        kind = batch["kind"]
        heap = batch[(kind == NEW) | (kind == FREE) | (kind == RESIZE)]
        for event in heap[np.isin(heap["handle"], wanted)]:
            add_event(known, event)
        tick(*trace.progress())
    return known


def add_event(known: Dict[int, Story], event: np.void) -> None:
    """Update the story of the event's block."""
    handle, size, stack = int(event["handle"]), int(event["size"]), int(event["ref"])
    story = known.get(handle, Story(size, 0, 0))
    if event["kind"] == NEW:
        known[handle] = Story(size, stack, 0)
    elif event["kind"] == FREE:
        known[handle] = story._replace(freed=stack)
    else:
        known[handle] = story._replace(size=size)


def described(
    trace: "Trace",
    context: Context,
    known: Dict[int, Story],
    stack_text: Callable[[int], str],
    access_text: Callable[[int], str],
) -> dict:
    """A context as an object of --json: names for numbers."""
    story = known.get(context.handle) if context.handle is not None else None
    at = (
        stack_text(context.ref) or "(no stack)"
        if context.kind == "badfree"
        else "(system call)"
        if context.kernel
        else access_text(context.ref)
    )
    return {
        "count": context.count,
        "kind": context.kind,
        "at": at,
        "size": context.size,
        "thread": context.thread,
        "block": context.handle,
        "offset": context.offset,
        "block_size": story.size if story else None,
        "made_at": stack_text(story.made) if story and story.made else None,
        "freed_at": stack_text(story.freed) if story and story.freed else None,
    }


def read(
    found: List[Context], trace: "Trace", open_trace: "Callable[[], Trace]", tick: Callable[[int, int], None]
) -> List[dict]:
    """The findings of a trace, one object for each key of TITLES that was found: finding, title, rule, errors
    (their number), contexts. open_trace() opens the trace again."""
    from steve.trace.places import Places

    handles = [c.handle for c in found if c.handle is not None]
    known = stories(open_trace(), handles, tick) if handles else {}
    places = Places(trace)

    def access_text(site: int) -> str:
        line = places.access_line(site)
        return f"{line.function} ({line.file}:{line.line})" if line.file else line.function

    result = []
    for key, (title, rule) in TITLES.items():
        rows = [described(trace, c, known, places.stack_text, access_text) for c in found if c.finding == key]
        if rows:
            result.append(
                {
                    "finding": key,
                    "title": title,
                    "rule": rule,
                    "errors": sum(r["count"] for r in rows),
                    "contexts": sorted(rows, key=lambda r: -r["count"]),
                }
            )
    return result


def joined(first: List[dict], second: List[dict]) -> List[dict]:
    """The objects of read() of two traces as one list, in the order of TITLES."""
    found: Dict[str, dict] = {}
    for one in first + second:
        known = found.setdefault(one["finding"], {**one, "errors": 0, "contexts": []})
        known["errors"] += one["errors"]
        known["contexts"] = sorted(known["contexts"] + one["contexts"], key=lambda context: -context["count"])
    return [found[key] for key in TITLES if key in found]


def place_of(offset: int, size: Optional[int]) -> str:
    """A description of an address that is so many bytes from the beginning of a block."""
    if offset < 0:
        return f"{-offset:,} bytes before"
    return f"{offset:,} bytes into" if size is None or offset < size or size == 0 else f"{offset - size:,} bytes after"


def lines_of(context: dict) -> List[str]:
    """A context for people."""
    what = f"{context['kind']} of {context['size']} bytes" if context["size"] else "free"
    process = f" in {context['process']}" if "process" in context else ""
    lines = [f"  {context['count']:,} x {what} at {context['at']}{process}"]
    if context["block"] is not None:
        size = f" of {context['block_size']:,} bytes" if context["block_size"] is not None else ""
        lines.append(f"      {place_of(context['offset'], context['block_size'])} block {context['block']}{size}")
    lines += [
        f"      {verb} at {context[key]}" for key, verb in (("made_at", "made"), ("freed_at", "freed")) if context[key]
    ]
    return lines


def text(findings: List[dict], top: int) -> str:
    """The findings for people; "" if there are none."""
    parts = []
    for found in findings:
        parts.append(
            f"{found['title']}: {found['errors']:,} in {counted(len(found['contexts']), 'context')}\n  ({found['rule']})"
        )
        parts += [line for context in found["contexts"][:top] for line in lines_of(context)]
        if len(found["contexts"]) > top:
            parts.append(f"  {len(found['contexts']) - top:,} more; --top shows more")
        parts.append("")
    return "\n".join(parts) + ("\n" if parts else "")
