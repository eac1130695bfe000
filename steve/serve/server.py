"""An HTTP server with the pages of Go's net/http/pprof for the heap of a program that is being recorded, and the report.

Only GET and HEAD are served, and POST for the names of addresses. A server on a loopback address answers only requests
that name such an address, so that a web page cannot reach it by a host name that resolves to the loopback address (DNS
rebinding).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from steve.serve.connections import END, Connections, Workers
from steve.serve.heap import LiveHeap
from steve.system.errors import SteveError

PREFIX = "/debug/pprof/"
SYMBOL = PREFIX + "symbol"
TEXT = "text/plain; charset=utf-8"
QUICK, LONG, REPORTS = 4, 32, 1  # threads for requests of these kinds
WAITING = 8  # reports that are made or wait
LAST_SECONDS = 5.0  # for answers after the recording has ended
TOO_LARGE = b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n"
LONGEST = 3600  # seconds of one profile
USUAL_SECONDS = 30  # of a CPU profile, as in Go
INDEX = f"""\
{PREFIX}heap               blocks in use, for pprof; ?seconds=N: what changes in N seconds; ?debug=1: as text
{PREFIX}allocs             all blocks allocated so far; ?seconds=N: those of N seconds
{PREFIX}profile?seconds=N  samples of the stacks in N seconds (needs --sample-stacks)
{PREFIX}cmdline            the command
/report                          steve's report of the trace so far

go tool pprof -top http://%s{PREFIX}heap
"""


class BadRequest(Exception):
    """The request cannot be answered."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Server:
    """Serves one heap on an address and port; port 0 is any that is free."""

    def __init__(self, address: str, port: int, heap: LiveHeap, path: str) -> None:
        """path: of the trace."""
        self.heap, self.path = heap, path
        ip = ip_address(address)
        self.is_loopback = ip.is_loopback
        self._family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
        listener = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            self._host, self._port = listener.getsockname()[:2]
            self._quick, self._long, self._reports = Workers(QUICK), Workers(LONG, LONG), Workers(REPORTS, WAITING)
            self._connections = Connections(listener, self._respond, self._workers)
        except OSError as error:
            listener.close()
            raise SteveError(f"cannot serve on {address}, port {port}: {error.strerror}") from error

    @property
    def address(self) -> str:
        """The address and port, as in a URL."""
        host = f"[{self._host}]" if self._family == socket.AF_INET6 else self._host
        return f"{host}:{self._port}"

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._connections.start()

    def finish(self) -> None:
        """Serve no more, after the answers to requests that have arrived."""
        self._connections.finish(LAST_SECONDS)

    def _respond(self, request: bytes) -> bytes:
        if not END.search(request):
            return TOO_LARGE
        handler = Handler(self, request)
        handler.handle_one_request()
        return handler.wfile.getvalue()

    def _workers(self, request: bytes) -> Workers:
        """Those for a request: what may take long does not delay others."""
        line = request[: request.find(b"\n") + 1]
        if b"/report" in line:
            return self._reports
        return self._long if b"seconds=" in line or b"/profile" in line else self._quick


def seconds_of(query: dict[str, list[str]], usual: float) -> float:
    """The parameter `seconds`; usual: if it is missing."""
    text = query.get("seconds", [str(usual)])[0]
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= LONGEST:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"seconds={text}: a number from 0 to {LONGEST} is needed")
    return seconds


def is_text(query: dict[str, list[str]]) -> bool:
    """Does the parameter `debug` ask for text?"""
    level = query.get("debug", ["0"])[0]
    if not level.isdecimal():
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"debug={level}: 0 or 1 is needed")
    return int(level) > 0


def is_local(host: str) -> bool:
    """Does the header Host of a request name a loopback address?"""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


