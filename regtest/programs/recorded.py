"""recorded - run a program of the table alone and under both recorders, and say what is not as it should be.

Each run has a fresh copy of the program's folder. What is wrong is collected, not raised at the first, because one
fault often explains another. The table decides what is expected (`table.py`); this file knows no program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from support import Done, Trace, collectors_of, good, run, steve, wait_for
from servers import Server
from table import Program

RECORDERS = {
    "V": ("valgrind", "--tool=ljtrace", "--trace-mem=no", "--leak-scan=no", "--out={}"),
    "R": ("ljtrace", "run", "--out={}"),
}
# the rest of a line that the recorder begins, which may follow a program's text without a newline
OWN_TEXT = {"V": re.compile(rb"(?:==|--|\*\*)\d+(?:==|--|\*\*).*\n?"), "R": re.compile(rb"ljtrace: .*\n?")}
DTV_ENTRY = 16  # bytes
KINDS = ("new", "free", "resize")
PROPER = {"CC1": ("gcc", "cc1"), "CC1PLUS": ("g++", "cc1plus")}  # compilers proper, whose drivers know their paths


@dataclass
class Run:
    """A run in a folder: how it ended, what it wrote, and, of a recorder, what that said and the traces."""

    folder: Path
    done: Done
    err: bytes  # of the program
    said: str  # by the recorder
    traces: list[Path]  # the program's first, then those of forked children


def argv_of(program: Program | Server) -> list[str]:
    first, *rest = program.argv
    if first in PROPER:
        driver, name = PROPER[first]
        first = good([driver, f"-print-prog-name={name}"]).text.strip() if shutil.which(driver) else name
    return [first, *rest]


def missing(program: Program | Server) -> str | None:
    """Why it cannot run here; None if it can."""
    wanted = [argv_of(program)[0], *program.needs, *(line[0] for line in program.build)]
    for name in wanted:
        if not name.startswith("./") and not shutil.which(name) and not Path(name).is_file():
            return f"{name} is not installed: apt-get install {program.package}"
    return None


def prepare(program: Program, folder: Path) -> Path:
    """Make the folder as it is before the program runs."""
    folder.mkdir()
    for name, text in program.files.items():
        (folder / name).write_text(text)
    for line in program.build:
        good(line, cwd=folder)
    return folder


def perform(program: Program, prepared: Path, recorder: str = "") -> Run:
    """Run it in a copy of the folder, at the same path each time, since names are in blocks; then move that away."""
    place, folder = prepared.parent / "here", prepared.parent / (recorder or "alone")
    shutil.copytree(prepared, place, symlinks=True)
    path = prepared.parent / f"{recorder}.ljt"
    prefix = [word.format(path) for word in RECORDERS[recorder]] if recorder else []
    prefix += program.valgrind if recorder == "V" else ()
    done = run([*program.around, *prefix, *argv_of(program)], env=program.env, cwd=place, stdin=program.stdin.encode())
    wait_for(lambda: not collectors_of(path), "the traces of children are complete")
    place.rename(folder)
    err, said = separated(done.err, recorder)
    children = sorted(path.parent.glob(f"{recorder}.*.ljt")) if recorder else []
    return Run(folder, done, err, said, ([path] if path.exists() else []) + children)


def separated(err: bytes, recorder: str) -> tuple[bytes, str]:
    """What the program has written to standard error, and what the recorder has."""
    own = OWN_TEXT.get(recorder)
    if own is None:
        return err, ""
    return own.sub(b"", err), b"".join(own.findall(err)).decode(errors="replace")


def shown(data: bytes) -> str:
    return repr(data if len(data) < 300 else data[:150] + b" ... " + data[-150:])


def changed(program: Program, alone: Run, other: Run) -> Iterator[str]:
    """What the recorder has changed of what the program does."""
    if alone.done.status != other.done.status:
        yield f"status {other.done.status}, alone {alone.done.status}"
    if alone.done.out != other.done.out:
        yield f"output {shown(other.done.out)}, alone {shown(alone.done.out)}"
    if program.silent_stderr and alone.err != other.err:
        yield f"standard error {shown(other.err)}, alone {shown(alone.err)}"
    for name in program.makes:
        if (alone.folder / name).read_bytes() != (other.folder / name).read_bytes():
            yield f"the file {name} is another"


def unsound(path: Path) -> Iterator[str]:
    try:
        Trace(path, Done(0, b"", b"")).check()
    except AssertionError as error:
        yield f"{path.name}: {error}"


def sizes(path: Path) -> Counter[tuple[str, int]]:
    """How many events of each kind and size a trace has."""
    return Counter((e[0], int(e[3])) for e in Trace(path, Done(0, b"", b"")).events() if e[0] in KINDS)


def totals(path: Path) -> dict[str, int]:
    return {kind: Trace(path, Done(0, b"", b"")).counts()[kind] for kind in KINDS}


def unsaid(row: Program | Server, recorder: str, said: str, trace: Path) -> Iterator[str]:
    """What is not said of memory that the recorder does not see, or is said without need."""
    info, expected = steve("info", trace).text, row.unseen.get(recorder)
    for place, text in (("on standard error", said), ("by `steve info`", info)):
        if expected and not re.search(expected, text):
            yield f"not said {place}: {expected!r}"
    if row.remark and not re.search(row.remark, info):
        yield f"not said by `steve info`: {row.remark!r}"
    if not expected and "may not be recorded" in said:
        yield f"said without need: {said!r}"
    if not expected and not row.remark and (needless := re.search("not seen.*", info)):
        yield f"said without need by `steve info`: {needless[0]!r}"


def accused(trace: Path) -> Iterator[str]:
    """What a correct program is said to do wrong."""
    unmatched = json.loads(steve("summary", "--json", trace).text)["unmatched"]["free"]
    if unmatched:
        yield f"{trace.name}: {unmatched} unmatched frees"


def amiss(program: Program, recorder: str, other: Run) -> Iterator[str]:
    """What is wrong with the traces and with what the recorder says."""
    if recorder in program.unrecorded:
        if not re.search(program.unrecorded[recorder], other.said):
            yield f"does not say {program.unrecorded[recorder]!r}: {other.said!r}"
        if other.traces:
            yield "there is a trace"
        return
    if not other.traces:
        yield f"no trace: {other.said!r}"
        return
    for path in other.traces:
        yield from unsound(path)
        yield from accused(path)
    yield from unsaid(program, recorder, other.said, other.traces[0])
    if (news := totals(other.traces[0])["new"]) < program.least:
        yield f"{news} allocations, at least {program.least} are right"


def apart(program: Program, ours: Path, theirs: Path) -> Iterator[str]:
    """How the events of the two recorders differ."""
    first, second = totals(ours), totals(theirs)
    if program.differs:
        for kind in KINDS:
            a, b = first[kind], second[kind]
            if abs(a - b) > program.differs.share * max(a, b) + 10:
                yield f"{kind}: V {a}, R {b}, more apart than {program.differs.because} explains"
        return
    if first != second:
        yield f"V {first}, R {second}"
    rows = [] if program.sizes_differ else different_sizes(ours, theirs)
    if rows:
        yield "sizes, V more than R: " + ", ".join(f"{kind} of {size}: {n:+}" for (kind, size), n in rows[:12])


def different_sizes(ours: Path, theirs: Path) -> list[tuple[tuple[str, int], int]]:
    """How often each kind and size occurs more in the first trace, the largest difference first."""
    rest = sizes(ours)
    rest.subtract(sizes(theirs))
    for kind, size in list(rest):
        # the library of `ljtrace run` has thread-local variables: each thread's table of them (dtv) has an entry more
        pair = (kind, size + DTV_ENTRY)
        if rest[kind, size] > 0 > rest[pair]:
            n = min(rest[kind, size], -rest[pair])
            rest[kind, size] -= n
            rest[pair] += n
    return sorted(((key, n) for key, n in rest.items() if n), key=lambda row: -abs(row[1]))


def wrongs(program: Program, folder: Path) -> list[str]:
    """All that is wrong with the recordings of a program; none is right."""
    prepared = prepare(program, folder / "P")
    alone = perform(program, prepared)
    found = [] if alone.done.status == program.status else [f"alone: status {alone.done.status}: {shown(alone.err)}"]
    runs = {name: perform(program, prepared, name) for name in RECORDERS if name not in program.without}
    for name, other in runs.items():
        found += [f"{name}: {text}" for text in (*changed(program, alone, other), *amiss(program, name, other))]
    return found + list(compared(program, runs))


def compared(program: Program, runs: dict[str, Run]) -> Iterator[str]:
    """How the recorders' traces differ, where both have made one."""
    traces = [run.traces for run in runs.values() if run.traces]
    if len(traces) < len(RECORDERS):
        return
    yield from apart(program, traces[0][0], traces[1][0])
    numbers = [len(each) - 1 for each in traces]
    if numbers[0] != numbers[1]:
        yield f"traces of children: V {numbers[0]}, R {numbers[1]}"
