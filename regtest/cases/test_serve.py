"""test_serve - profiles for pprof of a program that is running, and dumps of its heap: `ljtrace run --http, --dump-...`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from support import NATIVE, SECONDS, good, processes, run, started, wait_for

HEAPED = NATIVE / "heaped"
GO = shutil.which("go")
STEPS = 100


class Program:
    """heaped, being recorded and served."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        self.process, self.errors = process, errors

    def step(self) -> None:
        """STEPS steps; returns when they are done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    @property
    def url(self) -> str:
        found = re.search(r"serving (http://127\.0\.0\.1:\d+/debug/pprof/)", self.errors.read_text())
        assert found is not None
        return found[1]

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(SECONDS)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Program]:
    errors = folder / "errors"
    argv = ["ljtrace", "run", f"--out={folder}/t.ljt", *options, HEAPED, STEPS]
    with open(errors, "wb") as file, started(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
    ) as process:
        yield Program(process, errors)


def top(source: object, sample: str, folder: Path) -> dict[str, float]:
    """Go's own list of functions: the flat value of each, as a number. folder: for files of its own."""
    text = good(
        [
            GO,
            "tool",
            "pprof",
            "-top",
            "-nodecount=0",
            "-nodefraction=0",
            "-unit=B" if "space" in sample else "-unit=minimum",
            f"-sample_index={sample}",
            source,
        ],
        env={"PPROF_TMPDIR": str(folder)},
    ).text
    rows = [line.split() for line in text.splitlines() if re.match(r"\s+[\d.]+\w*\s+[\d.]+%", line)]
    return {row[-1]: float(row[0].rstrip("Bnsmu")) for row in rows}


def fresh(read: "object", expected: float) -> None:
    """The recorder writes once a second: wait until a profile shows a number, and assert that it does."""
    wait_for(lambda: read() == expected, f"{expected} in a profile", 60)  # type: ignore[operator]


