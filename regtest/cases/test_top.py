"""test_top - steve top in a real terminal (tmux): on a program under the tool, and on one that `ljtrace run` records.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

import pytest

from support import NATIVE, native, recorder, run, started, steve, wait_for

PROGRAM = """\
local kept = {}
local function keep(i) kept[#kept + 1] = { i, tostring(i) } end
for i = 1, 1e12 do
   keep(i)
   if i % 2000 == 0 then kept = {} end
end
"""
KEYS = "q quit  s sort  b by  p pause  / filter  h help"


class Terminal:
    """A terminal of tmux, with a server of its own."""

    def __init__(self, socket: Path, width: int, height: int) -> None:
        self.socket, self.width, self.height = socket, width, height

    def tmux(self, *words: object) -> str:
        return run(["tmux", "-S", self.socket, "-f", "/dev/null", *words]).text

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "top", *keys)

    def screen(self) -> list[str]:
        """Its lines, without blanks at their ends."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-t", "top").split("\n")[: self.height]]

    def shows(self, pattern: str, last: str = KEYS) -> list[str]:
        """Wait until a line of the screen has a text and the last line is drawn. Returns the screen that has it."""
        found: list[str] = []

        def there() -> bool:
            found[:] = self.screen()
            return any(re.search(pattern, line) for line in found) and found[-1].startswith(last)

        wait_for(there, f"{pattern} on the screen")
        return found


@contextmanager
def terminal(folder: Path, size: tuple[int, int], command: Sequence[object]) -> Iterator[Terminal]:
    """A terminal in which a command runs; it stays when the command has ended."""
    made = Terminal(folder / "tmux", *size)
    text = " ".join(map(str, command))
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "screen-256color"}
    subprocess.run(
        ["tmux", "-S", made.socket, "-f", "/dev/null", "new-session", "-d", "-s", "top"]
        + ["-x", str(size[0]), "-y", str(size[1]), f"{text}; echo status $?; exec sleep 1800"],
        env=env,
        check=True,
        timeout=600,
    )
    try:
        yield made
    finally:
        made.tmux("kill-server")


@contextmanager
def recorded(folder: Path, native: bool) -> Iterator[Path]:
    """The growing trace of the program, which runs for ever."""
    (folder / "grow.lua").write_text(PROGRAM)
    path = folder / "t.ljt"
    record = ["ljtrace", "run", f"--out={path}"] if native else recorder(path)
    with started([*record, "luajit", folder / "grow.lua"]):
        wait_for(path.exists, "the trace")
        yield path


@pytest.fixture(autouse=True)
def need_tmux() -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed (package tmux)")


@pytest.mark.parametrize("native", (False, True), ids=("tool", "native"))
@pytest.mark.parametrize("size", ((80, 24), (120, 40)), ids=("80x24", "120x40"))
def test_in_a_terminal(size: tuple[int, int], native: bool, tmp_path: Path) -> None:
    with recorded(tmp_path, native) as path, terminal(
        tmp_path, size, ["steve", "top", "--delay", "0.2", path]
    ) as shown:
        lines = shown.shows(r"keep \(grow.lua:2\)")
        check_screen(lines, size)
        allocated = [line for line in lines if line.startswith("allocated ")]
        wait_for(lambda: allocated[0] not in shown.screen(), "the numbers to change")
        shown.press("s", "b")
        lines = shown.shows(r"blocks▾ .* function$")
        check_screen(lines, size)
        shown.press("/", "KEEP", "Enter")
        shown.shows(r"function \(1 of \d+\)$")
        shown.press("p")
        before = shown.shows(r" paused ")
        assert shown.screen() == before
        shown.press("h")
        check_screen(shown.shows(r"^s +sort by the next column"), size)
        shown.press("x", "q")
        ended = shown.shows("^status 0$", last="")
        assert any(line.startswith("allocated ") for line in ended)


def check_screen(lines: list[str], size: tuple[int, int]) -> None:
    """Nothing is cut or wrapped: the state is at the right edge, the keys in the last line, the columns under their
    headings."""
    width, height = size
    assert len(lines) == height and lines[-1].startswith(KEYS)
    assert re.search(r"(recording|paused|ended)  [\d,.]+ s$", lines[0]) and len(lines[0]) == width
    assert lines[1].startswith("live ") and lines[4].startswith("threads 1: #1 ")
    (resident,) = (line for line in lines if line.startswith("resident "))
    parts = r"resident [\d.]+ MiB(: live <= .*, recorder >= .*, rest about .* [KM]iB|, with Valgrind .* not known)"
    assert re.fullmatch(parts, resident), resident
    heads = [i for i, line in enumerate(lines) if "allocs" in line and "live" in line and "rate" in line]
    if heads and "bytes" not in lines[heads[0]]:
        end = re.search("(line|function)", lines[heads[0]])
        assert end is not None
        rows = [line for line in lines[heads[0] + 1 : -1] if line]
        assert rows and all(re.fullmatch(r".*\S  ", row[: end.start()]) for row in rows)


def test_by_process_id(tmp_path: Path) -> None:
    with recorded(tmp_path, True) as path:
        wait_for(lambda: path.stat().st_size > 1000, "the first chunk")
        facts = run(["steve", "info", "--json", path]).text
        pid = re.search(r'"pid": "(\d+)"', facts)
        assert pid is not None
        text = run(["steve", "top", "--once", pid[1]]).text
        assert (
            "grow.lua" in text.splitlines()[0] and "recording" in text.splitlines()[0] and "keep (grow.lua:2)" in text
        )


def test_resident_memory(tmp_path: Path) -> None:
    """As the kernel has it; the recorder's part as a look of --pages has it."""
    path = tmp_path / "t.ljt"
    with started(
        [*native(path, "--pages=100ms"), NATIVE / "resident", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        facts = json.loads(run(["steve", "info", "--json", path]).text)["recording"]
        wait_for(lambda: len(json.loads(steve("resident", path, "--json", "--by", "look").text)["rows"]) > 3, "looks")
        text = run(["steve", "top", "--once", path]).text
        found = re.search(r"^resident ([\d.]+) MiB: live <= .* recorder ([\d.]+) MiB, rest >= .*$", text, re.M)
        assert found, text
        status = Path(f"/proc/{facts['pid']}/status").read_text()
        rss = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert rss and abs(float(found[1]) - int(rss[1]) / 1024) < 0.2
        rows = json.loads(steve("resident", path, "--json", "--at", "end").text)["rows"]
        (recorder,) = (row["bytes"] for row in rows if row["kind"] == "recorder")
        assert abs(float(found[2]) - recorder / (1 << 20)) < 0.5
