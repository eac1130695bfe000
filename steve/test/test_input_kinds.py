"""Every command accepts every kind of input that has the data it needs: memtraces, classic text (alone, mixed
into other output, compressed) and ops files (text, compressed, binary), from a file, a pipe or standard
input. Events in classic text that match no block are counted and reported.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import itertools
import json
import os
import re
import subprocess
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve
from steve import cli

# without Lua, marks and stacks, so that classic text can express all of it
SCRIPT = """\
N 4096 64
N 8192 100
S 4096 8
L 4104 4
L 4156 16
M 8208 8
R 4096 12288 256
L 12288 4
F 8192
end exit
"""
TRACE = {
    "ljt": "binary",
    "zst": "binary, compressed once more",
    "text": "classic",
    "mixed": "classic in other output",
    "text.zst": "classic, compressed",
}
OPS = {"ops": "text", "ops.zst": "text, compressed", "binary": "binary"}
# commands whose output does not depend on what text cannot express: equal for each form of the trace
COMMANDS = {
    "sites": ("--json",),
    "lines": ("--json",),
    "types": ("--json",),
    "threads": ("--json",),
    "leaks": ("--json",),
    "temporaries": ("--json", "--within", "9"),
    "globals": ("--json", "--share", "1"),
    "heat": ("--json",),
    "fields": ("--json",),
    "sharing": ("--json",),
    "workingset": ("--json",),
    "reuse": ("--json",),
    "findings": ("--json",),
    "lifetimes": ("--json", "--by-size"),
    "ops": ("--text", "-o", "-"),
    "memtrace": (),
    "export": ("--format", "folded", "-o", "-"),
    "lockops": ("--text", "--stack", "-o", "-"),
}
OTHERS = {
    "info": ("--json",),
    "summary": ("--json",),
    "states": ("--json",),
    "resizes": ("--json",),
    "check": ("--json",),
    "dump": (),
    "report": ("--json",),
    "flame": ("-o", "-"),
}
OF_OPS = {
    "full": ("lockops", "--full", "-o", "-"),
    "simple": ("lockops", "--simple", "-o", "-"),
    "stats": ("lockops", "--full", "--stats", "--json"),
    "histogram": ("histogram", "--parts", "none", "--json"),
}
LABEL = ("file", "trace")
# each kind is piped to some of the commands
PIPED = dict(zip(sorted(COMMANDS), itertools.cycle(TRACE)))


@pytest.fixture
def files(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> dict[str, Path]:
    """Each kind of file, with the same contents. Resizes are F and N in all of them."""
    resized = trace(SCRIPT, "resized.ljt")
    classic = steve("memtrace", resized).out
    lines = [line.split()[1:] for line in classic.splitlines()]
    path = trace(
        "".join(f"{op} {addr}{'' if op == 'F' else ' ' + size}\n" for op, addr, size in lines) + "end exit\n", "in.ljt"
    )
    found = {
        "ljt": path,
        "text": tmp_path / "in.txt",
        "mixed": tmp_path / "in.log",
        "ops": tmp_path / "in-ops",
        "binary": tmp_path / "in.binary-ops",
    }
    found["text"].write_text(classic)
    noise = "\n==7== Memcheck, a memory error detector\n>>> this is no event\n>>>N 1 2\n"
    found["mixed"].write_text(noise.join(classic.splitlines(keepends=True)))
    for kind in ("text", "binary"):
        assert steve("ops", f"--{kind}", path, "-o", found["ops" if kind == "text" else kind]).returncode == 0
    for kind, of in (("zst", "ljt"), ("text.zst", "text"), ("ops.zst", "ops")):
        found[kind] = tmp_path / f"{kind}.zst"
        subprocess.run(["zstd", "-q", found[of], "-o", found[kind]], check=True)
    return found


def by_name(path: Path, line: list[str]) -> str:
    """The output of a command for a file, run in this process."""
    output = path.with_name("written")
    arguments = [word for word in line if word not in ("-o", "-")]
    assert cli.guarded(line[0], [*arguments[1:], "-o", str(output), str(path)]) == 0, (line, path)
    return output.read_text()


def by_pipes(steve: Steve, path: Path, line: list[str]) -> dict[str, subprocess.CompletedProcess]:
    """The results of a command for a named pipe and for standard input."""
    pipe = path.with_name("pipe")
    if not pipe.exists():
        os.mkfifo(pipe)
    results = {"standard input": steve(*line, "-", stdin=path.read_bytes())}
    with subprocess.Popen(["sh", "-c", f"cat '{path}' >'{pipe}'"]) as writer:
        results["pipe"] = steve(*line, pipe)
        assert writer.wait(1800) == 0
    return results


def outcome(text: str) -> object:
    """The output without the names of files."""
    if not text.startswith(("{", "[")):
        return text
    found = json.loads(text)
    return {key: value for key, value in found.items() if key not in LABEL} if isinstance(found, dict) else found


def unnamed(text: str) -> str:
    """The text without names and sizes of files, which are unknown for pipes."""
    text = re.sub(r'"bytes(_per_event)?": [^,]*,', "", text)
    return re.sub(r"(/\S+/)?\b(zst\.zst|in\.log|pipe)\b|standard input|(?<=[>\"])-(?=[:\"])", "NAME", text)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_kind_of_trace(steve: Steve, files: dict[str, Path], command: str) -> None:
    line = [command, "-q", *COMMANDS[command]]
    expected = outcome(by_name(files["ljt"], line))
    assert expected or command == "sharing"  # classic text has no threads
    for kind in TRACE:
        assert outcome(by_name(files[kind], line)) == expected, kind
    for way, done in by_pipes(steve, files[PIPED[command]], line).items():
        assert (done.returncode, outcome(done.out)) == (0, expected), (way, done.err)


@pytest.mark.parametrize("command", sorted(OTHERS))
def test_commands_that_tell_kinds_apart(steve: Steve, files: dict[str, Path], command: str) -> None:
    """The output depends on the kind of the file, but not on how it is read."""
    line = [command, "-q", *OTHERS[command]]
    for kind in ("zst", "mixed"):
        expected = steve(*line, files[kind])
        assert expected.returncode == 0 and expected.out, expected.err
        for way, done in by_pipes(steve, files[kind], line).items():
            if (command, way) == ("flame", "pipe"):  # mistaken for a profiler's file
                continue
            assert done.returncode == 0, (kind, way, done.err)
            assert of_one_reading(command, done.out) == of_one_reading(command, expected.out), (kind, way)


def of_one_reading(command: str, out: str) -> str:
    """The output without names, and for the report without what takes another reading of the trace, which a pipe does not
    allow."""
    if command == "report":
        out = json.dumps({key: value for key, value in json.loads(out).items() if key != "by_offset"}, indent=2)
    return unnamed(out)


@pytest.mark.parametrize("command", sorted(OF_OPS))
def test_every_kind_of_operations(steve: Steve, files: dict[str, Path], command: str) -> None:
    line = [*OF_OPS[command], "-q"]
    expected = outcome(steve(*line, files["ops"]).out)
    assert expected
    for kind in (*OPS, *TRACE):
        done = steve(*line, files[kind])
        assert (done.returncode, outcome(done.out)) == (0, expected), (kind, done.err)
    for kind in ("binary", "text.zst"):
        for way, done in by_pipes(steve, files[kind], line).items():
            assert (done.returncode, outcome(done.out)) == (0, expected), (kind, way, done.err)


# ---- files of the other kind, and traces without what a command counts -------------------------


@pytest.mark.parametrize("command", ["summary", "info", "sites", "heat", "report", "findings"])
def test_an_ops_file_is_named_as_such(steve: Steve, files: dict[str, Path], command: str) -> None:
    for kind in OPS:
        done = steve(command, files[kind])
        assert done.returncode == 1
        assert done.err.endswith(
            f"{files[kind]}: is an ops file; this command reads the memtrace from which " "`steve ops` made it\n"
        )


@pytest.mark.parametrize("command", ["allocstats", "animate", "compare"])
def test_a_memtrace_is_named_as_such(steve: Steve, files: dict[str, Path], command: str) -> None:
    for kind in ("text",) if command == "animate" else ("ljt", "zst", "text"):  # of binary traces there are films
        done = steve(command, files[kind])
        assert done.returncode == 1
        assert "is a memtrace; `steve ops` makes an ops file of it" in done.err


@pytest.mark.parametrize(
    "facts, why",
    [
        ("info recorder native\ninfo trace_mem no\n", "`ljtrace run` and `ljtrace attach` do not record them"),
        ("info trace_mem no\n", "it was recorded with --trace-mem=no; record without that option"),
        ("info imported_from mtrace\ninfo lacks accesses, threads\n", "it was imported from mtrace"),
        ("info trace_mem yes\n", None),
    ],
)
def test_commands_that_count_accesses_say_if_there_are_none(
    steve: Steve, trace: Callable[..., Path], facts: str, why: str | None
) -> None:
    path = trace(facts + "N 4096 64\nF 4096\nend exit\n")
    for command in ("heat", "fields", "sharing", "workingset", "reuse"):
        done = steve(command, path)
        assert done.returncode == 0
        assert (why in done.err and "has no loads and stores" in done.err) if why else not done.err
        assert not steve(command, "-q", path).err
    for command, head in (("sites", "stores"), ("lines", "loads")):
        done = steve(command, path)
        assert not done.err and (head in done.out) == (why is None)
    assert steve("summary", path).out.count("not recorded") == (6 if why else 0)


def test_what_a_detached_program_holds_may_still_be_freed(steve: Steve, trace: Callable[..., Path]) -> None:
    before = "not freed before the recording ended"
    for end, words in (("exit", "never freed"), ("detached", before), ("stopped", before), ("limit", before)):
        assert f"1 block of 64 bytes {words}" in steve("leaks", trace(f"N 4096 64\nend {end}\n")).out


# ---- classic text with what fits no block -------------------------------------------------------

STRAY = """\
>>> L 100 4
>>> N 4096 16
>>> S 4104 4
>>> L 4108 8
>>> L 4112 4
>>> F 5000 0
>>> F 4096 0
>>> F 4096 0
>>> M 4096 4
"""


def test_what_fits_no_block_is_counted(steve: Steve) -> None:
    """Outside: accesses below, above, before and after the block. Crossing: accesses that begin in the block
    and end beyond it."""
    figures = json.loads(steve("summary", "--json", "-", stdin=STRAY.encode()).out)
    assert figures["unmatched"] == {"free": 2, "access": 3}
    assert figures["events"] == {"new": 1, "free": 1, "resize": 0, "load": 1, "store": 1, "modify": 0}
    for command in (("ops", "-"), ("lockops", "--full", "-"), ("histogram", "--parts", "none", "-")):
        done = steve(*command, stdin=STRAY.encode())
        assert done.returncode == 0
        assert "left out what matched no live block: accesses 3, frees 2" in done.err, command
    assert steve("ops", "-", stdin=STRAY.encode()).out == "0 N 4096 16\n0 S 4104 4\n0 L 4108 8\n0 F 4096 0\n"


def test_crossing_accesses_are_reported(steve: Steve) -> None:
    checked = json.loads(steve("check", "--json", "-", stdin=STRAY.encode()).out)
    assert checked["sound"] is True and checked["crossing"]["count"] == 1
    assert (checked["crossing"]["addr"], checked["crossing"]["size"]) == (4108, 8)
    assert "1 access ends beyond the block" in steve("check", "-", stdin=STRAY.encode()).out
    found = {row["finding"]: row for row in json.loads(steve("findings", "--json", "-", stdin=STRAY.encode()).out)}
    assert found["beyond_end"]["errors"] == 1
    (context,) = found["beyond_end"]["contexts"]
    assert (context["offset"], context["size"], context["block_size"]) == (12, 8, 16)
    assert sum(row["errors"] for row in found.values() if "errors" in row) >= 3


def test_addresses_of_64_bits(steve: Steve) -> None:
    top = 2**64 - 4096
    text = f">>> N {top} 64\n>>> L {top + 60} 4\n>>> N 0 8\n>>> S 0 8\n>>> F {top} 0\n"
    assert steve("ops", "-", stdin=text.encode()).out == (
        f"0 N {top} 64\n0 L {top + 60} 4\n1 N 0 8\n1 S 0 8\n0 F {top} 0\n"
    )
