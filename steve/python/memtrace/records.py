"""What an open trace and an open ops file have in common. Not to be imported by programs.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy


class RecordFile:
    """An open file of records. It can be read once, from the beginning to the end."""

    def __init__(self, binding: Any) -> None:
        self._binding = binding

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Arrays that share its memory are no longer valid."""
        self._binding = None

    def arrays(self, *, copy: bool = False) -> Iterator[numpy.ndarray[Any, Any]]:
        """The records as arrays, in program order.

        Without `copy` an array shares the memory of the reader and is valid until the next one is requested. If the
        file is truncated or damaged, all that is before is delivered; then TraceError is raised."""
        yield from self._binding.batches(copy=copy)
        if self._binding.problem is not None:
            raise self._binding.problem
