"""tools - the tools under which the benchmark runs a program, and how one run is measured.

Wall time is from start to the end of the process that was started; for ljtrace this includes the wait until
the collector has written its file. Peak memory is the kernel's: of the tool by wait4 (which includes the
program in it, and for a process that Python starts is never less than Python's own), of the collector by
/proc while it runs. The collector is, by design, no child of the program. To see it, the benchmark makes
itself the process that inherits orphans (a subreaper). Runs that fail, or print something else than the
native run, end the benchmark.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Mapping

from programs import Program

PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.02
PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


class BenchError(Exception):
    """A run that cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Tool:
    """A column of the table: the words before the program's command (OUT stands for its file), and when it is
    used: `only` = "" for all programs, "c" or "lua" for those of a kind, "shortest" for that one alone, once."""

    name: str
    words: tuple[str, ...]
    only: str = ""

    @property
    def is_ours(self) -> bool:
        return "--tool=ljtrace" in self.words


def valgrind(name: str, *options: str, label: str = "", only: str = "") -> Tool:
    return Tool(label or name, ("valgrind", "-q", f"--tool={name}", *options), only)


NATIVE = Tool("native", ())
NONE = valgrind("none")
TOOLS = (
    NATIVE,
    NONE,
    valgrind("ljtrace", "--out=OUT"),
    valgrind("ljtrace", "--trace-mem=no", "--out=OUT", label="heap only"),
    valgrind("ljtrace", "--trace-freed=no", "--out=OUT", label="no freed"),
    valgrind("ljtrace", "--lua-states=no", "--out=OUT", label="no states", only="lua"),
    valgrind("ljtrace", "--trace-mem=no", "--lua=no", "--out=OUT", label="heap no lua", only="lua"),
    valgrind("memcheck"),
    valgrind("dhat", "--dhat-out-file=OUT"),
    valgrind("massif", "--massif-out-file=OUT"),
    valgrind("lackey", "--trace-mem=yes", only="shortest"),
    Tool("heaptrack", ("heaptrack", "-o", "OUT"), "c"),
)


@dataclass
class Run:
    """What one run cost. Memory in bytes; the collector's is 0 where there is none."""

    seconds: float
    tool_memory: int
    collector_memory: int
    stdout: bytes = field(repr=False)


def missing_tools() -> dict[str, str]:
    """Tools that are not here: name -> reason."""
    return {
        tool.name: f"{tool.words[0]} is not installed (Debian package {tool.words[0]})"
        for tool in TOOLS
        if tool.words and shutil.which(tool.words[0]) is None
    }


def environment(tool: Tool) -> dict[str, str]:
    """Installed Valgrind tools run without the build tree's VALGRIND_LIB; heaptrack opens no window."""
    unwanted = {"DISPLAY", "WAYLAND_DISPLAY"} | (set() if tool.is_ours else {"VALGRIND_LIB"})
    env = {k: v for k, v in os.environ.items() if k not in unwanted}
    return {**env, "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "LC_ALL": "C"}


def adopt_orphans() -> None:
    """From now on the collector becomes our child when its parents end."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise BenchError(f"cannot adopt orphans: {os.strerror(ctypes.get_errno())}")


def other_children(main: int) -> list[int]:
    """Process ids of our children but the one we started."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [pid for pid in map(int, text.split()) if pid != main]


def peak_of(pid: int) -> int:
    """Most bytes a living process has had in memory, 0 if it is gone."""
    try:
        found = PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found.group(1)) * 1024 if found else 0


def reap_orphans() -> int:
    """Wait for what is left of the run, so that it does not disturb the next; the most memory one of them has had,
    the tool's image before it became the collector included."""
    most = 0
    try:
        while True:
            most = max(most, os.wait3(0)[2].ru_maxrss * 1024)
    except ChildProcessError:
        return most


def watch(process: subprocess.Popen[bytes], start: float, limit: float) -> tuple[int, float, int, int]:
    """Wait for a process: its status, seconds, its peak memory, and that of its orphans."""
    collector = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        seconds = time.monotonic() - start
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, seconds, usage.ru_maxrss * 1024, collector
        if seconds > limit:
            process.kill()
        collector = max([collector, *map(peak_of, other_children(process.pid))])
        time.sleep(min(POLL_SECONDS, max(seconds / 100, 0.0005)))


def run_once(
    command: list[str], env: Mapping[str, str], stdin: Path | None, err: BinaryIO | int, limit: float
) -> tuple[int, Run]:
    with open(stdin or os.devnull, "rb") as source, tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen(command, env=env, stdin=source, stdout=out, stderr=err)
        status, seconds, tool, collector = watch(process, start, limit)
        left = reap_orphans()
        out.seek(0)
        return status, Run(seconds, tool, collector or left, out.read())


def measure(program: Program, tool: Tool, out: Path, limit: float = 3600) -> Run:
    """Run a program under a tool once. `out`: the tool's file; heaptrack adds an ending to its name."""
    command = [word.replace("OUT", str(out)) for word in tool.words] + list(program.command)
    if tool.only == "shortest":  # writes a line for each access, which is not kept
        status, run = run_once(command, environment(tool), program.stdin, subprocess.DEVNULL, limit)
        said = b"its stderr was not kept"
    else:
        with tempfile.TemporaryFile() as err:
            status, run = run_once(command, environment(tool), program.stdin, err, limit)
            err.seek(0)
            said = err.read()[-2000:]
    if status != 0:
        raise BenchError(f"{' '.join(command)}: status {status}\n{said.decode(errors='replace')}")
    return run


def same_output(tool: Tool, run: Run, native: bytes) -> bool:
    """Did the program print what it prints natively? heaptrack prints lines of its own around that."""
    return native in run.stdout if tool.name == "heaptrack" else native == run.stdout
