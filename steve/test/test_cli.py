"""The command line of steve: the output of each subcommand, and its behaviour on every kind of bad input.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import subprocess
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve
from steve.command import COMMANDS, GROUPS, Command

FRESH = True  # each command is a new process of Python

Maker = Callable[..., Path]

SCRIPT = """\
info command luajit app.lua
info pid 77
stack main lua_pcall malloc
stack main free
heap 0x1234 lua
thread 1
time 100
N 4096 64 1
N 8192 100 1 1
S 4096 8
thread 2
L 4104 4
M 8208 8
L 40960 4
time 250
R 4096 12288 256 1
L 12288 4
F 8192 2 1
F 21845
mark here
time 900
end exit
"""

OPS = """\
0 N 4096 64
1 N 8192 100
0 S 4096 8
0 L 4104 4
1 M 8208 8
0 F 4096 0
2 N 12288 256
2 L 12288 4
1 F 8192 0
"""

CLASSIC = """\
>>> N 4096 64
>>> N 8192 100
>>> S 4096 8
>>> L 4104 4
>>> M 8208 8
>>> F 4096 0
>>> N 12288 256
>>> L 12288 4
>>> F 8192 0
"""

READERS = (
    ("info",),
    ("summary",),
    ("check",),
    ("dump",),
    ("memtrace",),
    ("ops",),
    ("lockops", "--simple"),
    ("lockops", "--full"),
    ("histogram", "--parts", "none"),
)
OF_OPS = ("lockops", "histogram")


def test_ops_and_classic_text(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    trace(SCRIPT)
    result = steve("ops", "--text", "t.ljt")
    assert result.returncode == 0 and result.out == ""
    assert (tmp_path / "t.ljt-ops").read_text() == OPS
    assert result.err == (
        "steve ops: wrote t.ljt-ops: 106 bytes, for steve lockops, histogram and steve-replay\n"
        "steve ops: t.ljt: left out what matched no live block: accesses 0, frees 1\n"
    )
    assert steve("ops", "-q", "t.ljt", "-o", "-").out == OPS
    result = steve("memtrace", "t.ljt")
    assert (result.out, result.returncode) == (CLASSIC, 0)
    assert "frees of no block 1, marks and other events 1" in result.err


def test_classic_text_mixed_into_other_output(steve: Steve) -> None:
    noise = "==1== Memcheck\nhello\n" + CLASSIC.replace("\n", "\nprinted by the program\n")
    noise += ">>> L 40960 4\n"
    result = steve("ops", "-", stdin=noise.encode())
    assert (result.out, result.returncode) == (OPS, 0)
    assert "accesses 1, frees 0" in result.err
    figures = json.loads(steve("summary", "--json", "-", stdin=noise.encode()).out)
    assert figures["unmatched"] == {"free": 0, "access": 1} and figures["complete"] is True


def test_compressed_text(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(CLASSIC)
    subprocess.run(["zstd", "-q", "c", "-o", "c.zst"], cwd=tmp_path, check=True)
    assert steve("ops", "c.zst", "-o", "-").out == OPS


def test_summary_object(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    figures = json.loads(steve("summary", "--json", "t.ljt").out)
    assert figures.pop("seconds") >= 0
    assert figures == {
        "events": {"new": 2, "free": 1, "resize": 1, "load": 2, "store": 1, "modify": 1},
        "bytes": {"allocated": 420, "freed": 164, "peak_live": 356, "live_at_end": 256, "read": 16, "written": 16},
        "blocks": {"total": 2, "peak_live": 2, "live_at_end": 1},
        "unmatched": {"free": 1, "access": 0},
        "mismatched_frees": 0,
        "older_frees": 0,
        "instructions": 900,
        "time_unit": "instructions",
        "threads": 2,
        "states": 1,
        "complete": True,
        "dropped": 0,
        "dropped_at_least": False,
        "program": {"ended": "unknown", "status": None, "signal": None},
    }


@pytest.mark.parametrize("command", ("summary", "check"))
def test_facts_as_csv(steve: Steve, trace: Maker, command: str) -> None:
    """The CSV has the same values as the JSON, one in each line."""
    trace(SCRIPT)
    lines = steve(command, "--csv", "t.ljt").out.splitlines()
    assert lines[0] == "key,value" and len(lines) > 10
    wanted = json.loads(steve(command, "--json", "t.ljt").out)
    for line in lines[1:]:
        key, value = line.split(",", 1)
        found = wanted
        for part in key.split("."):
            found = found[part]
        shown = json.dumps(found) if isinstance(found, bool) else "" if found is None else str(found)
        assert value == shown, key


def test_resized_blocks_are_of_the_sites_that_tables_define(steve: Steve, trace: Maker) -> None:
    """In `steve summary` a resized block belongs to the site that resized it last, in `steve sites` to the site
    that made it."""
    trace(
        "stack main make@a.c:1\nstack main grow@a.c:2\nN 4096 10 1\nN 8192 20 1\nR 4096 12288 100 2\n"
        "R 12288 4096 300 2\nF 8192 2\nend exit\n"
    )
    tables = [line.split()[:6] for line in steve("summary", "t.ljt").out.splitlines() if "(a.c:" in line]
    made, grown = ["30", "2", "0", "20", "0", "0"], ["400", "0", "2", "300", "300", "1"]
    assert tables == [grown, made, grown, made, grown]
    (site,) = json.loads(steve("sites", "--json", "t.ljt").out)
    assert (site["bytes"], site["blocks"], site["resizes"], site["live_bytes_at_end"]) == (430, 2, 2, 300)


def test_summary_text_names_sites(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    text = steve("summary", "t.ljt").out
    assert "lua_pcall" in text and "Most bytes live at the end" in text
    assert [line.split() for line in text.splitlines() if "256" in line and "lua_pcall" in line]
    assert "lua_pcall" not in steve("summary", "--top", "0", "t.ljt").out


SUMMARY = """\
t.ljt
new events                2
free events               1
resize events             1
load events               2
store events              1
modify events             1
bytes allocated       3,428  3.3 KiB
bytes freed           3,172  3.1 KiB
bytes peak live       3,364  3.3 KiB
bytes live at end       256    256 B
bytes read               16     16 B
bytes written            16     16 B
blocks total              2
blocks peak live          2
blocks live at end        1
unmatched frees           1
unmatched accesses        0
instructions            900
seconds               S.SSS
threads                   2
Lua states                1
program ended       unknown
complete                yes
dropped events            0

