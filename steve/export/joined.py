"""The profile of several memtraces as one: sums by the stacks of all of them.

Frames of two traces are the same if their function, file and line are; the addresses of code differ from process to process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steve.export.profile import Profile
from steve.trace.policy import grouped_places

if TYPE_CHECKING:
    from steve.analysis import several
    from steve.trace._memtrace import Frame
    from steve.trace.policy import ShownStacks


class JoinedStacks:
    """The stacks of several profiles, with the functions of ShownStacks that exports call. A stack is a frame and the stack of
    its callers; stack 0 and frame 0 are none."""

    def __init__(self) -> None:
        self._outer, self._frames = [0], [0]  # by stack
        self._stacks: dict[tuple[int, int], int] = {}  # by the stack of the callers and the frame
        self._named: list[Frame | None] = [None]  # by frame
        self._numbers: dict[tuple[Frame, bool], int] = {}
        self._inlined: set[int] = set()

    def add(self, shown: ShownStacks, ids: Sequence[int], known: dict[int, int]) -> int:
        """The stack with these frames of a profile, innermost first. known: the frames of that profile that were met."""
        stack = 0
        for number in reversed(ids):
            if number and number not in known:
                known[number] = self._frame(shown.named(number), shown.is_inlined(number))
            if number:
                stack = self._stack(stack, known[number])
        return stack

    def _frame(self, named: Frame, is_inlined: bool) -> int:
        named = named._replace(ip=0) if named.function else named
        number = self._numbers.setdefault((named, is_inlined), len(self._named))
        if number == len(self._named):
            self._named.append(named)
            self._inlined |= {number} if is_inlined else set()
        return number

    def _stack(self, callers: int, frame: int) -> int:
        stack = self._stacks.setdefault((callers, frame), len(self._frames))
        if stack == len(self._frames):
            self._outer.append(callers)
            self._frames.append(frame)
        return stack

    def __len__(self) -> int:
        return len(self._frames)

    def stack(self, stack: int) -> int:
        return stack

    def outer(self, stack: int) -> int:
        return self._outer[stack]

    def frame(self, stack: int) -> int:
        return self._frames[stack]

    def named(self, frame: int) -> Frame | None:
        return self._named[frame]

    def is_inlined(self, frame: int) -> bool:
        return frame in self._inlined

    def ids(self, stack: int) -> list[int]:
        ids = []
        while stack:
            ids.append(self._frames[stack])
            stack = self._outer[stack]
        return ids or [0]

    def places(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        return grouped_places(ids, self._inlined)


class JoinedProfile(Profile):
    """The sums of several profiles, of which one at a time is needed. A metric that one does not have is left out."""

    def __init__(self) -> None:
        self.shown: JoinedStacks = JoinedStacks()
        self._sums: dict[int, list[int]] = {}  # by stack
        self._files = 0

    def add(self, profile: Profile) -> None:
        """Add the profile of the next file."""
        if not self._files:
            self.metrics, self.default, self.facts = list(profile.metrics), profile.default, profile.facts
            self.nanoseconds = 0
        self._files += 1
        self.trace = profile.trace
        self.nanoseconds = max(self.nanoseconds, profile.nanoseconds)
        kept = [metric for metric in self.metrics if metric in profile.metrics]
        of_known = [self.metrics.index(metric) for metric in kept]
        self._sums = {stack: [sums[i] for i in of_known] for stack, sums in self._sums.items()}
        of_new, self.metrics = [profile.metrics.index(metric) for metric in kept], kept
        known: dict[int, int] = {}
        for sample in profile.samples():
            stack = self.shown.add(profile.shown, profile.frames(sample.stack), known)
            sums = self._sums.setdefault(stack, [0] * len(kept))
            for i, of in enumerate(of_new):
                sums[i] += sample.values[of]

    def finish(self) -> None:
        """Make the columns, when all profiles are added."""
        import numpy as np

        self.stacks = np.array(sorted(self._sums), "u8")
        self.columns = [
            np.array([self._sums[stack][i] for stack in self.stacks.tolist()], "i8") for i in range(len(self.metrics))
        ]
        self._frames = {}

    @property
    def command(self) -> str:
        return f"{super().command} ({self._files} processes)"


def profile_of(files: several.Files) -> Profile:
    """The profile of the chosen blocks of files that were not read yet; joined, if there are several."""
    joined = JoinedProfile()
    for chosen in files:
        profile = Profile.of(chosen)
        if len(files) > 1:
            joined.add(profile)
    if len(files) == 1:
        return profile
    joined.finish()
    return joined
