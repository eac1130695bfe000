"""test_doc_commands - every command line that README, manual, man pages and the texts for developers show works.

The commands of a block run one after the other in a folder of their own, which has the files that documents speak of: a
program in Lua and one in C, their recordings, ops files. A block that is shown twice runs once. What cannot run in a
test is in NOT_RUN with the reason; of `make` it is checked that there is such a target. test_tutorial does the same for
tutorial and FAQ, and compares outputs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import warm
from documents import Group, not_commands, shown
from support import BUILD, NATIVE, SECONDS, SOURCE, good, record, run, started, wait_for

DOCUMENTS = [
    "README.md",
    "HACKING.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/manual.md",
    "docs/faq.md",
    "docs/tutorial.md",
    "docs/performance.md",
    "docs/scaling.md",
    "docs/tables.md",
    "docs/writing-a-driver.md",
    "docs/ljtrace.1",
    "docs/steve.1",
    "docs/steve-replay.1",
    *(f"docs/internals/{path.name}" for path in sorted((SOURCE / "docs/internals").glob("*.md"))),
]
# beginnings or parts of commands, and why they do not run
NOT_RUN = {
    "apt-get ": "installs packages: `make check-deb` does it in a bare Debian",
    "sh /usr/share/doc/ljtrace/quickstart.sh": "needs the packages: `make check-deb`",
    "sh packaging/deb": "needs debootstrap and half an hour: `make check-deb`",
    "sh quickstart.sh": "builds everything",
    "sh bootstrap.sh": "builds everything",
    "sh runtests.sh": "runs all tests",
    "fetch-dlmalloc": "loads a file from the network",
    "steve top ": "needs a terminal: test_top",
    "--http=6060": "a fixed port, which others may use: test_serve",
    "nginx": "needs nginx and its port: test_servers records it, and the FAQ a server of its own",
    "go tool pprof": "needs Go, and a server: test_serve",
    "--scheduler tcp://": "needs a cluster: test_shards",
    "duckdb ": "no package of Debian has it",
    "import pandas": "pandas is not needed otherwise",
    "/usr/local/include/steve": "needs an installation: test_install compiles a driver with it",
    "./mine.so": "needs the driver of a user: drivers/test/test_outside",
    "steve animate": "a film takes half a minute: drivers/test/test_films, and the tutorial",
    "steve compare": "it measures for a minute: steve/test/test_compare",
    "steve tune": "it searches for a minute: steve/test/test_tune",
    "steve-replay -a glibc --memplot": "a film takes half a minute: drivers/test/test_films",
}
# the blocks with lines that are no commands, and what shows that they are right; test_tutorial compares outputs that are
# the same each time
NOT_COMMANDS = {
    "docs/faq.md": {"local mark = require": "a program: test_program_of_the_faq"},
    "docs/manual.md": {
        'local misc = require "ljtrace.misc"': "a program: test_program_of_the_manual",
        "on: {push: ": "a workflow of GitHub, which has a command that is run",
        "best for peak: ": "an output: steve/test/test_tune",
    },
    "docs/scaling.md": {"dask-scheduler": "it needs a cluster: test_shards"},
    "docs/steve.1": {"size >= 1Ki": "conditions: test_conditions_of_the_manual_page"},
}
# what is added to a command that otherwise takes half a minute
SHORTER = {
    r"steve allocstats (?!.*--allocator)": " --allocator glibc,firstfit",
    r"steve allocstats (?!.*--min-heap)": " --passes 1 --points 10",
    r"steve-replay .*--allocstats": " --passes 1 --points 10",
}
APP_LUA = """\
local kept = {}
for i = 1, 2000 do kept[i % 100] = {name = "n" .. i} end
"""
APP_C = """\
#include <stdlib.h>
#include <string.h>
static char *kept[100];
int main(void)
{
    for (int i = 0; i < 2000; i++) {
        free(kept[i % 100]);
        kept[i % 100] = memset(malloc(10 + i % 90), 1, 10);
    }
    return 0;
}
"""
PROFILES = """\
local misc = require "ljtrace.misc"
misc.sysprof.start{mode = "C", interval = 1, path = "sysprof.bin"}
misc.memprof.start("memprof.bin")
local t = {}
for i = 1, 100000 do t[i % 10] = {i} end
misc.memprof.stop()
misc.sysprof.stop()
"""
MTRACE = "= Start\n@ ./app:[0x401136] + 0x1000 0x20\n@ ./app:[0x401146] - 0x1000\n= End\n"


def why_not(command: str) -> str | None:
    return next((reason for part, reason in NOT_RUN.items() if part in command), None)


@pytest.fixture(scope="module", name="base")
def made_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files that documents name."""
    folder = tmp_path_factory.mktemp("documents") / "base"
    folder.mkdir()
    for name, text in {"app.lua": APP_LUA, "app.c": APP_C, "profiles.lua": PROFILES, "mtrace.txt": MTRACE}.items():
        (folder / name).write_text(text)
    good(["gcc", "-g", "-O1", "-o", "app", "app.c"], cwd=folder)
    shutil.copy(folder / "app", folder / "server")
    (folder / "debug").mkdir()
    (folder / "build").symlink_to(BUILD)
    trace = record(folder / "app.ljt", ["luajit", folder / "app.lua"], "--universe=at-exit", "--sample-stacks=100k")
    assert trace.run.status == 0
    for name in ("a", "b", "baseline", "new", "chat", "fixed"):
        shutil.copy(folder / "app.ljt", folder / f"{name}.ljt")
    (folder / "traces").mkdir()
    for name in ("a", "b"):
        shutil.copy(folder / "app.ljt", folder / "traces" / f"{name}.ljt")
    good(["luajit", "profiles.lua"], cwd=folder)
    for command in (
        "ops app.ljt --threads --times -o app-ops",
        "lockops --simple app-ops",
        "export --format sqlite app.ljt",
    ):
        done = warm.steve(command.split(), folder, SECONDS)
        assert done.returncode == 0, done.stderr.decode()
    for allocator in ("glibc", "firstfit"):
        of_one = folder / f"app-ops-{allocator}-allocstats"
        good(["steve-replay", "-a", allocator, "--allocstats", folder / "app-ops", "-o", of_one])
    if shutil.which("heaptrack"):
        good(["heaptrack", "-o", "heaptrack.app.4711", "./app"], cwd=folder)
    return folder