Most bytes allocated

  bytes   blocks   resizes   at peak   live bytes   live blocks   site
 ───────────────────────────────────────────────────────────────────────────
  3,428        2         1     3,364          256             1   lua_pcall

Most bytes live at the peak

  bytes   blocks   resizes   at peak   live bytes   live blocks   site
 ───────────────────────────────────────────────────────────────────────────
  3,428        2         1     3,364          256             1   lua_pcall

Most bytes live at the end

  bytes   blocks   resizes   at peak   live bytes   live blocks   site
 ───────────────────────────────────────────────────────────────────────────
  3,428        2         1     3,364          256             1   lua_pcall
"""


def test_summary_text(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT.replace("N 8192 100", "N 8192 3108"))
    text = re.sub(r"(seconds +)\d\.\d{3}\n", r"\1S.SSS\n", steve("summary", "t.ljt").out)
    assert text.splitlines() == SUMMARY.splitlines()


def test_strings_of_a_trace_cannot_harm_the_terminal(steve: Steve, trace: Maker) -> None:
    trace("info command \x1b[31mred\udcff [bold]x\nstack \x1b[2Jevil[/bold] malloc\nN 4096 16 1\nend exit\n")
    for command in ("info", "summary"):
        text = steve(command, "t.ljt").out
        assert "\x1b" not in text
    assert "\\x1b[2Jevil[/bold]" in text
    assert "\\x1b[31mred\\xff [bold]x" in steve("info", "t.ljt").out
    assert json.loads(steve("info", "--json", "t.ljt").out)["recording"]["command"].endswith("[bold]x")


def test_info(steve: Steve, trace: Maker) -> None:
    path = trace(SCRIPT)
    facts = json.loads(steve("info", "--json", "t.ljt").out)
    assert facts["recording"] == {"command": "luajit app.lua", "pid": "77"}
    assert (facts["format"], facts["ending"], facts["events"], facts["blocks"]) == ("memtrace", "exit", 10, 2)
    assert facts["bytes"] == path.stat().st_size
    assert facts["bytes_per_event"] == facts["bytes"] / 10
    assert "luajit app.lua" in steve("info", "t.ljt").out


@pytest.mark.parametrize("ending,complete", [("exit", True), ("killed", True), ("limit", False), ("stopped", True)])
def test_complete(steve: Steve, trace: Maker, ending: str, complete: bool) -> None:
    trace(f"N 4096 16\nend {ending}\n")
    assert json.loads(steve("summary", "--json", "t.ljt").out)["complete"] is complete


def test_lost_events_are_said(steve: Steve, trace: Maker) -> None:
    trace("N 4096 16\nlost 12 the disk was full\nend exit\n")
    figures = json.loads(steve("summary", "--json", "t.ljt").out)
    assert (figures["complete"], figures["dropped"]) == (False, 12)


@pytest.mark.parametrize("ending,said", [("limit", "at least 1,200"), ("exit", "1,200")])
def test_events_dropped_behind_a_limit_may_be_more(ending: str, said: str, steve: Steve, trace: Maker) -> None:
    trace(f"N 4096 16\nlost 1200 --max-size\nend {ending}\n")
    for command in ("info", "summary", "report"):
        figures = json.loads(steve(command, "--json", "t.ljt").out)
        assert (figures["dropped"], figures["dropped_at_least"]) == (1200, ending == "limit")
    for command in ("info", "summary"):
        assert re.search(rf"dropped events +{said}$", steve(command, "t.ljt").out, re.MULTILINE)
    steve("report", "-o", "t.html", "t.ljt")
    page = (steve.folder / "t.html").read_text()
    assert f"<td>events dropped</td><td>{said}</td>" in page
    assert f" {said[0].upper()}{said[1:]} events are missing" in page


def test_dump_shows_every_record(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    lines = steve("dump", "t.ljt").out.splitlines()
    names = [line.split()[0] for line in lines]
    assert [name for name in names if name not in ("string", "frame", "stack", "site")] == [
        "info",
        "info",
        "heap",
        "new",
        "new",
        "store",
        "load",
        "modify",
        "resize",
        "load",
        "free",
        "badfree",
        "mark",
        "end",
    ]


def test_check(steve: Steve, trace: Maker) -> None:
    trace("N 4096 16\nL 4108 8\nend exit\n")
    result = steve("check", "t.ljt")
    assert result.returncode == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[:-2]] == ["ok"] * 13
    assert lines[-2].startswith("note     1 access ends beyond the block") and lines[-1].endswith("sound")
    assert json.loads(steve("check", "--json", "t.ljt").out)["crossing"]["count"] == 1


def test_check_of_classic_text_says_what_it_skips(steve: Steve) -> None:
    result = steve("check", "-", stdin=CLASSIC.encode())
    assert result.returncode == 0 and "skipped  the totals" in result.out


def test_lockops_names_and_bytes(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "app-ops").write_text(OPS)
    assert steve("lockops", "--full", "--text", "app-ops").returncode == 0
    assert (tmp_path / "app-lockopsfull").read_text() == (
        "0 N 4096 64\n1 N 8192 100\n0 L 0 0\n1 L 0 0\n0 F 4096 0\n1 U 0 0\n2 N 12288 256\n1 F 8192 0\n"
    )
    assert steve("lockops", "--simple", "--text", "app-ops").returncode == 0
    assert (tmp_path / "app-lockops").read_text() == ("0 N 0 64\n1 N 0 100\n0 F 0 0\n2 N 0 256\n2 L 0 0\n1 F 0 0\n")


def test_lockops_from_standard_input_and_a_pipe(steve: Steve, tmp_path: Path) -> None:
    expected = steve("lockops", "--full", "-", stdin=OPS.encode()).out
    assert expected.count(" L ") == 2
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", "cat >pipe"], cwd=tmp_path, stdin=subprocess.PIPE)
    writer.stdin.write(OPS.encode())
    writer.stdin.close()
    assert steve("lockops", "--full", "pipe", "-o", "-").out == expected
    assert writer.wait(600) == 0


def test_lockops_of_a_memtrace_equal_those_of_its_ops(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    for form in ("--full", "--simple"):
        of_trace = steve("lockops", form, "t.ljt", "-o", "-").out
        assert of_trace and of_trace == steve("lockops", form, "-", stdin=OPS.encode()).out


HISTOGRAM_STATISTICS = """
Ops per handle (sorted by micro lifetime):
# 2: 0.00 (own = 1, other = 0)
# 0: 0.50 (own = 2, other = 1)
# 1: 3.00 (own = 1, other = 3)