@pytest.mark.skipif(GO is None, reason="go tool pprof is not installed (package golang-go)")
def test_go_tool_pprof_of_a_running_program(tmp_path: Path) -> None:
    with running(tmp_path, "--http=0", "--sample-stacks=1ms") as program:
        program.step()
        fresh(lambda: top(program.url + "heap", "inuse_space", tmp_path).get("keep"), STEPS * 1000)
        program.step()
        fresh(lambda: top(program.url + "heap", "inuse_space", tmp_path).get("keep"), 2 * STEPS * 1000)
        allocated = top(program.url + "allocs", "alloc_objects", tmp_path)
        assert (allocated["keep"], allocated["pass"]) == (2 * STEPS, 2 * STEPS * 9)
        assert "pass" not in {
            name for name, value in top(program.url + "heap", "inuse_objects", tmp_path).items() if value
        }
        asking = subprocess.Popen(
            [str(GO), "tool", "pprof", "-top", program.url + "profile?seconds=3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        while asking.poll() is None:
            program.step()
        text = asking.communicate(timeout=SECONDS)[0]
        assert re.search(r"Type: cpu", text) and re.search(r"\bburn\b", text), text
        assert program.end() == 7


def test_dumps(tmp_path: Path) -> None:
    """A dump after each 100,000 bytes allocated, and one for each signal; the program gets no signal."""
    with running(tmp_path, "--dump-every=100000", "--dump-signal=USR2") as program:
        program.step()  # 190,000 bytes in all
        wait_for((tmp_path / "t.0001.pb.gz").exists, "the first dump", 60)
        assert not (tmp_path / "t.0002.pb.gz").exists()
        program.process.send_signal(signal.SIGUSR2)
        wait_for((tmp_path / "t.0002.pb.gz").exists, "the requested dump", 60)
        program.step()  # 380,000
        assert program.end() == 7
    assert sorted(path.name for path in tmp_path.glob("*.gz")) == [f"t.{i:04}.pb.gz" for i in range(1, 5)]
    said = program.errors.read_text()
    assert "wrote" in said and "4 dumps" in said
    if GO is None:
        pytest.skip("what the dumps hold was not compared: go tool pprof is not installed (package golang-go)")
    assert top(tmp_path / "t.0002.pb.gz", "inuse_space", tmp_path)["keep"] == STEPS * 1000
    assert top(tmp_path / "t.0002.pb.gz", "alloc_objects", tmp_path)["pass"] == STEPS * 9


def test_the_program_is_as_without(tmp_path: Path) -> None:
    argv = [HEAPED, STEPS]
    plain = run(argv, stdin=b"\n\n")
    served = run(
        ["ljtrace", "run", f"--out={tmp_path}/t.ljt", "--http=0", "--dump-high-water=10k", *argv], stdin=b"\n\n"
    )
    assert (plain.status, plain.out) == (served.status, served.out) == (7, b"done\ndone\n")
    assert all(re.match(r"ljtrace: |steve serve: ", line) for line in served.complaint.splitlines())


# -- many clients, and slow ones -------------------------------------------------------------------------------------

HELD = f"{STEPS}: {STEPS * 1000} [{STEPS * 10}: {STEPS * 1900}]"  # what `heaped` has after a step, as text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program that has made one step, and waits."""
    with running(tmp_path_factory.mktemp("served"), "--http=0") as program:
        program.step()
        wait_for(lambda: HELD in ask(program, "heap?debug=1")[1].decode(), "the step is in the profile", 60)
        yield program
        assert program.end() == 7


def place(program: Program) -> tuple[str, int]:
    host, port = program.url.split("/")[2].split(":")
    return host, int(port)


def request(path: str, method: str = "GET", headers: str = "", body: str = "") -> bytes:
    return f"{method} /debug/pprof/{path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n{body}".encode()


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def ask(program: Program, path: str, method: str = "GET", headers: str = "", body: str = "") -> tuple[str, bytes]:
    """The head and the body of an answer."""
    with socket.create_connection(place(program), timeout=SECONDS) as client:
        client.sendall(request(path, method, headers, body))
        head, _, rest = received(client).partition(b"\r\n\r\n")
    return head.decode(), rest


def test_a_thousand_requests_at_once(served: Program) -> None:
    """All are answered, by a few threads."""
    many = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * many:
        pytest.skip(f"only {hard} descriptors are permitted here (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * many), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        clients = [stack.enter_context(socket.create_connection(place(served), SECONDS)) for _ in range(many)]
        for client in clients:
            client.sendall(request("heap"))
        answers = {received(client).partition(b"\r\n\r\n")[2] for client in clients}
    assert len(answers) == 1, "each is the same profile"
    (pid,) = (pid for pid, words in processes() if b"serve" in words and os.fsencode(trace_of(served)) in words)
    threads = re.search(r"^Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert threads is not None and int(threads[1]) < 50


def trace_of(program: Program) -> Path:
    return program.errors.parent / "t.ljt"


def test_clients_that_never_finish_their_request(served: Program) -> None:
    """They are closed after a while; others are served meanwhile, even if these are more than there may be connections."""
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(place(served), SECONDS)) for _ in range(300)]
        for client in slow:
            client.sendall(b"GET /debug/pprof/heap HT")
        head, body = ask(served, "heap")
        assert " 200 " in head and gzip.decompress(body)
        assert not received(slow[-1]), "closed without an answer"


def test_head_is_get_without_the_data(served: Program) -> None:
    def lines(head: str) -> list[str]:
        return [line for line in head.split("\r\n") if not line.startswith("Date:")]

    for path in ("heap", "heap?debug=1", "allocs", "cmdline", "nothing", "heap?debug=x"):
        (get, data), (head, nothing) = ask(served, path), ask(served, path, "HEAD")
        assert lines(get) == lines(head) and data and not nothing
        assert f"Content-Length: {len(data)}" in head


def test_heap_as_text(served: Program) -> None:
    """The numbers are those of the binary form, and pprof finds the names."""
    head, data = ask(served, "heap?debug=1")
    lines = data.decode().splitlines()
    assert "Content-Type: text/plain" in head and lines[0] == f"heap profile: {HELD} @ heapprofile"
    keep = next(i for i, line in enumerate(lines) if re.match(r"#\t0x\w+\tkeep\t\S*heaped\.c:\d+$", line))
    stack = re.fullmatch(rf"{STEPS}: {STEPS * 1000} \[{STEPS}: {STEPS * 1000}\] @ (0x\w+) 0x\w+.*", lines[keep - 1])
    assert stack is not None and keep == 2, "most bytes in use come first"
    assert gzip.decompress(ask(served, "heap?debug=0")[1])[:1] == b"\x0a"
    asked = f"{int(stack[1], 16) - 1:#x}+0x1+nonsense"
    for answer in (
        ask(served, f"symbol?{asked}"),
        ask(served, "symbol", "POST", f"Content-Length: {len(asked)}\r\n", asked),
    ):
        assert answer[1].decode().split() == ["num_symbols:", "1", asked.split("+")[0], "keep"]
    if GO is None:
        pytest.skip("go tool pprof did not read the text: it is not installed (package golang-go)")
    folder = trace_of(served).parent
    for sample in ("inuse_space", "alloc_objects"):
        assert top(served.url + "heap?debug=1", sample, folder) == top(served.url + "heap", sample, folder)


@pytest.mark.parametrize(
    "sent, status",
    [
        (request("heap?seconds=1&debug=1"), 400),
        (request("heap?debug=-1"), 400),
        (request("heap", "POST", "Content-Length: 3\r\n", "abc"), 405),
        (request("heap", "DELETE"), 405),
        (request("heap", headers="X: " + 20000 * "x" + "\r\n"), 200),
        (b"GET /" + 100_000 * b"x", 431),
        (b"\0\xff\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: elsewhere.example\r\n\r\n", 403),
    ],
)
def test_requests_that_are_refused(sent: bytes, status: int, served: Program) -> None:
    with socket.create_connection(place(served), timeout=SECONDS) as client:
        client.sendall(sent)
        assert re.search(rf"\b{status}\b", received(client)[:500].decode("latin-1"))


def test_too_many_requests_that_take_long(served: Program) -> None:
    """They are refused, and those that do not take long are served."""
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(place(served), SECONDS)) for _ in range(50)]
        for client in clients:
            client.sendall(request("heap?seconds=2"))
        head, _ = ask(served, "heap")
        answers = [received(client).split()[1] for client in clients]
    assert " 200 " in head and set(answers) == {b"200", b"503"} and answers.count(b"200") >= 32


