"""Dumps and profiles by HTTP: of a trace that is complete, and of one that grows.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import fcntl
import gzip
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Steve
from steve.serve.heap import LiveHeap, Sums
from steve.serve.server import Server
from steve.trace.policy import Policy
from steve.trace.reading import Reading

SECONDS = 300
# inner allocates 100 bytes 10 times, outer 1000 bytes once; the first five blocks of inner are freed in between
SCRIPT = (
    "stack main@m.c:1 inner@m.c:5\nstack main@m.c:1 outer@m.c:9\ninfo command app\n"
    + "".join(f"N {4096 * i} 100 1\nflush\n" for i in range(1, 6))
    + "".join(f"F {4096 * i} 1\nflush\n" for i in range(1, 6))
    + "N 409600 1000 2\nflush\n"
    + "".join(f"N {4096 * i} 100 1\nflush\n" for i in range(1, 6))
    + "sample 7 2 0 0\nend exit\n"
)
LAST = {"inner": (10, 1000, 5, 500), "outer": (1, 1000, 1, 1000)}


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            yield key >> 3, data[at : at + value]
            at += value
        else:
            yield key >> 3, value


def numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value - (value >> 63 << 64))
    return found


class Decoded(NamedTuple):
    """A profile: the names of its values, the first one to be shown, and the values by the innermost function."""

    types: tuple[str, ...]
    default: str
    values: dict[str, tuple[int, ...]]


def decoded(packed: bytes) -> Decoded:
    message: dict[int, list] = {}
    for field, value in fields(gzip.decompress(packed)):
        message.setdefault(field, []).append(value)
    strings = [text.decode() for text in message[6]]
    functions = {f.get(1): strings[f[2]] for f in map(dict, map(fields, message.get(5, ())))}
    locations = {}
    for location in map(dict, map(fields, message.get(4, ()))):
        locations[location[1]] = functions[dict(fields(location[4]))[1]]
    values = {}
    for sample in map(dict, map(fields, message.get(2, ()))):
        values[locations[numbers(sample[1])[0]]] = tuple(numbers(sample[2]))
    types = tuple(strings[dict(fields(kind))[1]] for kind in message[1])
    return Decoded(types, strings[message[14][0]], values)


def heap(profile: bytes) -> dict[str, tuple[int, ...]]:
    found = decoded(profile)
    assert found.types == ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
    return found.values


# -- dumps --


def dumps(folder: Path, name: str = "t") -> list[dict[str, tuple[int, ...]]]:
    files = sorted(folder.glob(f"{name}.*.pb.gz"))
    assert [file.name for file in files] == [f"{name}.{i + 1:04}.pb.gz" for i in range(len(files))]
    return [heap(file.read_bytes()) for file in files]


def test_dumps_after_so_many_bytes(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> None:
    """At 250, 500, 750 and so on: an allocation that passes several of them is one dump."""
    trace(SCRIPT)
    done = steve("serve", "t.ljt", "--dump-every", "250")
    assert (done.returncode, done.out) == (0, "") and "5 dumps: t.0001.pb.gz to 0005" in done.err
    outer = {"outer": (1, 1000, 1, 1000)}
    assert dumps(tmp_path) == [
        {"inner": (3, 300, 3, 300)},
        {"inner": (5, 500, 5, 500)},
        {"inner": (5, 500, 0, 0), **outer},
        {"inner": (8, 800, 3, 300), **outer},
        LAST,
    ]


def test_dumps_at_high_water(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> None:
    trace(SCRIPT)
    assert steve("serve", "t.ljt", "--dump-high-water", "350", "--dump-to", "high", "-q").err == ""
    assert [sum(row[3] for row in dump.values()) for dump in dumps(tmp_path, "high")] == [400, 1000, 1400]


def test_both_kinds_of_dumps(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> None:
    """They are numbered together. Options on frames apply."""
    trace(SCRIPT)
    steve("serve", "t.ljt", "--dump-every", "1k", "--dump-high-water", "1k", "--alloc-fn", "inner")
    outer = {"outer": (1, 1000, 1, 1000)}
    assert dumps(tmp_path) == [{"main": (5, 500, 0, 0), **outer}, {"main": (6, 600, 1, 100), **outer}]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("t.ljt",), "nothing to do: give --http=PORT"),
        (("t.ljt", "--http", "x"), "'x' is neither a port nor ADDRESS:PORT"),
        (("t.ljt", "--http", "99999"), "'99999' is neither a port"),
        (("t.ljt", "--http", "example.org:80"), "is neither a port"),
        (("t.ljt", "--dump-every", "0"), "'0' is not a number of bytes"),
        (("t.ljt", "--dump-every", "9e9"), "'9e9' is not a number of bytes"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str, steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    done = steve("serve", *arguments)
    assert done.returncode == 2 and message in done.err


def test_what_cannot_be_followed(steve: Steve, tmp_path: Path, trace: Callable[..., Path]) -> None:
    (tmp_path / "t.txt").write_text(">>> N 1000 8\n")
    subprocess.run(["zstd", "-q", trace(SCRIPT)], check=True)
    for name in ("t.txt", "t.ljt.zst"):
        done = steve("serve", name, "--dump-every", "1")
        assert done.returncode == 1 and "cannot be followed: it is not a plain .ljt file" in done.err
    assert "cannot open" in steve("serve", "none.ljt", "--dump-every", "1").err


# -- a file that grows --


class Growing:
    """A trace of SCRIPT that is written in pieces, with the recorder's lock."""

    def __init__(self, path: Path, whole: bytes) -> None:
        self.whole, self.written = whole, 0
        self.file = open(path, "wb", buffering=0)
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def grow(self, end: int) -> None:
        self.file.write(self.whole[self.written : end])
        self.written = max(self.written, end)

    def finish(self) -> None:
        self.file.close()


