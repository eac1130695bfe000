"""test_programs - real programs are recorded by both recorders: unchanged, completely, and with the same result.

The table of programs is regtest/programs/table.py. `make check` runs those whose packages other tests need as well,
`make test-programs` all that are installed. LJTRACE_PROGRAMS chooses: `all`, or names separated by commas.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys
from pathlib import Path

import pytest

from support import SOURCE

sys.path.insert(0, str(SOURCE / "regtest/programs"))
from chosen import chosen, packages  # noqa: E402
from recorded import missing, wrongs  # noqa: E402
from servers import SERVERS  # noqa: E402
from table import PROGRAMS, Program  # noqa: E402


@pytest.mark.parametrize("program", chosen(PROGRAMS), ids=lambda program: program.name)
def test_program(program: Program, tmp_path: Path) -> None:
    if lack := missing(program):
        pytest.skip(lack)
    if found := wrongs(program, tmp_path):
        pytest.fail("\n".join([program.name, *found]), pytrace=False)


def test_names_are_unique() -> None:
    names = [row.name for row in (*PROGRAMS, *SERVERS)]
    assert len(names) == len(set(names)) and "all" not in names and not any("," in name for name in names)


def test_the_document_names_all_packages() -> None:
    """Of those that `make test-programs` needs, in the command that installs them."""
    text = (SOURCE / "docs/internals/testing.md").read_text()
    _, _, command = text.partition("apt-get install --no-install-recommends")
    words = command.partition("\n\n")[0].replace("\\\n", " ").split()
    assert words == packages()
