"""heaptrack's format, version 3, gzipped: every allocation and free; for heaptrack_print and heaptrack_gui.

A file consists of lines of words; numbers are hexadecimal. `s` defines a string, `i` a place in code with the
functions inlined there, `t` a stack, and `a` a kind of allocation (size and stack). `+` and `-` are an allocation and
a free, with the number of their kind, and `c` is the time in milliseconds. Definitions are numbered from 1, those of
`a` from 0. A resize is written as a free and an allocation.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from itertools import chain
from collections.abc import Callable
from typing import TYPE_CHECKING

from steve.trace.frames import function_label

if TYPE_CHECKING:
    from steve.trace.policy import ShownStacks

VERSION, FORMAT = 0x10400, 3
PAGE = 4096
ENOUGH = 1 << 20  # bytes to gather before they are written


class HeaptrackWriter:
    """Writes one trace as a heaptrack file. write(bytes) is called with large pieces of the text."""

    def __init__(self, shown: ShownStacks, write: Callable[[bytes], object]) -> None:
        self.shown, self.trace, self.write = shown, shown.trace, write
        self._lines: list[str] = []
        self._strings: dict[str, int] = {"": 0}
        self._ips: dict[tuple[int, ...], int] = {}
        self._stacks: dict[int, int] = {0: 0}
        self._gathered = bytearray()

    def _string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings)
            line = " ".join(text.splitlines())
            self._lines.append(f"s {len(line.encode('utf-8', 'surrogateescape')):x} {line}")
        return self._strings[text]

    def _ip(self, place: tuple[int, ...]) -> int:
        """The number of a place in code, defined when first used: address, object, and the function, file and line of
        each frame. place: the frames, those of inlined functions first."""
        if place not in self._ips:
            frames = [self.shown.named(number) for number in place]
            frame = frames[-1]
            module = self._string(frame.object or frame.file)
            names = [
                f"{self._string(function_label(frame)):x} {self._string(frame.file):x} {frame.line:x}"
                for frame in frames
            ]
            self._ips[place] = len(self._ips) + 1
            self._lines.append(f"i {frame.ip or place[-1]:x} {module:x} {' '.join(names)}")
        return self._ips[place]

    def _stack(self, stack: int) -> int:
        """The number of a stack as it is shown, defined when first used: its innermost frame and the stack of its
        callers."""
        innermost = shown = self.shown.stack(stack)
        missing: list[tuple[int, tuple[int, ...], int]] = []
        while shown not in self._stacks:
            known, shown, frames = shown, self.shown.outer(shown), [self.shown.frame(shown)]
            while shown and self.shown.is_inlined(frames[-1]):
                frames.append(self.shown.frame(shown))
                shown = self.shown.outer(shown)
            missing.append((known, tuple(frames), shown))
        for known, place, callers in reversed(missing):
            ip = self._ip(place)
            self._stacks[known] = len(self._stacks)
            self._lines.append(f"t {ip:x} {self._stacks[callers]:x}")
        return self._stacks[innermost]

    def _flush(self) -> None:
        if self._lines:
            text = "\n".join(self._lines) + "\n"
            self._gathered += text.encode("utf-8", "surrogateescape")
        self._lines = []

    def _number(self, stack: int) -> int:
        number = self._stack(stack)
        self._flush()
        return number

    def run(self, tick: Callable | None = None) -> None:
        """Read the trace and write all of it. tick(done, total): progress in bytes."""
        from steve.kernels._holdings import HeaptrackLines

        pieces = HeaptrackLines(self.trace, tick).pieces(self._number)
        first = next(pieces)  # the command is known only after something was read
        command = " ".join(self.trace.info().get("command", self.trace.name).split())
        self._lines += [f"v {VERSION:x} {FORMAT:x}", f"X {command}", f"I {PAGE:x} 0"]
        self._flush()
        for piece in chain([first], pieces):
            self._gathered += piece
            if len(self._gathered) >= ENOUGH:
                self.write(self._gathered)
                self._gathered = bytearray()
        self.write(self._gathered)