class Served:
    """`steve serve` for a file, and its answers."""

    process: subprocess.Popen

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def heap(self, path: str = "/debug/pprof/heap") -> dict[str, tuple[int, ...]]:
        status, data = self.ask(path)
        assert status == 200
        return heap(data)


@contextmanager
def serving(path: Path, *options: str, http: str = "0") -> Iterator[Served]:
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        ["steve", "serve", path, "--http", http, "--notify-fd", str(theirs), *options],
        pass_fds=[theirs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    try:
        with open(ours) as reader:
            served = Served(reader.readline().strip())
            served.process = process
            yield served
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def growing(trace: Callable[..., Path], tmp_path: Path) -> Iterator[Growing]:
    file = Growing(tmp_path / "grow.ljt", trace(SCRIPT).read_bytes())
    file.grow(200)
    yield file
    file.finish()


def test_a_growing_trace(growing: Growing, tmp_path: Path) -> None:
    """Each answer has all that is in the file; nothing is read twice; it ends with the recording."""
    with serving(tmp_path / "grow.ljt", "--until-end") as served:
        seen = []
        for end in range(200, len(growing.whole), 40):
            growing.grow(end)
            seen.append(served.heap().get("inner", (0, 0, 0, 0)))
        growing.grow(len(growing.whole))
        assert served.heap() == LAST
        assert served.process.poll() is None  # the recorder has not ended
        assert seen == sorted(seen, key=lambda row: row[0]) and len(set(seen)) > 10
        assert {row[2] for row in seen} == {0, 1, 2, 3, 4, 5}
        growing.finish()
        assert served.process.wait(SECONDS) == 0


def events_of(reading: Reading) -> int:
    trace = reading.open()
    trace.skim()
    return int(trace.stats()["events"])


def test_all_walks_read_the_same_part(growing: Growing, tmp_path: Path) -> None:
    """Also those of workers, while the recorder writes on."""
    growing.grow(len(growing.whole) // 2)
    reading = Reading(str(tmp_path / "grow.ljt")).as_now()
    before = events_of(reading)
    growing.grow(len(growing.whole) - 40)
    assert events_of(reading) == events_of(reading.for_workers()) == before > 0
    assert events_of(Reading(reading.path).as_now()) > before and reading.open().growing == reading.growing


class Watched(LiveHeap):
    """A heap that reports when a period has begun."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Policy())
        self.begun = threading.Event()

    def sums(self) -> Sums:
        found = super().sums()
        self.begun.set()
        return found


def test_what_changes_in_a_while(growing: Growing, tmp_path: Path) -> None:
    """Served by this process, because only the server knows when the period of a request begins."""
    growing.grow(len(growing.whole) // 3)
    file = tmp_path / "grow.ljt"
    watched = Watched(file)
    server = Server("127.0.0.1", 0, watched, str(file))
    server.start()
    served = Served(server.address)
    before = served.heap().get("inner", (0, 0, 0, 0))
    watched.begun.clear()
    found: list[dict] = []
    asking = threading.Thread(target=lambda: found.append(served.heap("/debug/pprof/allocs?seconds=3600")))
    asking.start()
    assert watched.begun.wait(SECONDS)
    growing.grow(len(growing.whole))
    growing.finish()
    while not watched.complete.is_set():  # as `steve serve` does; the rest of the 3,600 seconds is not waited for
        watched.catch_up()
    asking.join(SECONDS)
    server.finish()
    assert 0 < before[0] < 10
    assert found[0]["inner"] == tuple(now - then for now, then in zip(LAST["inner"], before))
    assert found[0]["outer"] == LAST["outer"]


def test_a_recorder_that_was_killed(growing: Growing, tmp_path: Path) -> None:
    with serving(tmp_path / "grow.ljt", "--until-end") as served:
        growing.grow(len(growing.whole) // 2)
        growing.finish()
        _, err = served.process.communicate(timeout=SECONDS)
        assert served.process.returncode == 1 and "cut off at offset" in err


def test_a_signal_requests_a_dump(growing: Growing, tmp_path: Path) -> None:
    growing.grow(len(growing.whole))
    with serving(tmp_path / "grow.ljt") as served:
        served.process.send_signal(signal.SIGUSR1)
        file = tmp_path / "grow.0001.pb.gz"
        for _ in range(SECONDS * 10):
            if file.exists():
                break
            time.sleep(0.1)
        assert heap(file.read_bytes()) == LAST
        served.process.terminate()
        _, err = served.process.communicate(timeout=SECONDS)
        assert "wrote" in err and "grow.0001.pb.gz" in err


# -- addresses --


@pytest.fixture
def served(trace: Callable[..., Path]) -> Iterator[Served]:
    with serving(trace(SCRIPT)) as found:
        yield found


def test_pages(served: Served) -> None:
    assert heap(served.ask("/debug/pprof/heap")[1]) == LAST
    defaults = {name: decoded(served.ask(f"/debug/pprof/{name}")[1]).default for name in ("heap", "allocs")}
    assert defaults == {"heap": "inuse_space", "allocs": "alloc_space"}
    assert served.ask("/debug/pprof/cmdline") == (200, b"app")
    for path in ("/", "/debug/pprof/", "/debug/pprof"):
        assert f"http://{served.host}:{served.port}/debug/pprof/heap".encode() in served.ask(path)[1]
    status, page = served.ask("/report")
    assert status == 200 and page.startswith(b"<!DOCTYPE html>") and b"inner" in page
    assert served.host == "127.0.0.1"


@pytest.mark.parametrize("method", ("POST", "PUT", "DELETE"))
def test_other_methods(method: str, served: Served) -> None:
    assert served.ask("/debug/pprof/heap", method)[0] == 405


@pytest.mark.parametrize(
    "path, status, message",
    [
        ("/etc/passwd", 404, "there is no such page"),
        ("/debug/pprof/heap/..", 404, "no such page"),
        ("/debug/pprof/heap?seconds=x", 400, "seconds=x"),
        ("/debug/pprof/heap?seconds=-1", 400, "seconds=-1"),
        ("/debug/pprof/heap?seconds=99999", 400, "from 0 to 3600"),
        ("/debug/pprof/heap?seconds=nan", 400, "seconds=nan"),
        ("/debug/pprof/profile?seconds=1", 404, "--sample-stacks"),
    ],
)
def test_bad_requests(path: str, status: int, message: str, served: Served) -> None:
    found, text = served.ask(path)
    assert found == status and message in text.decode()


@pytest.mark.parametrize(
    "host, status",
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_only_local_names(host: str, status: int, served: Served) -> None:
    assert served.ask("/", Host=host)[0] == status


def test_another_address(trace: Callable[..., Path]) -> None:
    """An address of IPv6 is in brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with serving(trace(SCRIPT), http="[::1]:0") as served:
        assert served.host == "::1" and served.heap() == LAST
        assert f"http://[::1]:{served.port}/debug/pprof/heap".encode() in served.ask("/")[1]


def test_a_port_in_use(served: Served, steve: Steve) -> None:
    done = steve("serve", "t.ljt", "--http", str(served.port))
    assert done.returncode == 1 and f"cannot serve on 127.0.0.1, port {served.port}" in done.err


def test_samples_of_stacks(trace: Callable[..., Path]) -> None:
    with serving(trace(SCRIPT.replace("info command app", "info sample_stacks 7"))) as served:
        assert decoded(served.ask("/debug/pprof/profile?seconds=0")[1]) == Decoded(
            ("instructions",), "instructions", {}
        )


def test_many_requests_at_once(growing: Growing, tmp_path: Path) -> None:
    answers: Counter = Counter()
    with serving(tmp_path / "grow.ljt") as served:

        def ask() -> None:
            for _ in range(10):
                answers[served.ask("/debug/pprof/heap")[0]] += 1

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for end in range(200, len(growing.whole) + 40, 40):
            growing.grow(end)
        for thread in threads:
            thread.join(SECONDS)
        assert answers == {200: 80} and served.heap() == LAST