class Handler(BaseHTTPRequestHandler):
    """Answers one request, into memory."""

    server: Server  # type: ignore[assignment]
    server_version = "steve"
    rfile: BytesIO
    wfile: BytesIO

    def __init__(self, server: Server, request: bytes) -> None:  # pylint: disable=super-init-not-called
        self.server, self.client_address = server, ("", 0)  # type: ignore[assignment]
        self.rfile, self.wfile, self.close_connection = BytesIO(request), BytesIO(), True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        try:
            if self.server.is_loopback and not is_local(self.headers.get("Host", "")):
                raise BadRequest(HTTPStatus.FORBIDDEN, "the header Host does not name a loopback address")
            kind, data = self._answer(url.path, parse_qs(url.query))
        except BadRequest as bad:
            self.answer(bad.status, TEXT, f"{bad}\n".encode())
        except SteveError as error:
            self.answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{error}\n".encode())
        else:
            self.answer(HTTPStatus.OK, kind, data)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """pprof asks for the names of many addresses in this way."""
        if urlsplit(self.path).path == SYMBOL:
            self.do_GET()
        else:
            self.refuse()

    def refuse(self) -> None:
        self.answer(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"only GET and HEAD are served\n")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = refuse

    def answer(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        """Send an answer; that of HEAD is without its data."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Requests are not logged: the terminal is the program's."""

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[str, bytes]:
        """The type and the bytes of an answer."""
        if path in ("/", "/debug/pprof", PREFIX):
            return TEXT, (INDEX % self.server.address).encode()
        if path in (PREFIX + "heap", PREFIX + "allocs"):
            return self._heap("inuse_space" if path.endswith("heap") else "alloc_space", query)
        if path == SYMBOL:
            asked = self.rfile.read().decode("latin-1") if self.command == "POST" else urlsplit(self.path).query
            with self.server.heap.lock:
                return TEXT, self.server.heap.addresses.names(asked)
        if path == PREFIX + "profile":
            return "application/octet-stream", self._cpu(seconds_of(query, USUAL_SECONDS))
        if path == PREFIX + "cmdline":
            with self.server.heap.lock:
                return TEXT, self.server.heap.trace.info().get("command", "").encode()
        if path == "/report":
            return "text/html; charset=utf-8", self._report()
        raise BadRequest(HTTPStatus.NOT_FOUND, f"{path}: there is no such page; / lists all")

    def _heap(self, default: str, query: dict[str, list[str]]) -> tuple[str, bytes]:
        heap, seconds = self.server.heap, seconds_of(query, 0)
        as_text = is_text(query)
        if as_text and seconds:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "?seconds= is not possible with ?debug=1")
        heap.catch_up()
        if as_text:
            return TEXT, heap.heap_text(default)
        before = None
        if seconds:
            before = heap.sums()
            heap.complete.wait(seconds)
            heap.catch_up()
        return "application/octet-stream", heap.heap_profile(default, before)

    def _cpu(self, seconds: float) -> bytes:
        heap = self.server.heap
        heap.catch_up()
        with heap.lock:
            if heap.trace.info().get("sample_stacks", "0") == "0":
                raise BadRequest(
                    HTTPStatus.NOT_FOUND,
                    "the recording has no samples of stacks; record with "
                    "--sample-stacks=10ms, or under Valgrind with --sample-stacks=1000000",
                )
            before = heap.samples()
        heap.complete.wait(seconds)
        heap.catch_up()
        return heap.cpu_profile(before)

    def _report(self) -> bytes:
        """The page of `steve report`, made by a process of its own, which may take a while."""
        with tempfile.TemporaryDirectory(prefix="steve-") as folder:
            page = os.path.join(folder, "report.html")
            done = subprocess.run(
                [sys.executable, "-B", "-m", "steve", "report", "-q", "-o", page, "--", self.server.path],
                capture_output=True,
                text=True,
                check=False,
            )
            if not os.path.exists(page):
                raise SteveError(f"the report could not be made: {done.stderr.strip()}")
            with open(page, "rb") as file:
                return file.read()
