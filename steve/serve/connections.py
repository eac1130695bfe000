"""The connections of an HTTP server: one thread reads requests and writes answers, some others compute them.

Clients may be slow, or send nothing. So a request is given to a worker when all of it has arrived, and an answer is written
as fast as its client reads; what takes too long is closed. There are limits on connections and threads, and so on memory.
More clients wait in the kernel's queue. A connection has one request (HTTP/1.0).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import queue
import re
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum

BACKLOG = 4096  # connections that wait to be accepted; the kernel may permit fewer (net.core.somaxconn)
MOST = 256  # connections at the same time
LARGEST_HEAD = 16 << 10  # bytes of a request without its body
LARGEST_BODY = 512 << 10  # bytes; what follows them is ignored
CHUNK = 64 << 10
LOOK = 0.25  # seconds between two looks for connections that take too long
PATIENCE = 1.0  # seconds; an unfinished request that is older makes room if there are too many connections
PATIENCE_WRITING = 10.0  # an answer that is not read
MOST_IGNORED = 1 << 20  # bytes of a body that are read and ignored
FAILED = b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
BUSY = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 10\r\n\r\n"
    b"too many requests that take long\n"
)
LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
END = re.compile(rb"\r?\n\r?\n")


def is_whole(request: bytes | bytearray) -> bool:
    """Has a request arrived, with its body, or as much of both as is read?"""
    end = END.search(request)
    if end is None:
        return len(request) > LARGEST_HEAD
    length = LENGTH.search(request, 0, end.start() + 1)
    return length is None or len(request) - end.end() >= min(int(length[1]), LARGEST_BODY)


class State(Enum):
    """What a connection does. The value is the number of seconds that it may take."""

    READING = 10.0
    WAITING = float("inf")  # a worker computes the answer
    WRITING = 120.0
    ENDING = (
        2.0  # the client gets time to read; bytes that come are ignored, since closing now would discard the answer
    )


class Connection:
    """One client."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.state = State.READING
        self.since = time.monotonic()
        self.request = bytearray()
        self.answer = memoryview(b"")
        self.ignored = 0

    def enter(self, state: State) -> None:
        self.state, self.since = state, time.monotonic()

    def is_overdue(self, now: float) -> bool:
        return now - self.since > self.state.value

    def is_slow(self, now: float) -> bool:
        """May it be closed if others need the room?"""
        patience = PATIENCE_WRITING if self.state is State.WRITING else PATIENCE
        return self.state is not State.WAITING and now - self.since > patience


class Workers:
    """At most `most` threads, started when they are needed. They do not keep the process alive. limit: the most jobs at the
    same time, with those that wait for a thread."""

    def __init__(self, most: int, limit: int = MOST) -> None:
        self.most, self.limit, self.threads, self.pending = most, limit, 0, 0
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.lock = threading.Lock()

    def do(self, job: Callable[[], None]) -> bool:
        """Have a thread do a job. Returns false if there are too many."""
        with self.lock:
            if self.pending >= self.limit:
                return False
            self.pending += 1
            starts = self.threads < min(self.most, self.pending)
            self.threads += starts
        self.jobs.put(job)
        if starts:
            threading.Thread(target=self._work, daemon=True).start()
        return True

    def _work(self) -> None:
        while True:
            self.jobs.get()()
            with self.lock:
                self.pending -= 1