def test_answers_at_the_end_of_the_program(tmp_path: Path) -> None:
    """A profile of the next minute ends with the program."""
    with running(tmp_path, "--http=0") as program:
        program.step()
        wait_for(lambda: HELD in ask(program, "heap?debug=1")[1].decode(), "the step is in the profile", 60)
        with socket.create_connection(place(program), timeout=SECONDS) as client:
            client.sendall(request("heap?seconds=60"))
            ask(program, "cmdline")  # the first request was read before this one
            program.step()
            assert program.end() == 7
            head, _, body = received(client).partition(b"\r\n\r\n")
    assert b" 200 " in head and b"inuse_space" in gzip.decompress(body)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--http=nowhere"], "is neither a port nor ADDRESS:PORT"),
        (["--http=0", "--keep=last", "--max-size=32m"], "need a file that is kept whole, not --keep=last"),
        (["--dump-every=x"], "--dump-every takes a number of bytes"),
        (["--dump-signal=KILL"], "is USR1, USR2 or HUP"),
    ],
)
def test_wrong_options(options: list[str], message: str, tmp_path: Path) -> None:
    """The program does not run."""
    done = run(["ljtrace", "run", f"--out={tmp_path}/t.ljt", *options, "touch", tmp_path / "ran"])
    assert done.status == 125 and message in done.complaint and not (tmp_path / "ran").exists()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(["ljtrace", "run", f"--out={tmp_path}/t.ljt", f"--http={port}", "touch", tmp_path / "ran"])
    assert done.status == 125 and f"cannot serve on 127.0.0.1, port {port}" in done.complaint
    assert not (tmp_path / "ran").exists()


def test_without_steve(tmp_path: Path) -> None:
    folders = [folder for folder in os.environ["PATH"].split(":") if not Path(folder, "steve").exists()]
    done = run(
        [shutil.which("ljtrace"), "run", f"--out={tmp_path}/t.ljt", "--http=0", "true"], env={"PATH": ":".join(folders)}
    )
    assert done.status == 125 and "cannot start steve" in done.complaint


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--http=0", "--dump-high-water=50k") as program:
        program.step()
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
        killed = next(int(child) for child in children if os.path.samefile(f"/proc/{child}/exe", HEAPED))
        os.kill(killed, signal.SIGKILL)
        assert program.process.wait(SECONDS) == -signal.SIGKILL
    assert (tmp_path / "t.0001.pb.gz").exists()


def test_attached(tmp_path: Path) -> None:
    """Only blocks since the attach are in the profiles; the program is not harmed."""
    errors = tmp_path / "errors"
    with started([HEAPED, STEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process, open(errors, "wb") as file:
        program = Program(process, errors)
        program.step()
        attaching = ["ljtrace", "attach", f"--out={tmp_path}/t.ljt", "--http=0", "--dump-signal=USR1", process.pid]
        with started(attaching, stderr=file) as attach:
            wait_for(lambda: b"recording process" in errors.read_bytes(), "the recording begins", 60)
            program.step()
            profile = f"{program.url}heap"
            attach.send_signal(signal.SIGUSR1)
            wait_for((tmp_path / "t.0001.pb.gz").exists, "the requested dump", 60)
            if GO is not None:
                fresh(lambda: top(profile, "inuse_space", tmp_path).get("keep"), STEPS * 1000)
            attach.send_signal(signal.SIGINT)
            assert attach.wait(SECONDS) == 0
        program.step()
        assert program.end() == 7