def attach(command: str, folder: Path) -> str | None:
    """Attach to a process; returns what is wrong."""
    with started([NATIVE / "living", "mallocs"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: b"libc.so.6" in Path(f"/proc/{process.pid}/maps").read_bytes(), "the program runs")
        words = shlex.split(re.sub(r"\b(PID|4711)\b", str(process.pid), command))
        words = [re.sub("^--seconds=.*", "--seconds=3600", word) for word in words]  # until the detach
        with started(words, cwd=folder, stderr=subprocess.PIPE) as recorder:
            assert recorder.stderr is not None
            first = recorder.stderr.readline()
            good(["ljtrace", "detach", process.pid])
            return None if recorder.wait(SECONDS) == 0 else (first + recorder.stderr.read()).decode()


def wrong(command: str, folder: Path) -> str | None:
    """Run a command in a folder; returns what is wrong."""
    if command.startswith("ljtrace attach"):
        return attach(command, folder)
    command = command.replace("FILE", "app.ljt")
    command += "".join(more for pattern, more in SHORTER.items() if re.match(pattern, command))
    if command.startswith("steve ") and not re.search(r"[;&|<*$]", re.sub(r"'[^']*'", "", command)):
        quick = warm.steve(shlex.split(command)[1:], folder, SECONDS)
        status, text = quick.returncode, quick.stdout + quick.stderr
    else:
        path = f"{folder}:{shlex.quote(str(BUILD))}"
        done = run(["bash", "-c", f"set -e; PATH={path}:$PATH; {command}"], cwd=folder)
        status, text = done.status, done.out + done.err
    return None if status == 0 else f"status {status}\n{text.decode(errors='replace')[-1000:]}"


_done: dict[str, str | None] = {}


def failures(group: Group, base: Path, folder: Path) -> list[str]:
    """What is wrong with the commands of a group, which run in a copy of the folder."""
    commands = [c for c in group.commands if not why_not(c) and not re.match(r"make\b", c)]
    key = "\n".join(commands)
    if not commands or key in _done:
        return []
    shutil.copytree(base, folder, symlinks=True)
    found = []
    for command in commands:
        if "heaptrack." in command and not shutil.which("heaptrack"):
            continue
        if problem := wrong(command, folder):
            found.append(f"line {group.line}: {command}\n{problem}")
    _done[key] = None
    shutil.rmtree(folder)
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_work(name: str, base: Path, tmp_path: Path) -> None:
    found = []
    for number, group in enumerate(shown(SOURCE / name)):
        found += failures(group, base, tmp_path / str(number))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_targets_of_make_exist(name: str) -> None:
    makefile = (BUILD / "Makefile").read_text()
    for group in shown(SOURCE / name):
        for command in group.commands:
            if command.startswith("make "):
                words = [w for w in shlex.split(command)[1:] if "=" not in w and w not in ("-C", "build")]
                for target in words:
                    assert re.search(rf"^{re.escape(target)}\b.*:", makefile, re.MULTILINE), f"{name}: {command}"


def test_commands_are_found() -> None:
    """No entry of NOT_RUN is superfluous, and the documents have as many commands as they had, about."""
    commands = [command for name in DOCUMENTS for group in shown(SOURCE / name) for command in group.commands]
    assert [part for part in NOT_RUN if not any(part in command for command in commands)] == []
    assert len([command for command in commands if not why_not(command)]) > 130


@pytest.mark.parametrize("name", DOCUMENTS)
def test_outputs_are_compared(name: str) -> None:
    """A document shows nothing that no test compares or runs. test_tutorial compares what blocks of `text` show."""
    assert Path(name).stem in ("tutorial", "faq") or "\n```text" not in (SOURCE / name).read_text()
    found = [lines[0] for lines in not_commands(SOURCE / name)]
    known = tuple(NOT_COMMANDS.get(name, {}))
    assert [first for first in found if not first.startswith(known)] == [] and len(found) == len(known)


def test_program_of_the_manual(tmp_path: Path) -> None:
    program = next(lines for lines in not_commands(SOURCE / "docs/manual.md") if lines[0].startswith("local misc"))
    loop = "local t = {} for i = 1, 300000 do t[i % 10] = {i} end"
    (tmp_path / "manual.lua").write_text("\n".join(program).replace("...", loop))
    good(["luajit", "manual.lua"], cwd=tmp_path)
    for name in ("memprof", "sysprof"):
        assert good(["steve", name, f"{name}.bin"], cwd=tmp_path).out


@pytest.mark.parametrize(("kept", "status"), (("", 0), ("cache[{}] = true", 1)), ids=("bounded", "leaks"))
def test_program_of_the_faq(kept: str, status: int, tmp_path: Path) -> None:
    """A library with a bounded cache, which is replaced between the marks, and with much garbage does not grow, also
    with the JIT on."""
    (program,) = not_commands(SOURCE / "docs/faq.md")
    work = f"local cache = {{}} function work(n) for i = 1, n do cache[i % 400] = {{ 'garbage ' .. i }} {kept} end end"
    (tmp_path / "library.lua").write_text("\n".join([work, *program]))
    good(["luajit", "library.lua"], cwd=tmp_path)
    good(["ljtrace", "run", "--out=library.ljt", "luajit", "library.lua"], cwd=tmp_path)
    condition = ["--from", "half", "--to", "end", "--fail-if", "net_growth > 16k"]
    assert run(["steve", "check", "library.ljt", *condition], cwd=tmp_path).status == status


def test_conditions_of_the_manual_page(base: Path) -> None:
    (conditions,) = not_commands(SOURCE / "docs/steve.1")
    assert len(conditions) == 2
    for condition in conditions:
        assert wrong(f"steve sites app.ljt --where {shlex.quote(condition)}", base) is None


def test_a_command_that_fails_is_found(base: Path, tmp_path: Path) -> None:
    group = Group(7, ["steve summary app.ljt", "steve summary no.ljt", "luajit -e 'os.exit(3)'"])
    found = failures(group, base, tmp_path / "copy")
    assert len(found) == 2 and "no.ljt" in found[0] and "status 3" in found[1]
