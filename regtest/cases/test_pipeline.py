"""test_pipeline - from a recording to the last picture, as quickstart.sh does it, on a smaller input.

The result of each step is opened and examined: numbers agree with those of the trace, and pictures show
something. The translations' exact rules are tested in steve/test, the replay's in drivers/test.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import importlib.util
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import BUILD, SOURCE, Trace, good, run, steve

QUICKSTART = ["sh", SOURCE / "quickstart.sh", "--in-place", BUILD]
PACKAGING = [f"packaging/{name}" for name in ("room", "deb", "check-deb")]
PACKAGING += [f"debian/tests/{name}" for name in ("native", "readers", "record-report-replay")]
RESULTS = ("app.ljt", "app-ops", "app-lockops", "app-lockopsfull", "app.html", "app.png", "app-animation.avi")
ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "luajit", "jeff-coalesce")
PYTHON_FOLDERS = ("examples", "ljtrace", "memtrace", "drivers", "regtest", "steve")
PNG = b"\x89PNG\r\n\x1a\n"


def letters(ops: Path) -> Counter[str]:
    with open(ops, encoding="ascii") as lines:
        return Counter(line.split()[1] for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("which", ["lua_trace", "c_trace"])
def test_text_gives_the_same_ops_as_binary(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A Resize is F and N in classic text, so it is also F and N in ops files made from it."""
    trace: Trace = request.getfixturevalue(which)
    text = tmp_path / "trace.txt"
    text.write_bytes(steve("memtrace", trace.path).out)
    steve("ops", "--text", text, "-o", tmp_path / "text-ops")
    steve("ops", "--text", trace.path, "-o", tmp_path / "binary-ops")
    assert (tmp_path / "text-ops").read_bytes() == (tmp_path / "binary-ops").read_bytes()


def test_ops_hold_every_event(lua_trace: Trace, tmp_path: Path) -> None:
    steve("ops", "--text", lua_trace.path, "-o", tmp_path / "x-ops")
    counts, seen = lua_trace.counts(), letters(tmp_path / "x-ops")
    assert seen["N"] == counts["new"] + counts["resize"]
    assert seen["F"] == counts["free"] + counts["resize"]
    assert (seen["L"], seen["S"], seen["M"]) == (counts["load"], counts["store"], counts["modify"])


def test_summary_agrees_with_the_trace(lua_trace: Trace) -> None:
    summary, counts = json.loads(steve("summary", "--json", lua_trace.path).text), lua_trace.counts()
    for kind in ("new", "free", "resize", "load", "store", "modify"):
        assert summary["events"][kind] == counts[kind], kind
    assert summary["bytes"]["live_at_end"] == counts["live_bytes"]
    assert summary["bytes"]["peak_live"] == counts["peak_bytes"]
    assert summary["complete"] is True


