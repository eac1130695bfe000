"""test_existing_blocks - `ljtrace attach --existing-blocks` records the blocks that a program had before.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import subprocess
from pathlib import Path

import pytest

from support import NATIVE, SECONDS, Done, Trace, good, run, started, steve, wait_for

ROW = "[before the attach]"


class Program:
    """The program `before`, which prints what blocks it has."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.live: dict[int, int] = {}
        self.others: set[int] = set()
        self.read("ready")

    def read(self, last: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            what, *numbers = line.decode().split()
            if what == last:
                return
            if what == "live":
                self.live[int(numbers[0], 16)] = int(numbers[1])
            else:
                self.others.add(int(numbers[0], 16))
        raise AssertionError("the program has ended")

    def go_on(self) -> set[int]:
        """Have it free and resize half of its blocks. Returns those that it has kept."""
        assert self.process.stdin
        self.others = set()
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.read("done")
        return self.others


def recorded(mode: str, path: Path, *options: str) -> tuple[Program, set[int], set[int], Trace, str]:
    """The program; the blocks that it had freed before; those that it has kept; the trace; what the recorder says."""
    argv = [NATIVE / "before", mode]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(argv, **pipes) as process:
        program = Program(process)
        gone = program.others
        command = ["ljtrace", "attach", "--existing-blocks", f"--out={path}", *options, process.pid]
        with started(command, stderr=subprocess.PIPE) as recorder:
            wait_for(
                lambda: path.exists() and b'"existing": {' in run(["steve", "summary", "--json", path]).out,
                "they are known",
            )
            kept = program.go_on()
            good(["ljtrace", "detach", process.pid])
            said = recorder.communicate(timeout=SECONDS)[1].decode()
            assert recorder.returncode == 0, said
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(SECONDS) == 0
    return program, gone, kept, Trace(path, Done(0, b"", b"")).check(), said


def earlier(trace: Trace) -> dict[int, int]:
    """The addresses and sizes of the blocks from before."""
    found = re.findall(
        r"^new .*addr=(0x\w+) size=(\d+) .*implied=1 earlier=1", good(["steve", "dump", trace.path]).text, re.M
    )
    return {int(address, 16): int(size) for address, size in found}


@pytest.mark.parametrize("mode", ["one", "threads", "busy"])
def test_all_blocks_with_their_sizes(mode: str, tmp_path: Path) -> None:
    """Of the arenas of all threads, of several heaps, mapped ones, aligned ones; and none that is free."""
    program, gone, kept, trace, said = recorded(mode, tmp_path / "t.ljt")
    found = earlier(trace)
    assert {address: found.get(address) for address in program.live} == program.live
    free = gone - set(program.live)  # threads use again what others have freed
    # the dynamic linker has loaded the recorder's library meanwhile, and may have used what was free
    assert len(free) > 100 and len(free & set(found)) < 20
    assert mode == "busy" or len(found) < len(program.live) + 40
    assert "not all blocks" not in said
    counts = trace.counts()
    assert counts["badfree"] == 0 and "dropped events 0" in " ".join(steve("summary", trace.path).text.split())
    summary = json.loads(steve("summary", "--json", trace.path).text)
    assert summary["existing"] == {"blocks": len(found), "bytes": sum(found.values()), "problem": ""}
    freed = {int(event[2]) for event in trace.events() if event[0] == "free"}
    assert len(kept) > 80 and not kept & freed
    assert len(freed & set(program.live)) > 40
    if mode != "busy":
        assert summary["older_frees"] == 0


def test_one_row_of_each_table(tmp_path: Path) -> None:
    program, _, kept, trace, _ = recorded("one", tmp_path / "t.ljt", "--pages")
    sizes = [program.live[address] for address in kept]
    leaks = [row for row in json.loads(steve("leaks", "--json", trace.path).text) if row["site"] == ROW]
    assert len(leaks) == 1 and leaks[0]["blocks"] >= len(kept) and leaks[0]["bytes"] >= sum(sizes)
    sites = json.loads(steve("sites", "--json", "--where", "earlier", trace.path).text)
    assert [row["site"] for row in sites] == [ROW]
    text = steve("resident", trace.path).text
    assert "Blocks from before" not in text and "Not all blocks" not in text
    resident = json.loads(steve("resident", "--json", trace.path).text)
    good(["steve", "report", "-q", trace.path, "-o", tmp_path / "page.html"])
    page = (tmp_path / "page.html").read_text()
    assert ROW in page and f"<b>{ROW}</b> has" not in page  # that most of the peak is from before says nothing
    live = next(row for row in resident["rows"] if row["kind"] == "live")
    assert live["bytes"] > 0.9 * sum(size for size in sizes if size < 5000)


def test_inconsistent_heap(tmp_path: Path) -> None:
    """Nothing is given rather than something wrong."""
    _, _, _, trace, said = recorded("broken", tmp_path / "t.ljt")
    assert not earlier(trace) and "not all blocks from before the attach are known" in said
    assert "not known: a " in steve("summary", trace.path).text


def test_other_allocator(tmp_path: Path) -> None:
    """Its heap is not walked."""
    library = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    if not library.exists():
        pytest.skip("libjemalloc2 is not installed")
    with started(["env", f"LD_PRELOAD={library}", "sleep", "100"]) as process:
        wait_for(lambda: b"jemalloc" in Path(f"/proc/{process.pid}/maps").read_bytes(), "the program runs")
        done = run(["ljtrace", "attach", "--existing-blocks", f"--out={tmp_path}/t.ljt", "--seconds=0.2", process.pid])
    assert done.status == 0 and "its malloc is not that of the C library" in done.complaint


def test_not_in_a_sample() -> None:
    done = run(["ljtrace", "attach", "--existing-blocks", "--sample", "1"])
    assert done.status == 125 and "does not go with --sample" in done.complaint
