"""The kinds of events: the numbers that arrays have in their field `kind`, and their names.

They are written here one by one for programs that check types; the test compares them with memtrace/kinds.def.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

from typing import Any

from steve.trace import _memtrace

__all__ = [
    "BADFREE",
    "CALL",
    "FREE",
    "KIND_NAMES",
    "LOAD",
    "LOST",
    "MARK",
    "MODIFY",
    "NEW",
    "REACH",
    "RESIZE",
    "SAMPLE",
    "STATE",
    "STORE",
    "TYPE",
]
_binding: Any = _memtrace
NEW: int = _binding.NEW
FREE: int = _binding.FREE
RESIZE: int = _binding.RESIZE
LOAD: int = _binding.LOAD
STORE: int = _binding.STORE
MODIFY: int = _binding.MODIFY
MARK: int = _binding.MARK
BADFREE: int = _binding.BADFREE
LOST: int = _binding.LOST
TYPE: int = _binding.TYPE
STATE: int = _binding.STATE
SAMPLE: int = _binding.SAMPLE
CALL: int = _binding.CALL
REACH: int = _binding.REACH
KIND_NAMES: tuple[str, ...] = _binding.KIND_NAMES
