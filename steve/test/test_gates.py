"""`steve check --fail-if`: conditions on one trace; those of two traces are in test_conditions.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steve.analysis.conditions import ONE, Condition
from steve.system.errors import UsageError

SCRIPT = """\
stack main@main.c:5 parse@parse.c:1 malloc
stack main@main.c:6 draw@draw.c:2 malloc
N 0x1000 1000 1
N 0x2000 500 2
F 0x2000 2
S 0x1000 8
F 0x2000 2
end exit
"""


@pytest.fixture
def checked(steve: Any, trace: Callable) -> Callable:
    """A function checked(condition..., options) that runs steve check --fail-if."""
    trace(SCRIPT)

    def run(*wanted: str, options: tuple = ()) -> Any:
        return steve("check", "-q", "t.ljt", *(f"--fail-if={text}" for text in wanted), *options)

    return run


@pytest.mark.parametrize(
    "condition, fails",
    [
        ("peak_live > 50M", False),
        ("peak_live > 1499", True),
        ("peak_live > 1500", False),
        ("allocated = 1500", True),
        ("blocks < 2", False),
        ("live_at_end >= 1kB", True),
        ("accesses = 1", True),
        ("sites > 1", True),
        ("sites.live_at_end > 0", True),
        ("sites.live_at_end > 1", False),
        ("site.live_at_end > 999", True),
        ("site.live_at_end > 999 and site.blocks > 1", False),
        ("errors > 0", True),
        ("errors > 1", False),
        ("errors > 0 and peak_live > 1M", False),
    ],
)
def test_conditions(checked: Callable, condition: str, fails: bool) -> None:
    done = checked(condition)
    assert done.returncode == int(fails), done.out
    assert f"{'FAILED' if fails else 'passed'}: {condition}: " in done.out and ": sound\n" in done.out
    assert done.err == (f"steve check: 1 of 1 conditions failed: {condition}\n" if fails else "")


@pytest.mark.parametrize(
    "condition, message",
    [
        ("peak_live > +5%", "a value with a sign or % compares two traces: use steve diff"),
        ("peak_live > +100", "a value with a sign or % compares two traces"),
        ("sites.new > 0", "unknown name 'sites.new'; did you mean 'sites'?"),
        ("xyz > 0", "unknown name 'xyz'; there are: " + ", ".join(ONE.names)),
        ("lost_byte > 0", "unknown name 'lost_byte'; did you mean 'lost_bytes'?"),
        ("sites > 1k", "sites is compared with a number without sign and unit"),
        ("site.blocks > 1 and lost_bytes > 0", "'and' joins tests of one site"),
        ("lots", "'lots' is no test, such as peak_live > 50M; see steve check --help"),
        ("lost_bytes > 0", "cannot be judged: lost_bytes was not recorded (pointers are searched for under Valgrind"),
    ],
)
def test_what_is_not_judged(checked: Callable, condition: str, message: str) -> None:
    done = checked("peak_live > 1", condition)
    assert (done.returncode, done.out) == (2, "") and f"steve check: --fail-if '{condition}': {message}" in done.err
    if "cannot be judged" not in message:
        with pytest.raises(UsageError, match=re.escape(message)):
            Condition(condition, ONE)


def test_accesses_that_were_not_recorded(steve: Any, trace: Callable) -> None:
    trace("info trace_mem no\nN 0x1000 1000\nend exit\n")
    done = steve("check", "t.ljt", "--fail-if", "accesses > 0")
    assert done.returncode == 2 and "cannot be judged: accesses was not recorded" in done.err
    done = steve("check", "t.ljt", "--fail-if", "errors > 0")
    assert done.returncode == 2 and "cannot be judged: accesses were not recorded, so only wrong frees" in done.err
    trace("info trace_mem no\nN 0x1000 1000\nF 0x1000\nF 0x1000\nend exit\n")
    assert steve("check", "t.ljt", "--fail-if", "errors > 0").returncode == 1


def test_the_sites_are_named(checked: Callable) -> None:
    out = checked("peak_live > 1", "live_at_end > 1", "errors > 0").out
    peak, live, errors = re.split(r"^FAILED: ", out, flags=re.MULTILINE)[1:]
    assert peak.index("parse (parse.c:1)") < peak.index("draw (draw.c:2)")
    assert "parse" in live and "draw" not in live
    assert errors == "errors > 0: 1, see steve findings\n"
    by_line = checked("peak_live > 1", options=("--by", "file")).out
    assert "parse.c" in by_line and "parse (" not in by_line


def test_json_and_csv(checked: Callable) -> None:
    found = json.loads(checked("live_at_end > 1k", "site.blocks = 1", options=("--json",)).out)
    whole, of_sites = found["conditions"]
    assert found["sound"] and found["failed"] and not whole["failed"] and of_sites["failed"]
    assert (whole["found"], whole["causes"], of_sites["found"]) == (1000, [], None)
    places = sorted(row["place"] for row in of_sites["causes"])
    assert places == ["draw (draw.c:2) < main (main.c:6)", "parse (parse.c:1) < main (main.c:5)"]
    assert {row["live_bytes"] for row in of_sites["causes"]} == {0, 1000}
    assert "conditions.0.found,1000\n" in checked("live_at_end > 1k", options=("--csv",)).out
    assert "conditions" not in json.loads(checked(options=("--json",)).out)


def test_chosen_blocks(checked: Callable, trace: Callable) -> None:
    assert checked("allocated > 500", options=("--where", "size < 600")).returncode == 0
    done = checked("errors > 0", options=("--where", "size < 600"))
    assert done.returncode == 2 and "errors are looked for in whole recordings only" in done.err


@pytest.mark.parametrize("options", [(), ("-j", "2"), ("--salvage",)], ids=str)
def test_a_damaged_trace_fails_whatever_the_conditions(
    options: tuple, steve: Any, trace: Callable, tmp_path: Path
) -> None:
    """It is not sound, though no rule about its events is broken."""
    trace(SCRIPT)
    condition = "--fail-if=peak_live > 50M"
    assert steve("check", "t.ljt", condition, *options).returncode == 0
    path = tmp_path / "t.ljt"
    content = path.read_bytes()
    path.write_bytes(content[:-30] if options != ("--salvage",) else content[:-30] + bytes(8) + content[-22:])
    done = steve("check", "-q", "t.ljt", condition, *options)
    assert done.returncode == 1 and "BROKEN   the file can be read to its end: " in done.out
    assert done.out.count("BROKEN") == 1 and ": NOT SOUND\n" in done.out and ": sound" not in done.out
    found = json.loads(steve("check", "t.ljt", "--json", *options).out)
    assert not found["sound"] and found["rules"]["read"]["problem"] in done.out


def test_a_trace_that_is_damaged_after_the_mark(steve: Any, trace: Callable, tmp_path: Path) -> None:
    trace("N 0x1000 8\nmark half\nflush\n" + "N 0x2000 8\nF 0x2000\n" * 9 + "end exit\n")
    path = tmp_path / "t.ljt"
    path.write_bytes(path.read_bytes()[:-30])
    assert steve("check", "t.ljt", "--to", "half").returncode == 0


ENDS = [
    ("end killed\n", "the program was killed"),
    ("info signal 11\nend killed\n", "the program was ended by SIGSEGV"),
    ("info exit_status 3\nend exit\n", "the program ended with exit status 3"),
    ("end limit\n", "the file reached its largest size"),
    ("info exit_status 0\nend exit\n", ""),
    ("end stopped\n", ""),
]


@pytest.mark.parametrize("end, says", ENDS)
def test_a_program_that_did_not_do_its_work(end: str, says: str, steve: Any, trace: Callable) -> None:
    """A condition passes, since what came later is missing; the status is that of the conditions, and it is said."""
    facts, _, last = end.rpartition("end ")
    trace(facts + SCRIPT.replace("end exit", f"mark half\nend {last}"), "b.ljt")
    trace(SCRIPT, "a.ljt")
    for command in (("check", "b.ljt"), ("diff", "a.ljt", "b.ljt")):
        for form in ((), ("--markdown",)) if command[0] == "diff" else ((),):
            done = steve(*command, "-q", "--fail-if", "peak_live > 50M", *form)
            assert done.returncode == 0 and says in done.out
            assert done.out.count("missing") == done.err.count("missing") == int(bool(says))
            assert (f"steve {command[0]}: b.ljt: {says}: what" in done.err) is bool(says)
    assert "missing" not in steve("check", "b.ljt", "--to", "half", "--fail-if", "peak_live > 50M").err
    ended = json.loads(steve("info", "b.ljt", "--json").out)["program"]
    assert json.loads(steve("check", "b.ljt", "--json").out)["program"] == ended
    found = json.loads(steve(*command, "--fail-if", "peak_live > 50M", "--json").out)["programs"]
    assert found[1] == {"file": "b.ljt", **ended}


# a full cache, all of which is replaced between the marks, and at the end of which its state is closed; `end` is also
# the name of an earlier mark
CACHE = """\
stack main@main.lua:5 fill@cache.lua:1
heap 0x99 lua
N 0x1000 1000 1 1
mark end
N 0x2000 500 1 1
mark half
F 0x1000 1 1
N 0x3000 1000 1 1
N 0x4000 {bytes} 1 1
F 0x2000 1 1
mark end
{closes}end exit
"""
CLOSES = "F 0x3000 1 1\nF 0x4000 1 1\n"
MARKS = ("--from", "half", "--to", "end")


@pytest.mark.parametrize("options", [(), ("-j", "2"), ("--where", 'heap = "lua"'), ("--by", "line")], ids=str)
def test_net_growth(options: tuple, steve: Any, trace: Callable) -> None:
    trace(CACHE.format(bytes=500, closes=CLOSES), "cache.ljt")
    trace(CACHE.format(bytes=700, closes=CLOSES), "grows.ljt")
    assert (
        "passed: net_growth > 0: 0\n" in steve("check", "cache.ljt", *MARKS, *options, "--fail-if=net_growth > 0").out
    )
    assert steve("check", "cache.ljt", *MARKS, *options, "--fail-if=live_at_end > 1k").returncode == 1
    done = steve("check", "-q", "grows.ljt", *MARKS, *options, "--fail-if=net_growth > 199", "--json")
    (found,) = json.loads(done.out)["conditions"]
    (cause,) = found["causes"]
    place = cause.pop("place")
    assert done.returncode == 1 and found["found"] == 200 and "cache.lua:1" in place
    assert cause == {"live_bytes_from": 1500, "live_bytes_to": 1700, "net_growth": 200}
    text = steve("check", "grows.ljt", *MARKS, *options, "--fail-if=net_growth > 199").out
    assert re.search(r"at --from +at --to +growth +where\n.*\n +1,500 +1,700 +200 +", text)


def test_net_growth_with_one_mark_or_none(steve: Any, trace: Callable) -> None:
    trace(CACHE.format(bytes=700, closes=""))
    wanted = {(): 1700, ("--from", "half"): 200, ("--to", "half"): 1500, ("--to", "end"): 1000}
    for marks, found in wanted.items():
        out = steve("check", "t.ljt", *marks, "--fail-if=net_growth < 0").out
        assert f"passed: net_growth < 0: {found:,}\n" in out


# line 8 replaces what it made before, called from another line now; line 7 makes more from both
REPLACED = """\
stack main@t.lua:11 work@t.lua:8
stack main@t.lua:12 work@t.lua:8
stack main@t.lua:11 work@t.lua:7
stack main@t.lua:12 work@t.lua:7
N 0x1000 16000 1
N 0x9000 5000 3
mark half
F 0x1000 1
N 0x20000 {bytes} 2
N 0x30000 512 3
N 0x40000 4480 4
mark end
end exit
"""


@pytest.mark.parametrize(
    "replaced, first", [(16000, None), (15000, None), (17000, ("work (t.lua:8)", 16000, 17000, 1000))]
)
def test_net_growth_is_not_of_what_was_replaced(
    replaced: int, first: tuple | None, steve: Any, trace: Callable
) -> None:
    trace(REPLACED.format(bytes=replaced))
    (found,) = json.loads(steve("check", "t.ljt", *MARKS, "--fail-if=net_growth > 1k", "--json").out)["conditions"]
    causes = [(c["place"], c["live_bytes_from"], c["live_bytes_to"], c["net_growth"]) for c in found["causes"]]
    grown = [
        ("work (t.lua:7) < main (t.lua:12)", 0, 4480, 4480),
        ("work (t.lua:7) < main (t.lua:11)", 5000, 5512, 512),
    ]
    assert found["found"] == 4992 + replaced - 16000
    assert sorted(causes) == sorted(grown + ([first] if first else [])) and causes[0] == grown[0]


@pytest.mark.parametrize("command", ["check", "diff"])
def test_a_missing_mark_is_no_verdict(command: str, steve: Any, trace: Callable) -> None:
    trace(CACHE.format(bytes=500, closes=CLOSES))
    files = ["t.ljt"] * (2 if command == "diff" else 1)
    done = steve(command, *files, "--to", "no", "--fail-if=live_at_end > 1M")
    assert done.returncode == 2 and "--fail-if 'live_at_end > 1M': cannot be judged: t.ljt: no mark 'no'" in done.err
    assert steve(command, *files, "--to", "no").returncode == 1, "nothing was to be judged"


@pytest.mark.parametrize(
    "condition, closes, marks, says",
    [
        ("live_at_end > 1M", CLOSES, (), True),
        ("site.live_at_end > 1M", CLOSES, (), True),
        ("peak_live > 1M and live_at_end > 1M", CLOSES, (), True),
        ("peak_live > 1M", CLOSES, (), False),
        ("live_at_end < 1M", CLOSES, (), False),  # it holds
        ("live_at_end > 1M", "", (), False),
        ("live_at_end > 1M", CLOSES, ("--to", "half"), False),
        ("live_at_end > 1M", CLOSES, ("--where", 'heap != "lua"'), False),
        ("net_growth > 1M", CLOSES, ("--from", "half"), True),
    ],
)
def test_closed_states(condition: str, closes: str, marks: tuple, says: bool, steve: Any, trace: Callable) -> None:
    """Of what LuaJIT frees when a state is closed, nothing is left at the end, whatever the program kept."""
    trace(CACHE.format(bytes=500, closes=closes))
    done = steve("check", "-q", "t.ljt", *marks, "--fail-if", condition)
    assert ("t.ljt: nothing of Lua lives at the end of the trace, because its states were closed" in done.err) is says
    assert done.returncode == int("<" in condition)
    if "net_growth" not in condition:
        done = steve("diff", "-q", "t.ljt", "t.ljt", *marks, "--fail-if", condition)
        assert done.err.count("t.ljt: nothing of Lua lives at the end") == int(says)
