"""test_diff_baseline - comparing a program with its stored baseline does not flake: each recording under the tool has the
same blocks and bytes, so that exact conditions hold in every run.

LJTRACE_FAULTS sets the number of runs (`make faults`); without it there are 3.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from pathlib import Path

import pytest

from support import APP_C, Trace, record, run

RUNS = int(os.environ.get("LJTRACE_FAULTS") or 3)
EXACT = ("allocated", "blocks", "peak_live", "live_at_end", "site.allocated", "site.peak_live", "site.live_at_end")
CONDITIONS = [f"--fail-if={name} != +0" for name in EXACT] + [
    "--fail-if=sites.new > 0",
    "--fail-if=sites.new_leaks > 0",
]

PROGRAM = """\
local words, kept = {}, {}
for i = 1, 300 do words[i] = ("word%d"):format(i % 50) end
local function count(list)
   local found = {}
   for _, word in ipairs(list) do found[word] = (found[word] or 0) + 1 end
   return found
end
for round = 1, 5 do kept[round] = count(words) end
for i = 1, 50 do kept[words[i]] = words[i] .. #words[i] end
"""


def recorded(path: Path, argv: list) -> Trace:
    trace = record(path, argv, "--start-off=yes")
    assert trace.run.status == 0, trace.run.complaint
    return trace


@pytest.mark.parametrize("language", ("c", "lua"))
def test_runs_equal_their_baseline(language: str, tmp_path: Path) -> None:
    (tmp_path / "count.lua").write_text(PROGRAM)
    program = [APP_C] if language == "c" else ["luajit", "-joff", tmp_path / "count.lua"]
    recorded(tmp_path / "baseline.ljt", program)
    for number in range(RUNS):
        path = tmp_path / f"run{number}.ljt"
        recorded(path, program)
        done = run(["steve", "diff", "-q", tmp_path / "baseline.ljt", path, *CONDITIONS])
        assert done.status == 0, done.text
        path.unlink()


def test_a_change_fails(tmp_path: Path) -> None:
    """What the change allocates is named."""
    (tmp_path / "before.lua").write_text("local kept = {}\nfor i = 1, 100 do kept[i] = {i} end\n")
    (tmp_path / "after.lua").write_text("local kept = {}\nfor i = 1, 300 do kept[i] = {i} end\n")
    for name in ("before", "after"):
        recorded(tmp_path / f"{name}.ljt", ["luajit", "-joff", tmp_path / f"{name}.lua"])
    files = (tmp_path / "before.ljt", tmp_path / "after.ljt")
    done = run(["steve", "diff", "-q", *files, "--by", "line", "--fail-if=blocks > +10% and blocks > +150"])
    assert done.status == 1 and "after.lua:2" in done.text.split("FAILED")[1]
