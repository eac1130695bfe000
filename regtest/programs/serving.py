"""serving - run a server of `servers.py` alone, under both recorders and attached to, and say what is wrong.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Sequence

from recorded import RECORDERS, accused, separated, shown, totals, unsaid, unsound
from servers import Server
from support import SECONDS, Done, collectors_of, good, run, started, steve, wait_for

MODES = ("alone", *RECORDERS, "attach")
# the words that begin the command of a recorder; natively, pages are looked at, too
COMMANDS = {**RECORDERS, "R": (*RECORDERS["R"], "--pages")}


@dataclass
class Service:
    """A run of a server: what its clients have seen, how it ended, what was recorded."""

    answers: list[Done] = field(default_factory=list)
    done: Done | None = None
    said: str = ""
    traces: list[Path] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def as_user(server: Server) -> list[str]:
    """The words before a command that must not run as root."""
    if not server.user or os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={server.user}", f"--regid={server.user}", "--clear-groups"]


class Place:
    """A server's folder. Its path is short, because paths of sockets are."""

    def __init__(self, server: Server, prepared: Path, here: Path) -> None:
        self.server, self.here, self.port = server, here, free_port()
        shutil.copytree(prepared, here, symlinks=True)
        for name in server.files:
            path = here / name
            path.write_text(path.read_text().replace("{here}", str(here)).replace("{port}", str(self.port)))
        own(server, here)

    def words(self, argv: Sequence[str]) -> list[str]:
        filled = [word.replace("{here}", str(self.here)).replace("{port}", str(self.port)) for word in argv]
        return [*as_user(self.server), *filled]

    def client(self, argv: Sequence[str]) -> Done:
        return run(self.words(argv), env=self.server.env, cwd=self.here)


def own(server: Server, folder: Path) -> None:
    if as_user(server):
        good(["chown", "-R", f"{server.user}:", folder])


def prepare(server: Server, folder: Path) -> Path:
    folder.mkdir()
    own(server, folder)
    for name, text in server.files.items():
        (folder / name).write_text(text)
    for line in server.build:
        good([*as_user(server), *line], cwd=folder)
    return folder


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def attached(server: Server, process: subprocess.Popen[bytes], path: Path, service: Service) -> Iterator[None]:
    """Record the server, or its worker, while the block runs."""
    pid = process.pid
    if server.workers:
        wait_for(lambda: children_of(process.pid), "there is a worker")
        (pid,) = children_of(process.pid)
    pipes = {"stderr": subprocess.PIPE}
    with started(["ljtrace", "attach", "--pages", f"--out={path}", pid], **pipes) as recorder:
        wait_for(lambda: (path.exists() and path.stat().st_size > 400) or recorder.poll() is not None, "it records")
        yield
        ended = run(["ljtrace", "detach", pid])
        _, err = recorder.communicate(timeout=SECONDS)
        service.said += err.decode(errors="replace")
        if ended.status or recorder.returncode:
            service.wrong.append(f"attach: status {recorder.returncode}, {service.said!r}; detach: {ended.complaint!r}")


def use(server: Server, place: Place, service: Service) -> None:
    service.answers += [place.client(argv) for argv in server.clients]


def stop(server: Server, place: Place, process: subprocess.Popen[bytes]) -> None:
    if isinstance(server.stop, int):
        process.send_signal(server.stop)
    else:
        place.client(server.stop)


