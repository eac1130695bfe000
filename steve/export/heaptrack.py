"""heaptrack's format, version 3, gzipped: every allocation and free; for heaptrack_print and heaptrack_gui.

Lines of words in hexadecimal: strings `s`, code places `i`, stacks `t`, kinds of allocation `a` (size and stack),
then `+` and `-` with the number of the kind, and `c` the time in milliseconds. Numbers given out count from 1,
those of `a` from 0. A resize is a free and an allocation.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

from steve.frames import label

if TYPE_CHECKING:
    from steve._memtrace import Trace

VERSION, FORMAT = 0x10400, 3
PAGE = 4096


class HeaptrackWriter:
    """write(bytes) takes the text in large pieces."""

    def __init__(self, trace: "Trace", write: Callable[[bytes], object]) -> None:
        self.trace, self.write = trace, write
        self._lines: List[str] = []
        self._strings: Dict[str, int] = {"": 0}
        self._ips: Dict[int, int] = {}
        self._stacks: Dict[int, int] = {0: 0}
        self._kinds: Dict[Tuple[int, int], int] = {}
        self._live: Dict[int, int] = {}  # address -> kind
        self._milliseconds = 0

    def _string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings)
            line = " ".join(text.splitlines())
            self._lines.append(f"s {len(line.encode('utf-8', 'surrogateescape')):x} {line}")
        return self._strings[text]

    def _ip(self, number: int) -> int:
        """A frame: address, object, function, file, line."""
        if number not in self._ips:
            frame = self.trace.frame(number)
            module = self._string(frame.object or frame.file)
            names = f" {self._string(frame.function or label(frame)):x}"
            names += f" {self._string(frame.file):x} {frame.line:x}" if frame.file else ""
            self._ips[number] = len(self._ips) + 1
            self._lines.append(f"i {frame.ip or number:x} {module:x}{names}")
        return self._ips[number]

    def _stack(self, stack: int) -> int:
        """A stack: its innermost frame and the stack it was called from."""
        missing: List[Tuple[int, int, int]] = []
        while stack not in self._stacks:
            parent, frame = self.trace.stack(stack)
            missing.append((stack, parent, frame))
            stack = parent
        for known, parent, frame in reversed(missing):
            ip = self._ip(frame)
            self._stacks[known] = len(self._stacks)
            self._lines.append(f"t {ip:x} {self._stacks[parent]:x}")
        return self._stacks[missing[0][0]] if missing else self._stacks[stack]

    def _take(self, stack: int, address: int, size: int) -> None:
        key = (size, stack)
        if key not in self._kinds:
            trace = self._stack(stack)
            self._kinds[key] = len(self._kinds)
            self._lines.append(f"a {size:x} {trace:x}")
        self._live[address] = self._kinds[key]
        self._lines.append(f"+ {self._kinds[key]:x}")

    def _give(self, address: int) -> None:
        kind = self._live.pop(address, None)
        if kind is not None:
            self._lines.append(f"- {kind:x}")

    def _time(self, nanoseconds: int) -> None:
        milliseconds = nanoseconds // 10**6
        if milliseconds > self._milliseconds:
            self._milliseconds = milliseconds
            self._lines.append(f"c {milliseconds:x}")

    def _flush(self) -> None:
        if self._lines:
            text = "\n".join(self._lines) + "\n"
            self.write(text.encode("utf-8", "surrogateescape"))
        self._lines = []

    def run(self, tick: Optional[Callable] = None) -> None:
        """Write the whole trace."""
        from steve._ljstream import heap_events
        command = " ".join(self.trace.info().get("command", self.trace.name).split())
        self._lines += [f"v {VERSION:x} {FORMAT:x}", f"X {command}", f"I {PAGE:x} 0"]
        for batch in heap_events(self.trace, lambda heap: True, tick):
            for kind, stack, old, _, address, size, nanoseconds, _ in batch:
                self._time(nanoseconds)
                if kind != 1:
                    self._give(old)
                if kind != 2:
                    self._take(stack, address, size)
            self._flush()
        self._time(self.trace.stats()["nanoseconds"])
        self._flush()
