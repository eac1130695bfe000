"""conftest - what several end-to-end cases share: traces that take long to make are made once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

import pytest

from support import APP_C, APP_LUA, Trace, record


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the shared traces."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="session")
def lua_trace(traces: Path) -> Trace:
    """A fifth of examples/app.lua, with accesses, JIT on."""
    return record(traces / "lua.ljt", ["luajit", APP_LUA, "0.2"])


@pytest.fixture(scope="session")
def c_trace(traces: Path) -> Trace:
    """A small run of examples/app.c, with accesses."""
    return record(traces / "c.ljt", [APP_C, "300"])
