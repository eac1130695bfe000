"""Cheaper imports of other packages: parts of them that steve does not use take a third of their time.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

# numpy 1.24 imports these with itself, numpy 2 when they are first used
LATER = ("numpy.fft", "numpy.ma", "numpy.polynomial", "numpy.random")


class Later:
    """A finder of sys.meta_path. The modules of LATER are executed when one of their attributes is first used."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def defer() -> None:
    """Import the modules of LATER lazily from now on."""
    if Later not in sys.meta_path:
        sys.meta_path.insert(0, Later)  # type: ignore[arg-type]


def load_rich() -> None:
    """Import what draws tables. rich uses attr only to print objects of classes that attr made, so it is imported
    without it: attr takes an eighth of its time."""
    if "rich.pretty" in sys.modules or "attr" in sys.modules:
        return
    sys.modules["attr"] = None  # type: ignore[assignment] # it seems not to be installed
    try:
        import rich.pretty  # noqa: F401
    finally:
        del sys.modules["attr"]
