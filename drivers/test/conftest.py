"""What the end-to-end tests of the drivers share.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import Model, random_ops, read_model  # noqa: E402


@pytest.fixture(scope="module", name="ops")
def _ops(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """An ops file of random operations, and what they do."""
    text = random_ops(3000, seed=5)
    path = tmp_path_factory.mktemp("ops") / "random-ops"
    path.write_text(text)
    return path, read_model(text)
