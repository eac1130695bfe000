"""A progress bar on stderr for operations that take longer than two seconds.

It appears only on a terminal, so that logs and pipes stay clean. rich draws it, and is imported only when the two
seconds are over. The rate shown is that of the last moments, not the average.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 2.0  # seconds before the bar appears


class Progress:
    """`with Progress("ops") as progress: progress(done, total)`.

    done and total are amounts of `unit`, by default bytes of input; total 0 means unknown. quiet: show nothing."""

    def __init__(self, label: str, quiet: bool = False, unit: str = "bytes") -> None:
        self.label, self.unit = label, unit
        self._wanted = not quiet and sys.stderr.isatty()
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __call__(self, done: int, total: int = 0) -> None:
        if self._wanted and self._bar is None and time.monotonic() - self._start > PATIENCE:
            self._show()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total or None)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        columns = bar_columns(self.unit)
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self.label, total=None)
        self._bar.start()


def bar_columns(unit: str) -> list:
    """The columns of the bar: label, bar, amount, rate (bytes only), remaining time."""
    from rich import progress as p

    columns: list = [p.TextColumn("{task.description}"), p.BarColumn()]
    if unit == "bytes":
        return columns + [p.DownloadColumn(), p.TransferSpeedColumn(), p.TimeRemainingColumn()]
    return columns + [p.MofNCompleteColumn(), p.TextColumn(unit), p.TimeRemainingColumn()]
