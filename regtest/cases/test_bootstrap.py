"""test_bootstrap - bootstrap.sh says how far the build is, and shows all of a failure.

It builds a small project made here, which needs no package and no autotools.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

from support import SOURCE, good

SAID = "bootstrap: "
# automake's way to announce a step; the last command is none
STEPS = ("one", "two", "three")
MAKEFILE = "all: one two three\n\t@echo a line of make\n" + "".join(
    f"{step}:\n\t@echo \"  CC      \" {step};test '$(BROKEN)' != {step} && touch {step}\n" for step in STEPS
)


def project(folder: Path, broken: str = "") -> dict[str, str]:
    """A source folder. Returns the environment to build it in, where all packages are installed."""
    tools = folder / "tools"
    tools.mkdir()
    (folder / "drivers/allocators").mkdir(parents=True)
    (folder / "drivers/allocators/allocators.def").write_text("")
    (folder / "Makefile.in").write_text(f"BROKEN = {broken}\n{MAKEFILE}")
    (folder / "configure").write_text("#!/bin/sh\ncp ../Makefile.in Makefile\n")
    (tools / "dpkg-query").write_text("#!/bin/sh\necho install ok installed\n")
    for script in (folder / "configure", tools / "dpkg-query"):
        script.chmod(0o755)
    shutil.copy(SOURCE / "bootstrap.sh", folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return kept | {"PATH": f"{tools}:{os.environ['PATH']}"}


def on_terminal(folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """What a person sees."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["sh", "bootstrap.sh"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as done:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # nobody writes to the terminal any more
                break
            if not part:
                break
            text += part
    os.close(ours)
    return done.returncode, text.decode()


def in_pipe(folder: Path, env: dict[str, str]) -> tuple[int, str, str]:
    done = subprocess.run(["sh", "bootstrap.sh"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_person_sees_the_steps(tmp_path: Path) -> None:
    status, text = on_terminal(tmp_path, project(tmp_path))
    assert status == 0
    seen = text.replace("\r", "\n").splitlines()
    for step in range(1, 4):
        assert f"{SAID}building {step} of 3" in seen
    assert "a line of make" not in text and text.count("ready: ") == 1
    assert "building 3 of 3\r\n" in text, "the next message has a line of its own"


def test_help_does_nothing_else(tmp_path: Path) -> None:
    for name in ("bootstrap.sh", "quickstart.sh", "runtests.sh"):
        shutil.copy(SOURCE / name, tmp_path)
        text = good(["sh", tmp_path / name, "--help"]).text
        assert text.startswith(f"{name} - ") and f"\n    sh {name} [" in text and "SPDX" not in text
        assert sorted(path.suffix for path in tmp_path.iterdir()) == [".sh"]
        (tmp_path / name).unlink()


def test_no_steps_in_a_pipe(tmp_path: Path) -> None:
    env = project(tmp_path)
    status, text, complaint = in_pipe(tmp_path, env)
    assert (status, complaint) == (0, "")
    said = [re.fullmatch(SAID + r"\d+:\d\d ([^:]*)(:.*)?", line) for line in text.splitlines()]
    assert [line and line[1] for line in said] == ["configuring in ./build", "building (steps", "ready"]
    assert "(steps: 3)" in text
    # the second time nothing is left to do
    status, text, complaint = in_pipe(tmp_path, env)
    assert (status, complaint) == (0, "") and "(steps: 0)" in text and "configuring" not in text


def test_a_failure_is_shown_whole(tmp_path: Path) -> None:
    status, text, complaint = in_pipe(tmp_path, project(tmp_path, broken="two"))
    assert status == 1 and "ready" not in text
    assert "  CC       two" in complaint and "Error 1" in complaint
    assert complaint.endswith(f"{SAID}make failed; the lines above say why\n")


def test_packages_of_tests_are_left_out(tmp_path: Path) -> None:
    """until a run without --no-tests installs them, and configures again."""
    env, tools, log = project(tmp_path), tmp_path / "tools", tmp_path / "installed"
    log.touch()
    fakes = {
        "dpkg-query": f'grep -q -x "$4" {log} && echo install ok installed',
        "apt-get": f'[ "$2" = update ] || printf "%s\\n" "$@" >>{log}',
        "apt-cache": "exit 0",
        "sudo": 'exec "$@"',
    }
    for name, text in fakes.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (tmp_path / "configure").write_text(
        "#!/bin/sh\ncp ../Makefile.in Makefile\nprintf '#!/bin/sh\\necho \"$*\" >>again\\n' >config.status\nchmod +x config.status\n"
    )
    good(["sh", "bootstrap.sh", "--no-tests"], cwd=tmp_path, env=env)
    few = log.read_text().split()
    assert few.index("valgrind") < few.index("ffmpeg"), "the build begins before those of pictures are installed"
    assert "valgrind" in few and not {"python3-pytest", "libcmocka-dev", "chromium-driver"} & {*few}
    assert not (tmp_path / "build/again").exists()
    done = good(["sh", "bootstrap.sh"], cwd=tmp_path, env=env)
    assert {"python3-pytest", "libcmocka-dev", "chromium-driver"} < {*log.read_text().split()[len(few) :]}
    assert "for what was installed" in done.text and (tmp_path / "build/again").read_text() == "--recheck\n\n"
    assert "configuring" not in good(["sh", "bootstrap.sh"], cwd=tmp_path, env=env).text
