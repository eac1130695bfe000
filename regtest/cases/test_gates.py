"""test_gates - `steve check --fail-if` of what the recorders find: lost blocks under Valgrind, and not natively; and
leaks in Lua.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Callable
from pathlib import Path

import pytest

from support import Trace, good, natively, record, run

PROGRAM = """\
#include <stdlib.h>
static void *kept;
int main(void)
{
    for (int i = 0; i < 10; i++)
        *(volatile char *)malloc(100) = 1;
    kept = malloc(5000);
    return 0;
}
"""


def test_lost_blocks(tmp_path: Path) -> None:
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(PROGRAM)
    good(["gcc", "-g", "-o", program, source])
    valgrind = record(tmp_path / "v.ljt", [program]).path
    native = tmp_path / "n.ljt"
    good(["ljtrace", "run", f"--out={native}", program])
    conditions = {"lost_bytes > 900": 1, "lost_bytes > 1000": 0, "lost_blocks = 10": 1, "live_at_end > 6k": 0}
    for condition, status in conditions.items():
        done = run(["steve", "check", "-q", valgrind, "--fail-if", condition])
        assert done.status == status, (condition, done.text, done.complaint)
    done = run(["steve", "check", "-q", native, "--fail-if", "lost_bytes > 0"])
    assert done.status == 2 and "lost_bytes was not recorded" in done.complaint
    assert run(["steve", "check", "-q", native, "--fail-if", "live_at_end > 5k"]).status == 1


@pytest.mark.parametrize("end, closes", [("", True), ("os.exit(0)", False)], ids=["closes", "exits"])
@pytest.mark.parametrize("recorder", [record, natively], ids=["valgrind", "native"])
def test_a_leak_in_lua(recorder: Callable[..., Trace], end: str, closes: bool, tmp_path: Path) -> None:
    """luajit closes its state when the script ends, so that no leak is left there; os.exit does not close it."""
    (tmp_path / "leak.lua").write_text(
        f"local kept = {{}} for i = 1, 3000 do kept[i] = {{ 'text ' .. i }} end _G.kept = kept {end}\n"
    )
    path = recorder(tmp_path / "t.ljt", ["luajit", tmp_path / "leak.lua"]).path
    for command in (["check", path], ["diff", path, path]):
        done = run(["steve", *command, "-q", "--fail-if", "live_at_end > 100M"])
        assert done.status == 0 and ("nothing of Lua lives at the end of the trace" in done.complaint) is closes
    assert run(["steve", "check", path, "--fail-if", "live_at_end > 100k"]).status == int(not closes)