Ops per handle (sorted by macro lifetime):
# 2: 25% (own = 1, other = 0)
# 0: 75% (own = 2, other = 1)
# 1: 100% (own = 1, other = 3)

Total number of ops: 4

Out of bounds ops (0 ops):
[]
"""


def test_histogram_files(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "app-ops").write_text(OPS)
    result = steve("histogram", "--json", "app-ops")
    assert result.returncode == 0
    report = json.loads(result.out)
    assert (report["accesses"], report["blocks"]) == (4, 3)
    assert (tmp_path / "app-json-ops").read_text() == "[0, 1, 0, 0, 1, 0, 2, 2, 1]"
    assert (tmp_path / "app-lifetime").read_text() == (
        '{"mod-op-count": 4, "lifetime-ops": {"0": [2, 1], "1": [1, 3], "2": [1, 0]}}'
    )
    assert (tmp_path / "app-statistics").read_text() == HISTOGRAM_STATISTICS
    last = report["ranges"][-1]
    assert (last["low"], last["high"], last["blocks"], len(last["bins"])) == (0, 1, 3, 75)
    assert [i for i, n in enumerate(last["bins"]) if n] == [18, 56, 74]
    pictures = [name for name in report["files"] if name.endswith(".png")]
    assert pictures == [f"app-macro-histogram-{name}.png" for name in ("750-1000", "10-1000", "0-1000")]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert result.err.count("no block in the range") == 3


def test_histogram_compat_counts_untouched_blocks_as_touched(steve: Steve) -> None:
    ops = b"0 N 64 8\n" + b"0 L 64 4\n" * 4 + b"1 N 128 8\n1 F 128 0\n0 F 64 0\n"
    for arguments, blocks in (((), 1), (("--compat",), 2)):
        report = json.loads(steve("histogram", "--json", "--parts", "none", *arguments, "-", stdin=ops).out)
        assert (report["ranges"][4]["low"], report["ranges"][4]["blocks"]) == (0.01, blocks)


# -- bad input ---------------------------------------------------------------------------------------------


def one_line(result: subprocess.CompletedProcess, status: int, *words: str) -> None:
    """Check that the command failed with one line on stderr that contains these words."""
    assert result.returncode == status, result.err
    assert result.err.startswith("steve") and result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err


def test_first_steps(steve: Steve) -> None:
    """`steve` alone shows three commands, each with an example, and all of them exist."""
    result = steve()
    assert result.returncode == 2 and result.out == ""
    shown = re.findall(r"^  steve (\w+) app\.ljt ", result.err, re.M)
    assert len(shown) == 3 and set(shown) <= set(COMMANDS)


def test_wrong_usage_names_the_help(steve: Steve) -> None:
    for arguments in (["sites"], ["sites", "--frobnicate", "x"], ["export", "x"]):
        result = steve(*arguments)
        assert result.returncode == 2 and f"`steve help {arguments[0]}`" in result.err


@pytest.mark.parametrize("arguments", [["--frobnicate"], ["frobnicate"]])
def test_unknown_command(steve: Steve, arguments: list[str]) -> None:
    one_line(steve(*arguments), 2, arguments[0], "steve --help")


def test_what_was_meant(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    one_line(steve("Sumary", "t.ljt"), 2, "did you mean 'summary'?")
    one_line(steve("sites", "t.ljt", "--sort", "block"), 2, "did you mean 'blocks'?")


@pytest.mark.parametrize("command", READERS)
def test_unknown_option(steve: Steve, trace: Maker, command: tuple) -> None:
    trace(SCRIPT)
    result = steve(*command, "--frobnicate", "t.ljt")
    assert result.returncode == 2 and "unrecognized arguments: --frobnicate" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ops"],
        ["lockops", "t.ljt"],
        ["lockops", "--full", "--simple", "t.ljt"],
        ["summary", "--top", "-1", "t.ljt"],
        ["histogram", "--parts", "x", "t.ljt"],
        ["histogram", "-"],
        [],
    ],
)
def test_wrong_usage(steve: Steve, trace: Maker, arguments: list[str]) -> None:
    trace(SCRIPT)
    assert steve(*arguments).returncode == 2


@pytest.mark.parametrize("command", READERS)
def test_missing_file(steve: Steve, command: tuple) -> None:
    one_line(steve(*command, "nowhere"), 1, f"steve {command[0]}: nowhere: ", "No such file")


@pytest.mark.parametrize("command", READERS)
def test_folder(steve: Steve, tmp_path: Path, command: tuple) -> None:
    (tmp_path / "folder").mkdir()
    one_line(steve(*command, "folder"), 1, "folder: is a folder")


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01" + bytes(200), b"some\nlines\nof text\n", b""])
def test_foreign_file(steve: Steve, tmp_path: Path, command: tuple, content: bytes) -> None:
    (tmp_path / "foreign").write_bytes(content)
    before = sorted(os.listdir(tmp_path))
    one_line(steve(*command, "foreign"), 1, "foreign: is ")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("command", READERS)
def test_unreadable_file(bound_by_permissions: Steve, trace: Maker, command: tuple) -> None:
    trace(SCRIPT).chmod(0)
    one_line(bound_by_permissions(*command, "t.ljt"), 1, "t.ljt: ", "Permission denied")


@pytest.mark.parametrize("command", READERS)
def test_truncated_trace(steve: Steve, trace: Maker, tmp_path: Path, command: tuple) -> None:
    """The result covers what comes before the cut, the status is 1, and the message names the offset."""
    script = "".join(f"N {4096 + 64 * i} 32\nS {4096 + 64 * i} 4\n" for i in range(500)) + "end exit\n"
    whole = trace(script, chunk_events=100).read_bytes()
    (tmp_path / "cut.ljt").write_bytes(whole[: len(whole) // 2])
    result = steve(*command, "cut.ljt", *(("-o", "-") if command[0] in ("ops", "lockops") else ()))
    one_line(result, 1, f"steve {command[0]}: cut.ljt: ", "offset")
    assert result.out.count("\n") > 5


def test_truncated_trace_is_not_complete(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    whole = trace("N 4096 16\nflush\nN 8192 16\nend exit\n").read_bytes()
    (tmp_path / "cut.ljt").write_bytes(whole[:-30])
    figures = json.loads(steve("summary", "--json", "cut.ljt").out)
    assert figures["complete"] is False and figures["events"]["new"] >= 1


def test_what_is_cut_off_is_not_said_to_be_absent(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    whole = trace("N 4096 16\nend exit\n").read_bytes()
    (tmp_path / "none.ljt").write_bytes(trace("end exit\n").read_bytes())
    (tmp_path / "cut.ljt").write_bytes(whole[:40])
    none, cut = steve("summary", "none.ljt"), steve("summary", "cut.ljt")
    assert "the trace has no blocks" in none.err and none.returncode == 0
    assert "the trace has no blocks" not in cut.err and "cut off" in cut.err and cut.returncode == 1


def test_salvage(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    script = "".join(f"N {4096 + 64 * i} 32\n" for i in range(900)) + "end exit\n"
    damaged = bytearray(trace(script, chunk_events=100).read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "bad.ljt").write_bytes(damaged)
    stopped, salvaged = steve("ops", "bad.ljt", "-o", "-"), steve("ops", "--salvage", "bad.ljt", "-o", "-")
    assert (stopped.returncode, salvaged.returncode) == (1, 1)
    assert "--salvage" in stopped.err and "damaged chunks were left out" in salvaged.err
    assert 0 < len(stopped.out.splitlines()) < len(salvaged.out.splitlines()) < 900


def test_wrong_line_in_an_ops_file(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "bad-ops").write_text("0 N 64 8\n0 L 64 4\n0 L sixty 4\n")
    for command in (("lockops", "--full"), ("lockops", "--simple"), ("histogram", "--parts", "none")):
        one_line(steve(*command, "bad-ops"), 1, "bad-ops: line 3")


def test_lockops_of_lockops(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "app-lockops").write_text("0 N 0 8\n0 L 0 0\n0 F 0 0\n")
    one_line(steve("lockops", "--full", "app-lockops"), 1, "is a lockops file")


def test_every_module_is_a_command() -> None:
    """Each has its own name, and nothing but what it may say of itself; inputs are among its arguments."""
    folder = Path(__file__).parents[1] / "commands"
    assert sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__") == sorted(COMMANDS)
    for name in COMMANDS:
        command = Command(name)
        assert command.module.NAME == name and "\n" not in command.help
        said = {word for word in dir(command.module) if word.startswith(("READS_", "COUNTS_", "STARTS_"))}
        assert said <= {"READS_SAMPLES", "COUNTS_ACCESSES", "STARTS_ALLOCATORS"}
        assert command.inputs and all(command.inputs.values()), name


def test_help_names_every_command(steve: Steve) -> None:
    text = steve("--help").out
    assert re.findall(r"^(\w.*):$", text, re.M) == [*GROUPS]
    assert tuple(re.findall(r"^  (\w+) ", text, re.M)) == COMMANDS
    for command in COMMANDS:
        assert f"\n  {command} " in text
        result = steve(command, "--help")
        assert result.returncode == 0 and result.out.startswith(f"usage: steve {command}")
        assert max(map(len, result.out.splitlines())) <= 120
        assert not re.search(r"{[a-z_]+(:g)?}", result.out), "a place that was not filled in"


def test_version(steve: Steve) -> None:
    assert steve("--version").out.startswith("steve ")


def test_lists_of_the_tests_lack_no_command() -> None:
    """A new command is in the lists of commands that other tests go through, or is named here."""
    lists: dict[str, set[str]] = {
        "steve/test/test_conduct.py": {"symbolize", "universe", "diff", "serve", "top"},
        "steve/test/test_input_kinds.py": {"symbolize", "universe", "diff", "serve", "top", "resident", "map"},
        "steve/fuzz/fuzz_commands.py": {"diff"},
    }
    commands = [Command(name) for name in COMMANDS]
    of_other_files = {c.name for c in commands if c.starts_allocators or not c.reads("trace")} | {"memprof", "sysprof"}
    for name, left_out in lists.items():
        text = (Path(__file__).parents[2] / name).read_text()
        named = {command for command in COMMANDS if f'"{command}"' in text}
        assert set(COMMANDS) - named <= left_out | of_other_files, name