def test_full_locks_are_balanced(c_trace: Trace, tmp_path: Path) -> None:
    """No unlock without a lock, no second lock, none outside the life of a block."""
    steve("ops", c_trace.path, "-o", tmp_path / "x-ops")
    steve("lockops", "--full", "--text", tmp_path / "x-ops", "-o", tmp_path / "x-lockopsfull")
    state: dict[str, str] = {}
    with open(tmp_path / "x-lockopsfull", encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            if not line.startswith("#"):
                handle, op, *_ = line.split()
                assert state.get(handle, "none") in {"N": "none", "L": "U", "U": "L", "F": "UL"}[op], number
                state[handle] = "U" if op == "N" else op
    assert letters(tmp_path / "x-lockopsfull")["L"] > 0


def frame_hashes(film: Path) -> list[str]:
    out = good(["ffmpeg", "-v", "error", "-i", film, "-f", "framemd5", "-"]).text
    return [line.split(",")[-1].strip() for line in out.splitlines() if not line.startswith("#")]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The steps of quickstart.sh for a twentieth of app.lua and some of the allocators, in this build, without
    installing."""
    folder = tmp_path_factory.mktemp("quickstart") / "out"
    done = run([*QUICKSTART, "--scale", "0.05", folder], env={"ALLOCATOR": ",".join(ALLOCATORS)}, seconds=3600)
    if done.status != 0:
        pytest.fail("\n".join((done.text + done.complaint).splitlines()[-12:]), pytrace=False)
    (folder / "log").write_bytes(done.out)
    return folder


def test_quickstart_makes_everything(quickstart: Path) -> None:
    for name in RESULTS:
        assert (quickstart / name).stat().st_size > 0, name
        assert name in (quickstart / "log").read_text(), f"{name} is not named in the output"
    replayed = {
        path.name.removeprefix("app-ops-").removesuffix("-kill0-allocstats") for path in quickstart.glob("*-allocstats")
    }
    assert replayed == set(ALLOCATORS)
    assert list(quickstart.glob("app-macro-histogram-*.png"))


def test_quickstart_pictures_show_something(quickstart: Path) -> None:
    from matplotlib import image

    pictures = list(quickstart.glob("*.png"))
    for picture in pictures:
        assert picture.read_bytes().startswith(PNG)
        assert image.imread(picture).std() > 0.01, f"{picture} is of one colour"
    assert pictures


def test_quickstart_film_moves(quickstart: Path) -> None:
    hashes = frame_hashes(quickstart / "app-animation.avi")
    assert len(hashes) >= 10 and len(set(hashes)) > len(hashes) // 2


def test_quickstart_report_is_one_file(quickstart: Path) -> None:
    html = (quickstart / "app.html").read_text()
    assert "app.lua" in html and "</html>" in html
    for outside in ('src="http', "src='http", 'href="http', "@import"):
        assert outside not in html, "the report needs the network"


def test_quickstart_refuses_wrong_usage(tmp_path: Path) -> None:
    assert run(["sh", SOURCE / "quickstart.sh", "--nonsense"], cwd=tmp_path).status == 2
    (tmp_path / "file").write_text("in the way")
    done = run([*QUICKSTART, tmp_path / "file"])
    assert done.status == 1 and str(tmp_path / "file") in done.complaint


def test_shell_scripts_are_posix() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed (Debian package shellcheck)")
    scripts = ["bootstrap.sh", "quickstart.sh", "runtests.sh", ".ci/run", *PACKAGING]
    # what a function does that another one calls by its name is not unreachable
    good(["shellcheck", "-e", "SC2317", *(SOURCE / name for name in scripts)])


def is_excused(finding: str) -> bool:
    """Has the line of a finding a comment `noqa`, which flake8 heeds and pyflakes alone does not?"""
    path, line = finding.split(":")[:2]
    return "# noqa: F" in Path(path).read_text().splitlines()[int(line) - 1]


def test_python_has_no_findings_of_the_linter() -> None:
    """The rules that `ruff check` has by default: names that are not used or not defined, and errors in syntax. They are
    those of the two programs that flake8 consists of, which takes twice as long because it applies all rules."""
    modules = [name for name in ("pycodestyle", "pyflakes") if importlib.util.find_spec(name)]
    if len(modules) < 2:
        pytest.skip("pycodestyle and pyflakes are not installed (Debian package flake8)")
    folders = [SOURCE / folder for folder in PYTHON_FOLDERS]
    good([sys.executable, "-m", "pycodestyle", "--select=E4,E7,E9", *folders])
    done = run([sys.executable, "-m", "pyflakes", *folders])
    findings = done.text.splitlines()
    assert [one for one in findings if not is_excused(one)] == [] and done.err == b""
    assert findings  # those that are excused


def test_python_has_the_formatters_style() -> None:
    """Of one release of the formatter, because each has a style of its own."""
    version = run(["/usr/bin/black", "--version"]).text if Path("/usr/bin/black").exists() else ""
    if "23.1." not in version:
        pytest.skip(f"black 23.1 is not installed (Debian 12's package black): {version or 'there is none'}")
    good(
        [
            "/usr/bin/black",
            "--check",
            "--config",
            SOURCE / "pyproject.toml",
            *(SOURCE / folder for folder in PYTHON_FOLDERS),
        ]
    )
