"""The errors in `steve findings`: their sums and contexts, which accesses are excused, and the options.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io
import json
from pathlib import Path
from collections.abc import Callable

SCRIPT = """\
stack main make@a.c:1
stack main drop@a.c:2
N 0x1000 64 1
N 0x2000 20 1
F 0x1000 2
at use@a.c:3
L 0x1008 8
L 0x1010 8
S 0x1018 4
S 0x2010 8
at vector@a.c:4
L 0x2000 32
at wide@a.c:5
L 0x2004 32
F 0x1000 2
F 0x1234 2
F 0x2008 2
end exit
"""


def found(steve: Callable, *arguments: str) -> dict:
    result = steve("findings", "--json", "--rules", "errors", "t.ljt", *arguments)
    assert result.returncode == 0, result.err
    return {row["finding"]: row for row in json.loads(result.out)}


def test_contexts(steve: Callable, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    rows = found(steve)
    assert {key: row["errors"] for key, row in rows.items()} == {
        "freed_access": 3,
        "beyond_end": 2,
        "double_free": 1,
        "invalid_free": 1,
        "inside_free": 1,
    }
    load, store = rows["freed_access"]["contexts"]
    assert (load["kind"], load["count"], load["offset"], load["block"]) == ("load", 2, 8, 0)
    assert (store["kind"], store["count"], store["size"], store["block_size"]) == ("store", 1, 4, 64)
    assert load["at"] == "use (a.c:3)"
    assert load["made_at"].startswith("make (a.c:1)") and load["freed_at"].startswith("drop (a.c:2)")
    (inside,) = rows["inside_free"]["contexts"]
    assert (inside["block"], inside["offset"], inside["freed_at"]) == (1, 8, None)
    (invalid,) = rows["invalid_free"]["contexts"]
    assert invalid["block"] is None and invalid["block_size"] is None


def test_aligned_vector_loads_are_excused(steve: Callable, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    places = {context["at"] for context in found(steve)["beyond_end"]["contexts"]}
    assert places == {"use (a.c:3)", "wide (a.c:5)"}


def test_csv_has_every_context(steve: Callable, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    rows = list(csv.DictReader(io.StringIO(steve("findings", "--csv", "t.ljt").out)))
    errors = [row for row in rows if row["count"]]
    reported = [{"finding": key, **context} for key, row in found(steve).items() for context in row["contexts"]]
    assert [{key: row[key] for key in reported[0]} for row in errors] == [
        {key: "" if value is None else str(value) for key, value in context.items()} for context in reported
    ]
    assert len(errors) == 7 and {row["site"] for row in errors} == {""}
    sites = [row for row in rows if row["site"]]
    assert {row["finding"] for row in sites} == {"never_touched", "short_lived", "never_freed"} and {
        row["at"] for row in sites
    } == {""}
    only = list(csv.DictReader(io.StringIO(steve("findings", "--csv", "--rules", "errors", "--top", "1", "t.ljt").out)))
    assert [row["finding"] for row in only] == list(found(steve)) and all(row["count"] for row in only)


def test_text_and_pipe(steve: Callable, trace: Callable[..., Path]) -> None:
    path = trace(SCRIPT)
    direct = steve("findings", "--rules", "errors", "t.ljt")
    assert "Accesses to freed memory: 3 in 2 contexts" in direct.out
    assert "8 bytes into block 0 of 64 bytes" in direct.out
    piped = steve("findings", "--rules", "errors", "-", stdin=path.read_bytes())
    assert piped.out.splitlines()[1:] == direct.out.splitlines()[1:]


def test_only_of_whole_traces(steve: Callable, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    assert found(steve, "--where", "size > 0") == {}


def test_that_errors_are_left_out_is_said(steve: Callable, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    result = steve("findings", "--rules", "errors", "--where", "size > 0", "t.ljt")
    assert result.returncode == 0
    said = "errors (found in the whole trace only, not with --where, --from and --to)"
    assert f"not looked for: {said}" in result.out and not result.err
    for option in ("--json", "--csv"):
        assert said in steve("findings", "--rules", "errors", "--where", "size > 0", option, "t.ljt").err
    assert "errors (" not in steve("findings", "--where", "size > 0", "t.ljt").err


def test_a_free_without_stack(steve: Callable, trace: Callable[..., Path]) -> None:
    trace("F 0x1000\nend exit\n")
    assert found(steve)["invalid_free"]["contexts"][0]["at"] == "(no stack)"


def test_without_errors(steve: Callable, trace: Callable[..., Path]) -> None:
    trace("N 0x1000 64\nF 0x1000\nend exit\n")
    assert found(steve) == {}
    everything = steve("findings", "--json", "t.ljt")
    assert all("sites" in row for row in json.loads(everything.out))
