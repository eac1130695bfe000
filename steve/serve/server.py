"""An HTTP server with the pages of Go's net/http/pprof for the heap of a program that is being recorded, and the report.

Only GET is served. A server on a loopback address answers only requests that name such an address, so that a web page
cannot reach it by a host name that resolves to the loopback address (DNS rebinding).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from urllib.parse import parse_qs, urlsplit

from steve.serve.heap import LiveHeap
from steve.system.errors import SteveError

PREFIX = "/debug/pprof/"
LONGEST = 3600  # seconds of one profile
USUAL_SECONDS = 30  # of a CPU profile, as in Go
INDEX = f"""\
{PREFIX}heap               blocks in use, for pprof; ?seconds=N: what changes in N seconds
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


class Server(ThreadingHTTPServer):
    """Serves one heap on an address and port; port 0 is any that is free."""

    daemon_threads = True

    def __init__(self, address: str, port: int, heap: LiveHeap, path: str) -> None:
        """path: of the trace."""
        self.heap, self.path = heap, path
        ip = ip_address(address)
        self.is_loopback = ip.is_loopback
        self.address_family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
        try:
            super().__init__((address, port), Handler)
        except OSError as error:
            raise SteveError(f"cannot serve on {address}, port {port}: {error.strerror}") from error

    def server_bind(self) -> None:
        """Without the name lookup of HTTPServer."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def address(self) -> str:
        """The address and port, as in a URL."""
        host = f"[{self.server_name}]" if self.address_family == socket.AF_INET6 else self.server_name
        return f"{host}:{self.server_port}"

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True).start()


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


def is_local(host: str) -> bool:
    """Does the header Host of a request name a loopback address?"""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version = "steve"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        try:
            if self.server.is_loopback and not is_local(self.headers.get("Host", "")):
                raise BadRequest(HTTPStatus.FORBIDDEN, "the header Host does not name a loopback address")
            kind, data = self._answer(url.path, parse_qs(url.query))
        except BadRequest as bad:
            self.answer(bad.status, "text/plain; charset=utf-8", f"{bad}\n".encode())
        except SteveError as error:
            self.answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", f"{error}\n".encode())
        else:
            self.answer(HTTPStatus.OK, kind, data)

    def refuse(self) -> None:
        self.answer(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", b"only GET is served\n")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = refuse

    def answer(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        """Send an answer. The client may be gone."""
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Content-Type-Options", "nosniff")
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Requests are not logged: the terminal is the program's."""

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[str, bytes]:
        """The type and the bytes of an answer."""
        if path in ("/", "/debug/pprof", PREFIX):
            return "text/plain; charset=utf-8", (INDEX % self.server.address).encode()
        if path in (PREFIX + "heap", PREFIX + "allocs"):
            default = "inuse_space" if path.endswith("heap") else "alloc_space"
            return "application/octet-stream", self._heap(default, seconds_of(query, 0))
        if path == PREFIX + "profile":
            return "application/octet-stream", self._cpu(seconds_of(query, USUAL_SECONDS))
        if path == PREFIX + "cmdline":
            with self.server.heap.lock:
                return "text/plain; charset=utf-8", self.server.heap.trace.info().get("command", "").encode()
        if path == "/report":
            return "text/html; charset=utf-8", self._report()
        raise BadRequest(HTTPStatus.NOT_FOUND, f"{path}: there is no such page; / lists all")

    def _heap(self, default: str, seconds: float) -> bytes:
        heap = self.server.heap
        heap.catch_up()
        before = None
        if seconds:
            before = heap.sums()
            heap.complete.wait(seconds)
            heap.catch_up()
        return heap.heap_profile(default, before)

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
