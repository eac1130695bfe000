"""warm - run commands of steve without starting Python for each: in forks of a process that has loaded the libraries.

Tests run thousands of short commands, most of whose time is the start of Python and the import of numpy and others. One
server process for each file of tests imports these. For each command it forks, and the child runs the same function as a
process that is started anew (steve.cli.main), with arguments, folder, environment, standard streams and process group
of its own, and ends as Python ends. So no command influences the next one. Not tested in this
way is the start itself: that a command imports what it needs. The tests of the command line start real processes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import atexit
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

# what most commands import, and what commands that draw import as well
LIBRARIES = (
    "jinja2",
    "numpy",
    "rich.console",
    "rich.table",
    "rich.text",
    "steve.analysis.blocks",
    "steve.analysis.program_errors",
    "steve.analysis.site_rules",
    "steve.analysis.totals",
    "steve.kernels._lives",
    "steve.kernels._ops",
    "steve.kernels._site_sums",
    "steve.kernels._sums",
    "steve.kernels._totals",
    "steve.system.output",
    "steve.system.tempfiles",
)
DRAWING = ("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg")
COMMANDS_THAT_DRAW = ("animate", "compare", "graphs", "histogram", "pins", "tune")
LONGEST = 100_000  # bytes of a request


# -- the server ------------------------------------------------------------------------------------------


def load(names: Sequence[str]) -> None:
    """Import modules. A command reports itself what cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def become(request: dict, streams: list[int]) -> None:
    """Turn a fork of the server into the process of a command."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = ["steve", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def next_command(channel: socket.socket) -> list[str] | None:
    """Serve until a process is to run a command, whose arguments are returned there; None at the end of the requests."""
    while True:
        message, streams, _, _ = socket.recv_fds(channel, 2 * LONGEST, 3)
        if not message:
            return None
        request = json.loads(message)
        name = request["arguments"][0] if request["arguments"] else ""
        load([f"steve.commands.{name}"] if name.isidentifier() else [])
        load(DRAWING if name in COMMANDS_THAT_DRAW else [])
        pid = os.fork()
        if pid == 0:
            channel.close()
            become(request, streams)
            return request["arguments"]
        for stream in streams:
            os.close(stream)
        channel.send(str(pid).encode())
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def serve(number: int) -> int:
    """Be the server on a socket that was inherited, or a command: the exit status."""
    from steve.cli import main

    load(LIBRARIES)
    gc.freeze()  # a collection would copy the memory that the server and its forks share
    arguments = next_command(socket.socket(fileno=number))
    return 0 if arguments is None else end(main, arguments)


def end(main: Callable[[list[str]], int], arguments: list[str]) -> NoReturn:
    """Run a command, and end as Python does, without the time that it takes to destroy all modules."""
    status = 1
    try:
        status = main(arguments)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        if "COVERAGE_PROCESS_START" in os.environ:
            ctypes.CDLL(None).exit(status)  # which writes the counters of C, too
        os._exit(status)


# -- the tests' side -------------------------------------------------------------------------------------


class Server:
    """A connection to a server, which ends with it."""

    def __init__(self) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        extensions = os.environ["STEVE_EXT_DIR"]
        python = [os.environ.get("STEVE_PYTHON") or sys.executable, "-X", f"pycache_prefix={extensions}/__pycache__"]
        env = {**os.environ, "PYTHONSAFEPATH": "1"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            [*python, __file__, str(other.fileno())],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
        )
        other.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End the server, and wait for it, so that its processor time counts as that of this process."""
        self._channel.close()
        self._process.wait()

    def request(self, message: bytes, streams: list[int]) -> int:
        """Let a command begin: its process."""
        socket.send_fds(self._channel, [message], streams)
        return self._number("did not begin")

    def status(self) -> int:
        """The exit status of a command that has ended; negative: the signal that has ended it."""
        return self._number("has no status")

    def _number(self, trouble: str) -> int:
        answer = self._channel.recv(100)
        if not answer:
            raise RuntimeError(f"the server of steve's commands has ended: the command {trouble}")
        return int(answer)


_server: list[Server] = []
_LOCK = threading.Lock()


def read_all(pipes: list[int], pid: int, seconds: float) -> list[bytes]:
    """Read pipes to their ends. The process group is killed if that takes too long."""
    found = {pipe: bytearray() for pipe in pipes}
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as ready:
        for pipe in pipes:
            ready.register(pipe, selectors.EVENT_READ)
        while ready.get_map():
            events = ready.select(end - time.monotonic())
            if not events and time.monotonic() >= end:
                os.killpg(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired("steve", seconds)
            for key, _ in events:
                data = os.read(key.fd, 1 << 20)
                found[key.fd] += data
                if not data:
                    ready.unregister(key.fd)
    return [bytes(found[pipe]) for pipe in pipes]


def steve(
    arguments: Sequence[str], folder: Path | None = None, seconds: float = 1800
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command with an empty standard input; as subprocess.run with captured output."""
    message = json.dumps(
        {"arguments": [*arguments], "folder": os.fspath(folder or Path.cwd()), "environment": dict(os.environ)}
    ).encode()
    if len(message) > LONGEST:
        raise ValueError("a request that is too long")
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    ours = [pipes[1][0], pipes[2][0]]
    os.close(pipes[0][1])
    with _LOCK:
        try:
            if not _server:
                _server.append(Server())
            pid = _server[0].request(message, theirs)
        finally:
            for stream in theirs:
                os.close(stream)
        try:
            out, err = read_all(ours, pid, seconds)
        finally:
            for stream in ours:
                os.close(stream)
            status = _server[0].status()
    return subprocess.CompletedProcess(["steve", *arguments], status, out, err)


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1])))
