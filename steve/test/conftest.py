"""What the tests of steve share: running the command, making traces, random histories of a heap.

The tests run against the build tree, inside `./in-place`; the recorder is not needed, since test/mktrace
makes traces from scripts.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import subprocess
import sys
from pathlib import Path
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "regtest")]
import warm  # noqa: E402

sys.dont_write_bytecode = True

BUILD = os.environ.get("LJTRACE_BUILDDIR", "")
MKTRACE = Path(BUILD) / "steve" / "test" / "mktrace"


def pytest_configure(config: pytest.Config) -> None:
    # Use no database of failing examples in the source folder. Run the same examples every time, new ones
    # only on request (LJTRACE_FAULTS, which `make faults` sets). A busy machine must not fail a test.
    hypothesis.settings.register_profile(
        "steve",
        database=None,
        deadline=None,
        derandomize="LJTRACE_FAULTS" not in os.environ,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("steve")
    if not BUILD:
        pytest.exit("run these tests inside the build tree: ./in-place python3 -m pytest ...", 2)


def examples(number: int, *allowed: hypothesis.HealthCheck) -> hypothesis.settings:
    """The settings of a test of random examples: `number` of them on request (LJTRACE_FAULTS, which `make faults` sets), else a
    third, as the tests of a change have to end soon. allowed: what hypothesis would complain about otherwise."""
    return hypothesis.settings(
        max_examples=number if "LJTRACE_FAULTS" in os.environ else max(number // 3, 10),
        suppress_health_check=[*allowed, hypothesis.HealthCheck.too_slow],
    )


def run_group(words: list[str], stdin: bytes = b"", seconds: float = 1800, **more: Any) -> subprocess.CompletedProcess:
    """Run a command to its end. On a timeout or interrupt, end all processes that it has started."""
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0, **more
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Steve:
    """Runs `steve` in one folder. A call returns the result of subprocess.run, with text output.

    forked: a command that needs no more than arguments and the folder does not start Python anew (warm.py)."""

    def __init__(self, folder: Path, forked: bool = True) -> None:
        self.folder = folder
        self.prefix: list[str] = []
        self.forked = forked

    def __call__(self, *arguments: object, stdin: bytes = b"", **more: Any) -> subprocess.CompletedProcess:
        words = [*map(str, arguments)]
        if self.forked and not (self.prefix or stdin or more):
            result = warm.steve(words, self.folder)
        else:
            result = run_group([*self.prefix, "steve", *words], stdin, cwd=self.folder, **more)
        result.out = result.stdout.decode("utf-8", "surrogateescape")
        result.err = result.stderr.decode("utf-8", "surrogateescape")
        return result


@pytest.fixture
def steve(tmp_path: Path, request: pytest.FixtureRequest) -> Steve:
    """In files of tests that have FRESH, each command is a new process of Python."""
    return Steve(tmp_path, not hasattr(request.module, "FRESH"))


def make_trace(path: Path, script: str, chunk_events: int = 0, checkpoint_interval: int = 0) -> Path:
    """Make a memtrace from a script of mktrace. chunk_events: events of a chunk; 0: the writer's default."""
    arguments = [str(MKTRACE), str(path), str(chunk_events), str(checkpoint_interval)]
    subprocess.run(arguments, input=script.encode("utf-8", "surrogateescape"), check=True)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    """A function trace(script, name="t.ljt", chunk_events=0) that makes a memtrace in the folder of the
    test."""

    def make(script: str, name: str = "t.ljt", chunk_events: int = 0) -> Path:
        return make_trace(tmp_path / name, script, chunk_events)

    return make


# the superuser may access every file unless these capabilities are dropped
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.fixture
def bound_by_permissions(steve: Steve) -> Steve:
    """Runs `steve` so that file permissions apply even if the tests run as the superuser."""
    if os.geteuid() == 0:
        steve.prefix = UNPRIVILEGED
        if subprocess.run([*UNPRIVILEGED, "true"], capture_output=True).returncode != 0:
            pytest.skip("run by the superuser, who cannot give up the right to override permissions here")
    return steve


@pytest.fixture
def no_leftovers(tmp_path: Path) -> Callable[[], list[str]]:
    """The temporary files that a failed command left in the folder of the test, which must be none."""
    return lambda: [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".part")]


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[bytes], Path]:
    """A function that writes the bytes of a profiler's file and returns its path."""

    def write(data: bytes) -> Path:
        (tmp_path / "prof.bin").write_bytes(data)
        return tmp_path / "prof.bin"

    return write