def most_connections() -> int:
    """How many connections there may be: half of the descriptors are for others."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if limit == resource.RLIM_INFINITY else max(1, min(MOST, limit // 2))


class Connections:
    """Serves the clients of a listening socket.

    respond: makes the bytes of an answer from those of a request; it is called by a worker. workers: chooses those for a
    request."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Callable[[bytes], bytes],
        workers: Callable[[bytes], Workers],
    ) -> None:
        self.listener, self.respond, self.workers = listener, respond, workers
        self.most = most_connections()
        self.open: set[Connection] = set()
        self.done: queue.SimpleQueue[tuple[Connection, bytes]] = queue.SimpleQueue()
        self.closing = threading.Event()
        self.idle = threading.Event()  # closing, and all requests that had arrived are answered
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._accepting = False
        listener.setblocking(False)
        listener.listen(BACKLOG)

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self._serve, daemon=True).start()

    def finish(self, seconds: float) -> None:
        """Accept no more clients, and wait until those that wait for an answer have it, or the time is over."""
        self.closing.set()
        self._notify()
        self.idle.wait(seconds)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _notify(self) -> None:
        try:
            os.write(self._waker, b"x")
        except BlockingIOError:
            pass  # it is awake

    def _serve(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, self._take_answers)
        while not self.idle.is_set():
            self._accept_if(len(self.open) < self.most and not self.closing.is_set())
            for key, _ in self._selector.select(LOOK):
                if isinstance(key.data, Connection):
                    self._go_on(key.data)
                else:
                    key.data()
            self._close_overdue()
            if self.closing.is_set() and not any(c.state in (State.WAITING, State.WRITING) for c in self.open):
                self.idle.set()

    def _accept_if(self, wanted: bool) -> None:
        if wanted and not self._accepting:
            self._selector.register(self.listener, selectors.EVENT_READ, self._accept)
        elif self._accepting and not wanted:
            self._selector.unregister(self.listener)
        self._accepting = wanted

    def _accept(self) -> None:
        while len(self.open) < self.most:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # there is none, it is gone, or no descriptor is left
            client.setblocking(False)
            connection = Connection(client)
            self.open.add(connection)
            self._selector.register(client, selectors.EVENT_READ, connection)

    def _close(self, connection: Connection) -> None:
        if connection.state is not State.WAITING:
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self.open.discard(connection)

    def _close_overdue(self) -> None:
        """Close what takes too long. If there is no room for new clients, the oldest request that is not complete has had
        its time."""
        now = time.monotonic()
        for connection in [c for c in self.open if c.is_overdue(now)]:
            self._close(connection)
        if len(self.open) >= self.most:
            slow = [c for c in self.open if c.is_slow(now)]
            for connection in sorted(slow, key=lambda c: c.since)[: self.most // 4 + 1]:
                self._close(connection)

    def _go_on(self, connection: Connection) -> None:
        """Read or write what is possible now."""
        try:
            {State.READING: self._read, State.WRITING: self._write, State.ENDING: self._ignore}[connection.state](
                connection
            )
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)  # the client is gone

    def _read(self, connection: Connection) -> None:
        data = connection.socket.recv(CHUNK)
        connection.request += data
        if is_whole(connection.request):
            self._selector.unregister(connection.socket)
            connection.enter(State.WAITING)
            self._compute(connection, bytes(connection.request))
        elif not data:
            self._close(connection)

    def _compute(self, connection: Connection, request: bytes) -> None:
        def job() -> None:
            try:
                answer = self.respond(request)
            except Exception as error:  # pylint: disable=broad-except  # the server goes on
                answer = FAILED + f"{type(error).__name__}: {error}\n".encode("utf-8", "replace")
            self.done.put((connection, answer))
            self._notify()

        if not self.workers(request).do(job):
            self.done.put((connection, BUSY))
            self._notify()

    def _take_answers(self) -> None:
        try:
            os.read(self._wake, CHUNK)
        except BlockingIOError:
            pass
        while not self.done.empty():
            connection, answer = self.done.get()
            connection.answer = memoryview(answer)
            connection.request.clear()
            connection.enter(State.WRITING)
            self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)

    def _write(self, connection: Connection) -> None:
        while connection.answer:
            sent = connection.socket.send(connection.answer[:CHUNK])
            connection.answer = connection.answer[sent:]
        connection.socket.shutdown(socket.SHUT_WR)
        connection.enter(State.ENDING)
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _ignore(self, connection: Connection) -> None:
        data = connection.socket.recv(CHUNK)
        connection.ignored += len(data)
        if not data or connection.ignored > MOST_IGNORED:
            self._close(connection)
