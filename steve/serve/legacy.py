"""The text form of a heap profile, as Go's programs and gperftools serve it with ?debug=1, and the names of its addresses.

A line has the blocks and bytes in use, those allocated, and the addresses of the stack. Lines with # explain addresses to
people; pprof asks for names by /debug/pprof/symbol. A frame without an address of its own, as those of Lua and of inlined
functions, gets one that no code has.
https://github.com/google/pprof/blob/main/profile/legacy_profile.go

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator

from steve.export.profile import Profile
from steve.trace.frames import function_label

FIRST_MADE_UP = 1 << 56  # beyond the addresses of programs
UNKNOWN = "(no stack)"


class Addresses:
    """Addresses of frames by their ids, the same in all profiles of one trace."""

    def __init__(self) -> None:
        self.labels: dict[int, str] = {}
        self._addresses: dict[int, int] = {}
        self._next = FIRST_MADE_UP

    def of(self, profile: Profile, frame_id: int) -> int:
        """The address of an instruction. As all addresses of this form, those of a profile are larger by 1: addresses to
        which functions return."""
        if frame_id in self._addresses:
            return self._addresses[frame_id]
        frame = profile.frame(frame_id) if frame_id else None
        address = frame.ip if frame else 0
        if not 0 < address < FIRST_MADE_UP or address in self.labels:
            address, self._next = self._next, self._next + 16
        self._addresses[frame_id] = address
        self.labels[address] = " ".join(function_label(frame).split()) if frame else UNKNOWN
        return address

    def names(self, request: str) -> bytes:
        """The answer of /debug/pprof/symbol: names of addresses that are separated by +."""
        lines = ["num_symbols: 1"]  # not 0: there are symbols
        for word in request.split("+"):
            try:
                label = self.labels.get(int(word, 16))
            except ValueError:
                continue
            if label is not None:
                lines.append(f"{word} {label}")
        return "\n".join([*lines, ""]).encode("utf-8", "replace")


def _explained(profile: Profile, addresses: Addresses, frames: list[int]) -> Iterator[str]:
    for frame_id in frames:
        frame = profile.frame(frame_id) if frame_id else None
        address = addresses.of(profile, frame_id) + 1
        place = f"{frame.file}:{frame.line}" if frame and frame.file else frame.object if frame else ""
        yield f"#\t{address:#x}\t{addresses.labels[address - 1]}\t{' '.join(place.split())}\n"


def text(profile: Profile, addresses: Addresses) -> Iterator[str]:
    """The profile, in pieces; its metrics are those of steve.serve.heap.HEAP. Most bytes in use come first."""
    import numpy as np

    total = [int(column.sum()) for column in profile.columns]
    _, made, _, held = (column.astype("i8") for column in profile.columns)
    # "heapprofile": the numbers are final; pprof would multiply those of a sample by their probabilities
    yield f"heap profile: {total[2]}: {total[3]} [{total[0]}: {total[1]}] @ heapprofile\n"
    for sample in profile.samples(np.lexsort((-made, -held))):
        allocs, alloc_bytes, blocks, size = sample.values
        frames = profile.frames(sample.stack)
        stack = " ".join(f"{addresses.of(profile, frame) + 1:#x}" for frame in frames)
        yield f"{blocks}: {size} [{allocs}: {alloc_bytes}] @ {stack}\n"
        yield from _explained(profile, addresses, frames)
        yield "\n"
    yield f"# command: {' '.join(profile.command.split())}\n"
