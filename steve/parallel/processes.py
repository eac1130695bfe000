"""Workers that read the parts of a trace in parallel: processes (-j) or a Dask cluster (--scheduler).

A trace can be read from each of its seek points. A task is a function of a module and its arguments, so that it can be
sent to another process. The results come in the order of the tasks, and only a limited number of tasks is submitted
ahead. steve.parallel.rounds defines the tasks and merges their results.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import collections
import os
import re
import signal
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from steve.system.errors import SteveError
from steve.system.interrupts import ENDING_SIGNALS, blocked

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from steve.trace._memtrace import Trace

PARTS_EACH = 4  # parts for each worker, so that no worker waits long for another at the end
ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
CLUSTER_PATIENCE = 10.0  # seconds between two checks whether a cluster still has workers
PR_SET_PDEATHSIG = 1  # of prctl(2): requests a signal when the parent ends


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-j N, --scheduler ADDRESS."""
    parser.add_argument(
        "-j",
        "--jobs",
        metavar="N",
        type=jobs,
        default=1,
        help="work on N parts of the trace at a time; 0: as many as there are processors",
    )
    parser.add_argument(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        type=address,
        help="let the workers of this Dask cluster do it; they must see FILE at the same path "
        "and have steve installed",
    )


def jobs(text: str) -> int:
    """The argument of -j."""
    if not text.isdecimal() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1024")
    return int(text) or len(os.sched_getaffinity(0))


def address(text: str) -> str:
    """The argument of --scheduler. It is checked here, because Dask's client does not end cleanly after a bad one."""
    match = ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is no address of a scheduler like tcp://127.0.0.1:8786")
    return text


class WorkerKilled(SteveError):
    """A worker did not finish its task."""


class Part(NamedTuple):
    """The seek points from first to end (without it). bytes: the file offset of its end, for progress."""

    first: int
    end: int
    bytes: int


def split(trace: "Trace", n: int, sound: Optional[int] = None, first: int = 0, end: Optional[int] = None) -> List[Part]:
    """Divide the trace from seek point `first` to seek point `end` (None: its end) into at most n parts of about the
    same number of bytes. sound: parts begin only at the first `sound` points."""
    offsets = [*(point[2] for point in trace.seek_points()), trace.progress()[1]]
    end = len(offsets) - 1 if end is None else end
    begins = range(first, end if sound is None else max(min(end, sound), first + 1))
    wanted = [offsets[first] + (offsets[end] - offsets[first]) * i // n for i in range(1, n)]
    firsts = sorted({first, *(min(begins, key=lambda k: abs(offsets[k] - at)) for at in wanted)})
    return [Part(begin, stop, offsets[stop]) for begin, stop in zip(firsts, [*firsts[1:], end])]


class Pool:
    """Workers. `with Pool(args) as pool: for result in pool.run(function, tasks)`. n: the number of workers."""

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
            child.join()  # after this, nothing more is written
        if manager:
            manager.join()  # else it may close a pipe to which Python writes when it ends

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
            raise WorkerKilled("a worker process was killed, perhaps for want of memory; take a smaller -j") from None
        finally:
            for future in waiting:
                future.cancel()


def fork_workers(n: int) -> "ProcessPoolExecutor":
    """n processes, all started. Signals are blocked meanwhile, so that every process that was started is known.

    The modules are imported here, because they take a sixth of the time to start a command, and most commands do not
    need them."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import numpy  # noqa: F401 (all workers need it, and share it if it is loaded before they are forked)

    workers = ProcessPoolExecutor(n, multiprocessing.get_context("fork"), begin_worker, (os.getpid(),))
    with blocked():
        workers.submit(os.getpid)
    return workers


def begin_worker(parent: int) -> None:
    """Initialise a worker, in which signals are still blocked. Signals end it at once, except an interrupt, which the
    parent handles. The worker ends when the parent does."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def connect(address: str) -> Tuple[Any, int]:
    """A client of a Dask cluster, and the number of tasks that it runs at a time. Dask's setting
    distributed.comm.timeouts.connect is the time that it waits for the scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise SteveError("--scheduler needs the package python3-distributed") from None
    import logging

    logging.disable()  # errors are reported here, in one line
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
    """The result of a task on a cluster. SteveError if it killed more workers than Dask allows, if no workers are left
    (Dask would wait forever), or if the scheduler does not come back (see connect)."""
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
        raise WorkerKilled(f"{address}: workers of the cluster were killed, perhaps for want of memory") from None
    except (OSError, CancelledError) as error:
        if future.status == "error":
            raise
        raise SteveError(f"{address}: the scheduler of the cluster is gone: {error}") from None
