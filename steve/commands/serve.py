"""steve serve: profiles of a program's heap by HTTP, and dumps of it, while its trace is written or afterwards.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
import signal
import threading
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from steve.system.errors import UsageError
from steve.system.messages import complain, note
from steve.terminal import arguments
from steve.trace import policy

if TYPE_CHECKING:
    from steve.serve.dumps import Dumps
    from steve.serve.heap import LiveHeap
    from steve.serve.server import Server

NAME = "serve"
HELP = "serve profiles of a running program to pprof by HTTP, and dump its heap"
STEP = 0.5  # seconds from one look at a growing file to the next
FRESH = 1.0  # seconds after which the recorder has written what has happened
EXAMPLES = """The trace may still be written, by `ljtrace run`, `ljtrace attach` or under Valgrind. What the recorder has written is
read every half second; the recorder writes once a second. `ljtrace run` and `ljtrace attach` have options of the same
names, which start this command.

Addresses, for GET and HEAD:
  /debug/pprof/heap      blocks in use, with all allocated ones, as Go's programs serve them; ?seconds=N: what
                         changes in N seconds; ?debug=1: as text
  /debug/pprof/allocs    the same, all allocated blocks first
  /debug/pprof/profile   samples of the stacks in ?seconds=N (default: 30), if the recording has them
  /debug/pprof/cmdline   the command of the program
  /report                steve's report of the trace so far

A dump is a file for pprof, NAME.0001.pb.gz and so on. The signal SIGUSR1 requests one, too.

examples:
  steve serve app.ljt --http 6060 &
  go tool pprof -top http://127.0.0.1:6060/debug/pprof/heap
  steve serve app.ljt --dump-every 1g --until-end
"""


class Address(NamedTuple):
    """Where to serve."""

    host: str
    port: int


def address(text: str) -> Address:
    """argparse type: PORT, or ADDRESS:PORT; an IPv6 address is in brackets."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        ip_address(host)
        if not 0 <= int(port) <= 65535:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither a port nor ADDRESS:PORT, such as 6060") from None
    return Address(host, int(port))


def size(text: str) -> int:
    """argparse type: a number of bytes, with a suffix k, m or g."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    unit = units.get(text[-1:].lower(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or not 0 < int(digits) * unit < 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of bytes, such as 512k, 100m or 2g")
    return int(digits) * unit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.reads(
        parser.add_argument("file", metavar="FILE", help="memtrace, not compressed once more"), arguments.TRACE
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=address,
        help="serve on 127.0.0.1:PORT, or on ADDRESS:PORT; port 0 is any free one",
    )
    parser.add_argument("--dump-every", metavar="SIZE", type=size, help="dump after each SIZE bytes allocated")
    parser.add_argument(
        "--dump-high-water",
        metavar="SIZE",
        type=size,
        help="dump when SIZE bytes more are in use than at the previous such dump",
    )
    parser.add_argument(
        "--dump-to", metavar="NAME", help="begin the names of dumps with NAME (default: FILE without .ljt)"
    )
    parser.add_argument("--until-end", action="store_true", help="exit when the recording has ended")
    parser.add_argument(
        "--notify-fd",
        metavar="N",
        type=int,
        help="write a line to file descriptor N when requests are served (for programs)",
    )
    policy.add_arguments(parser)
    arguments.add_quiet(parser)


class Requests:
    """Dumps that signals request."""

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.wanted = 0
        signal.signal(signal.SIGUSR1, self._request)

    def _request(self, number: int, frame: object) -> None:
        self.wanted += 1
        self.wake.set()

    def wait(self) -> bool:
        """Wait until it is time to look at the file again. Returns true if a dump was requested; what had happened by
        then is in the file now."""
        self.wake.wait(STEP)
        self.wake.clear()
        if not self.wanted:
            return False
        self.wanted = 0
        self.wake.wait(FRESH)
        return True


def start_server(args: argparse.Namespace, heap: LiveHeap) -> Server | None:
    """Serve the heap, if --http was given."""
    from steve.serve.server import Server

    if args.http is None:
        return None
    server = Server(*args.http, heap, args.file)
    server.start()
    note(NAME, f"serving http://{server.address}/debug/pprof/", args.quiet)
    return server


def notify(args: argparse.Namespace, server: Server | None) -> None:
    """Write the address of the server to the descriptor that --notify-fd names."""
    if args.notify_fd is None:
        return
    try:
        os.write(args.notify_fd, f"{server.address if server else ''}\n".encode())
        os.close(args.notify_fd)
    except OSError as error:
        raise UsageError(f"--notify-fd {args.notify_fd}: {error.strerror}") from error


def follow(heap: LiveHeap, dumps: Dumps, requests: Requests, args: argparse.Namespace) -> None:
    """Read the trace as it grows, until it is complete and nothing else is to be done."""
    heap.catch_up()
    while not (heap.complete.is_set() and args.until_end):
        requested = requests.wait()
        heap.catch_up()
        if requested:
            with heap.lock:
                note(NAME, f"wrote {dumps.write(heap)}", args.quiet)
        if heap.complete.is_set() and args.http is None:
            return


def run(args: argparse.Namespace) -> int:
    from steve.serve.dumps import Dumps
    from steve.serve.heap import LiveHeap

    if args.http is None and not (args.dump_every or args.dump_high_water or args.dump_to):
        raise UsageError("nothing to do: give --http=PORT, or --dump-every, --dump-high-water or --dump-to for dumps")
    requests = Requests()
    dumps = Dumps(args.dump_to or args.file.removesuffix(".ljt"), args.dump_every, args.dump_high_water)
    heap = LiveHeap(args.file, policy.of_arguments(args), dumps.next, dumps.due)
    server = start_server(args, heap)
    notify(args, server)
    try:
        follow(heap, dumps, requests, args)
        if server is not None:
            server.finish()
    finally:
        if dumps.written:
            note(NAME, f"{dumps.written:,} dumps: {dumps.name}.0001.pb.gz to {dumps.written:04}", args.quiet)
    if heap.trace.problem is not None:
        complain(NAME, heap.trace.problem)
    return 0 if heap.trace.problem is None else 1
