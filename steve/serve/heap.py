"""The heap of a program while its trace is being written.

A walk over the trace goes on whenever there are new chunks, so that its memory is O(live blocks + stacks) and each event
is read once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steve.export.profile import Metric, Profile
from steve.serve.legacy import Addresses, text
from steve.trace.policy import Policy

if TYPE_CHECKING:
    import numpy as np

HEAP = (
    Metric("blocks", "count", "alloc_objects"),
    Metric("bytes", "bytes", "alloc_space"),
    Metric("held_blocks", "count", "inuse_objects"),
    Metric("held", "bytes", "inuse_space"),
)
NEVER = 2**64 - 1


class Limits(NamedTuple):
    """When the walk has to stop: when so many bytes were allocated in all, or are held."""

    allocated: int = NEVER
    held: int = NEVER


class Sums(NamedTuple):
    """Sums by stack at one moment: stack ids, and an array parallel to them for each of some metrics."""

    stacks: np.ndarray
    columns: list[np.ndarray]
    nanoseconds: int
    """Since the recording began, or between two moments."""

    def since(self, before: Sums) -> Sums:
        """What has changed since an earlier moment; bytes and blocks in use may have become fewer."""
        import numpy as np

        columns = [column.astype("i8") for column in self.columns]
        at = np.searchsorted(self.stacks, before.stacks)
        for column, earlier in zip(columns, before.columns):
            column[at] -= earlier.astype("i8")
        changed = np.any([column != 0 for column in columns], axis=0)
        return Sums(
            self.stacks[changed], [column[changed] for column in columns], self.nanoseconds - before.nanoseconds
        )


class LiveHeap:
    """One trace. All that uses the trace holds `lock`.

    after: is called when the walk stops at `limits`, and sets the next ones."""

    def __init__(
        self,
        path: str,
        policy: Policy,
        limits: Limits = Limits(),
        after: Callable[[LiveHeap], None] = lambda heap: None,
    ) -> None:
        from steve.kernels._holdings import Holdings
        from steve.trace._memtrace import Trace

        self.trace = Trace(path, following=True)
        self.policy, self.limits, self.after = policy, limits, after
        self.lock = threading.RLock()
        self.complete = threading.Event()
        self._first = self.trace.follow()  # before anything is read
        self.trace.pass_accesses()
        self.history = Holdings(self.trace, sampling=True)
        self.addresses = Addresses()
        self._made: dict[tuple[str, bool], tuple[int, bytes]] = {}

    def catch_up(self) -> None:
        """Read all that was written. `complete` is set if nothing will follow."""
        with self.lock:
            new, self._first = self._first or self.trace.follow(), False
            while new:
                while self.history.walk(allocated=self.limits.allocated, held=self.limits.held):
                    self.after(self)
                new = self.trace.follow()
            if new is None:
                self.complete.set()

    def sums(self) -> Sums:
        """The sums of HEAP."""
        import numpy as np

        with self.lock:
            rows, stacks = self.history.rows(), self.history.stacks()
            order = np.argsort(stacks)
            return Sums(stacks[order], [rows[metric.key][order] for metric in HEAP], self.now())

    def samples(self) -> Sums:
        """The weights of the samples of stacks: one column."""
        import numpy as np

        with self.lock:
            stacks, weights = self.history.samples()
            order = np.argsort(stacks)
            return Sums(stacks[order], [weights[order]], self.now())

    def now(self) -> int:
        """Nanoseconds from the beginning of the recording to the last event that was read."""
        return self.trace.stats()["nanoseconds"]

    def sample_metric(self) -> Metric:
        """What the weights of samples are."""
        nanoseconds = self.trace.info().get("time_unit") == "nanoseconds"
        return Metric("weight", "nanoseconds", "cpu") if nanoseconds else Metric("weight", "count", "instructions")

    def profile(self, sums: Sums, metrics: tuple[Metric, ...], default: str) -> Profile:
        """Sums as a profile. Used with the lock held, since the trace has its names. default: the name of the metric
        that viewers show first."""
        policy = self.policy if metrics is HEAP else self.policy._replace(keep_alloc_fns=True)
        return Profile(self.trace, policy, sums.stacks, sums.columns, metrics, default, sums.nanoseconds)

    def heap_profile(self, default: str, before: Sums | None = None) -> bytes:
        """A file for pprof: the heap now, or what has changed since `before`."""
        from steve.export.pprof import pprof

        with self.lock:
            if before is None:
                return self._once(default, False, lambda profile: b"".join(pprof(profile)))
            return b"".join(pprof(self.profile(self.sums().since(before), HEAP, default)))

    def heap_text(self, default: str) -> bytes:
        """The heap now, as text."""
        with self.lock:
            return self._once(
                default, True, lambda profile: "".join(text(profile, self.addresses)).encode("utf-8", "replace")
            )

    def _once(self, default: str, as_text: bool, form: Callable[[Profile], bytes]) -> bytes:
        """A form of the profile of the heap now. Requests at the same time share its bytes. Used with the lock held."""
        moment, made = self.trace.stats()["events"], self._made.get((default, as_text))
        if made is None or made[0] != moment:
            made = moment, form(self.profile(self.sums(), HEAP, default))
            self._made[default, as_text] = made
        return made[1]

    def cpu_profile(self, before: Sums) -> bytes:
        """A file for pprof: the samples of stacks since `before`."""
        from steve.export.pprof import pprof

        with self.lock:
            metric = self.sample_metric()
            return b"".join(pprof(self.profile(self.samples().since(before), (metric,), metric.name)))
