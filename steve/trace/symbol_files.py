"""Find the files with the debug information of a trace's modules.

A file is used only if it has the module's build id. A path that has another file by now is therefore never used.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Module

SYSTEM = "/usr/lib/debug"  # where distributions install debug files


def _by_build_id(folder: str, build_id: str) -> str:
    """Where a folder of debug files has that of a build id, as gdb and Debian have it."""
    return os.path.join(folder, ".build-id", build_id[:2], f"{build_id[2:]}.debug")


def candidates(module: Module, folders: Sequence[str]) -> Iterator[str]:
    """Where the debug information of a module may be, in the order of the search. folders: those of the user. There,
    the file may be named by its build id, by its whole path, or by its name alone, also with `.debug`."""
    name = os.path.basename(module.object)
    for folder in folders:
        if len(module.build_id) > 2:
            yield _by_build_id(folder, module.build_id)
        for path in (module.object.lstrip("/"), name):
            yield os.path.join(folder, f"{path}.debug")
            yield os.path.join(folder, path)
    yield module.object
    if len(module.build_id) > 2:
        yield _by_build_id(SYSTEM, module.build_id)


def find_file(module: Module, folders: Sequence[str]) -> str | None:
    """The file with the debug information of a module, None if there is none. If the module has no build id, it is
    the file at its own path, which then must have none either."""
    from steve.trace._symbols import build_id_of

    for path in candidates(module, folders):
        if os.path.isfile(path) and build_id_of(path) == module.build_id and (module.build_id or path == module.object):
            return path
    return None
