"""Parts of one trace, worked on side by side: by processes here (-j) or by a Dask cluster (--scheduler).

A trace can be read from several points on (steve.trace._memtrace.Trace.points); a task is a function of a module,
called with a path, a first and an end point and whatever else it needs, so that it can be sent elsewhere.
Results come in the order of the parts, and only a few are waited for at a time. What tasks do and how their
results are joined is told in steve.parallel.rounds; here is only who does the work.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import collections
import ctypes
import logging
import os
import re
import signal
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from steve.system.errors import SteveError
from steve.system.interrupts import ENDING_SIGNALS, blocked

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from steve.trace._memtrace import Trace

PARTS_EACH = 4  # parts for each worker, so that none waits long for the last
ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
CLUSTER_PATIENCE = 10.0  # seconds after which to look whether a cluster still has workers
PR_SET_PDEATHSIG = 1  # of prctl(2): a signal for when the parent has ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-j N, --scheduler ADDRESS."""
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, default=1,
                        help="work on N parts of the trace at a time; 0: as many as there are processors")
    parser.add_argument("--scheduler", metavar="tcp://HOST:PORT", type=address,
                        help="let the workers of this Dask cluster do it; they must see FILE at the same path "
                        "and have steve installed")


def jobs(text: str) -> int:
    """The argument of -j."""
    if not text.isdecimal() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1024")
    return int(text) or len(os.sched_getaffinity(0))


def address(text: str) -> str:
    """The argument of --scheduler. Dask's client leaves threads and messages behind where it is none."""
    match = ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is no address of a scheduler like tcp://127.0.0.1:8786")
    return text


class Part(NamedTuple):
    """Points of a trace: first to end; bytes: of the file up to its end, for progress."""
    first: int
    end: int
    bytes: int


def split(trace: "Trace", n: int, sound: Optional[int] = None, first: int = 0,
          end: Optional[int] = None) -> List[Part]:
    """At most n parts of about the same number of bytes; together they are the trace from point `first` up to point
    `end` (None: its end). sound: they begin at the first so many points only."""
    offsets = [*(point[2] for point in trace.seek_points()), trace.progress()[1]]
    end = len(offsets) - 1 if end is None else end
    begins = range(first, end if sound is None else max(min(end, sound), first + 1))
    wanted = [offsets[first] + (offsets[end] - offsets[first]) * i // n for i in range(1, n)]
    firsts = sorted({first, *(min(begins, key=lambda k: abs(offsets[k] - at)) for at in wanted)})
    return [Part(begin, stop, offsets[stop]) for begin, stop in zip(firsts, [*firsts[1:], end])]


class Pool:
    """Workers. `with Pool(args) as pool: for result in pool.run(function, tasks)`; n: how many there are."""

    n: int

    def __init__(self, args: argparse.Namespace) -> None:
        self._address, self.n = args.scheduler, args.jobs
        self.remote = self._address is not None
        self._workers: Any = None

    def __enter__(self) -> "Pool":
        if self.remote:
            self._workers, self.n = connect(self._address)
        else:
            self._workers = fork_workers(self.n)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.remote:
            self._workers.close()
            return
        children = list((self._workers._processes or {}).values()) if kind is not None else []
        manager = self._workers._executor_manager_thread
        self._workers.shutdown(wait=not children, cancel_futures=True)
        for child in children:
            child.terminate()
        for child in children:
            child.join()  # then nothing is written any more
        if manager:
            manager.join()  # or it closes a pipe while Python, as it ends, writes to it

    def _submit(self, function: Callable[..., Any], task: Tuple[Any, ...]) -> Any:
        if self.remote:
            return self._workers.submit(function, *task, pure=False)
        return self._workers.submit(function, *task)

    def _result(self, future: Any) -> Any:
        if self.remote:
            return cluster_result(self._workers, self._address, future)
        return future.result()

    def run(self, function: Callable[..., Any], tasks: Iterable[Tuple[Any, ...]]) -> Iterator[Any]:
        """The results of function(*task) for each task, in their order."""
        from concurrent.futures.process import BrokenProcessPool
        waiting: "collections.deque[Any]" = collections.deque()
        try:
            for task in tasks:
                waiting.append(self._submit(function, task))
                if len(waiting) > 2 * self.n:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        except BrokenProcessPool:
            raise SteveError("a worker process was killed, perhaps for want of memory; "
                             "take a smaller -j") from None
        finally:
            for future in waiting:
                future.cancel()


def fork_workers(n: int) -> "ProcessPoolExecutor":
    """n processes, all begun; no signal comes between the beginning of one and its being known.

    What they need is loaded here, for it is a sixth of the start of the many commands that do without."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    workers = ProcessPoolExecutor(n, multiprocessing.get_context("fork"), begin_worker, (os.getpid(),))
    with blocked():
        workers.submit(os.getpid)
    return workers


def begin_worker(parent: int) -> None:
    """In a worker, where signals still wait: they end it at once, but for the interrupt, which is the
    parent's to pass on; and it does not outlive the parent, whatever ends that."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def connect(address: str) -> Tuple[Any, int]:
    """A client of a Dask cluster and how many tasks it works on at a time. How long it waits for the
    scheduler is Dask's setting distributed.comm.timeouts.connect."""
    try:
        from distributed import Client
    except ImportError:
        raise SteveError("--scheduler needs the package python3-distributed") from None
    logging.disable()  # of what goes wrong we tell ourselves, in a line
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SteveError(f"{address}: no Dask scheduler answers: {error}") from None
    threads = sum(client.nthreads().values())
    if threads == 0:
        client.close()
        raise SteveError(f"{address}: the scheduler has no workers; start `dask-worker {address}`")
    return client, threads


def cluster_result(client: Any, address: str, future: Any) -> Any:
    """What a task of a cluster gives. SteveError if more workers were killed at it than Dask allows, if none are left,
    for which Dask would wait for ever, and if the scheduler does not come back (see connect)."""
    from asyncio import CancelledError
    from distributed.scheduler import KilledWorker
    alone = False
    try:
        while True:
            try:
                return future.result(timeout=CLUSTER_PATIENCE)
            except TimeoutError:
                was_alone, alone = alone, not client.nthreads()
            if was_alone and alone:
                raise SteveError(f"{address}: all workers of the cluster are gone")
    except KilledWorker:
        raise SteveError(f"{address}: workers of the cluster were killed, perhaps for want of memory") from None
    except (OSError, CancelledError) as error:
        if future.status == "error":
            raise
        raise SteveError(f"{address}: the scheduler of the cluster is gone: {error}") from None