def serve(server: Server, prepared: Path, mode: str) -> Service:
    """Start it, use it, stop it. An attached recorder is there during the first of two uses."""
    service, path = Service(), prepared.parent / f"{mode}.ljt"
    with tempfile.TemporaryDirectory(prefix="lj-", dir="/tmp") as short:
        os.chmod(short, 0o777)
        place = Place(server, prepared, Path(short) / "s")
        argv = [*as_user(server), *(word.format(path) for word in COMMANDS.get(mode, ()))]
        argv += place.words(server.argv)[len(as_user(server)) :]
        out, err = prepared.parent / f"{mode}.out", prepared.parent / f"{mode}.err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            with started(
                argv, env={**server.env, "TMPDIR": short}, cwd=place.here, stdout=to_out, stderr=to_err
            ) as process:
                wait_for(lambda: place.client(server.ready).status == 0 or process.poll() is not None, "it answers")
                if mode == "attach":
                    with attached(server, process, path, service):
                        use(server, place, service)
                    service.answers = []
                use(server, place, service)
                stop(server, place, process)
                status = process.wait(SECONDS)
        wait_for(lambda: not collectors_of(path), "the traces are complete")
    of_program, said = separated(err.read_bytes(), mode)
    service.done, service.said = Done(status, out.read_bytes(), of_program), service.said + said
    service.traces = [path] if path.exists() else []
    service.traces += sorted(path.parent.glob(f"{mode}.*.ljt"))
    return service


def answers_differ(alone: Service, other: Service) -> Iterator[str]:
    """What the recorder has changed of what clients see."""
    for before, after in zip(alone.answers, other.answers, strict=True):
        if (before.status, before.out, before.err) != (after.status, after.out, after.err):
            now, once = (f"{each.status} {shown(each.out + each.err)}" for each in (after, before))
            yield f"a client: {now}, alone {once}"
    assert alone.done and other.done
    if alone.done.status != other.done.status:
        yield f"status {other.done.status}, alone {alone.done.status}: {shown(other.done.err[-300:])}"


def amiss(server: Server, mode: str, service: Service) -> Iterator[str]:
    """What is wrong with the traces."""
    if not service.traces:
        yield f"no trace: {service.said!r}"
        return
    for path in service.traces:
        yield from unsound(path)
    yield from unsaid(server, mode, service.said, service.traces[0])
    news, least = (
        sum(totals(path)["new"] for path in service.traces),
        server.least_attached if mode == "attach" else server.least,
    )
    if news < least:
        yield f"{news} allocations, at least {least} are right"
    for path in service.traces:
        yield from accused(path)
        if mode != "V":
            yield from unowned(path, path == service.traces[0])


def unowned(path: Path, is_first: bool) -> Iterator[str]:
    """What is wrong with the owners of resident pages: they add up to what the kernel says of the process, within 1%. A
    child may have ended before it was looked at; what was mapped before an attach has no owner."""
    for at in ("peak", "end"):
        found = json.loads(steve("resident", "--json", "--at", at, path).text)
        if found["rss"] is None:
            yield from [f"{path.name}: {found['why']}"] if is_first else []
            return
        kinds = {row["kind"]: row["bytes"] for row in found["rows"]}
        low, high = sorted((found["before"], found["after"]))
        if sum(kinds.values()) != found["rss"] or not 0.99 * low <= found["rss"] <= 1.01 * high:
            yield f"{path.name}, {at}: {kinds} are not {found['rss']}, and before and after {low}, {high}"
        if "attach" not in path.name and kinds.get("other", 0) > 0.05 * found["rss"]:
            yield f"{path.name}, {at}: pages of unknown owner: {kinds}"


def wrongs(server: Server, folder: Path) -> list[str]:
    """All that is wrong with the recordings of a server; none is right."""
    os.chmod(folder, 0o777)
    prepared = prepare(server, folder / "P")
    alone = serve(server, prepared, "alone")
    assert alone.done
    found = (
        [] if alone.done.status == server.status else [f"alone: status {alone.done.status}: {shown(alone.done.err)}"]
    )
    found += [f"alone: a client failed: {shown(a.out + a.err)}" for a in alone.answers if a.status]
    for mode in MODES[1:]:
        if mode not in server.without:
            service = serve(server, prepared, mode)
            found += [
                f"{mode}: {text}"
                for text in (*service.wrong, *answers_differ(alone, service), *amiss(server, mode, service))
            ]
    return found
