"""Runs for a journal, and a process of its own that holds one and does what it is told.

As a program (``python -m support.journals JOURNAL``) it reads one command a line, as a JSON list, and
answers each with one line of JSON: what came of it, or the kind and words of the error.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from brida.core.events import Event, Said, Started, Stopped, Waited
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.errors import BridaError, RunBusy
from brida.journal.lease import Leases, Taken
from brida.journal.sqlite import SqliteJournal
from brida.journal.writer import SqliteWriter
from support.process import environment

COMPLETED = Stop("completed")
WAITING = Stop("waiting")


def beginning(run_id: str = "run-1", at: float = 1.0, text: str = "count the stars") -> list[Event]:
    """The first two events of a run."""
    started = Started(at=at, run_id=run_id, model="m", max_tokens=10, max_tokens_ceiling=20)
    return [started, Said(at, text)]


def waits(count: int, first: int = 0) -> list[Event]:
    """So many events that can be told apart."""
    return [Waited(2.0, float(number)) for number in range(first, first + count)]


STATE: State = fold(beginning())


def begun(journal: SqliteJournal, run_id: str = "run-1", **more: Any) -> SqliteWriter:
    """A run with its first two events, held."""
    writer = journal.begin(run_id)
    writer.append(beginning(run_id, **more), STATE)
    return writer


def over(journal: SqliteJournal, run_id: str, at: float = 1.0, stop: Stop = COMPLETED) -> None:
    """A run that has stopped and that nobody holds."""
    writer = begun(journal, run_id, at=at)
    writer.append([Stopped(at, stop)], STATE)
    writer.release()


def events_of(journal: SqliteJournal, run_id: str = "run-1") -> list[Event]:
    """The events of a run."""
    return [record.event for record in journal.read(run_id)]


class Child:
    """The program below, in a process of its own."""

    def __init__(self, path: Path | str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.journals", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def tell(self, *command: object) -> None:
        """Tells it what to do, and does not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What came of the oldest command that it was told."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, *command: object) -> Any:
        """Tells it what to do; what came of it."""
        self.tell(*command)
        return self.answer()

    def stop(self) -> None:
        """Freezes it; returns once it is."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Ends the freeze."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it by SIGKILL; returns once it is gone."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


class _Program:
    def __init__(self, path: Path) -> None:
        self._journal = SqliteJournal(path)
        self._writer: Any = None

    def begin(self, run_id: str) -> int:
        self._writer = begun(self._journal, run_id)
        return os.getpid()

    def hold(self, run_id: str, take_over: bool = False) -> int:
        self._writer = self._journal.hold(run_id, take_over=take_over)
        return int(self._writer.epoch)

    def append(self, count: int, first: int = 0) -> None:
        self._writer.append(waits(count, first), STATE)

    def release(self) -> None:
        self._writer.release()

    def fork(self, seconds: float) -> int:
        """A child that lives on, as one that a tool forked would; it is there when this returns."""
        there, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.write(tell, b".")
            signal.alarm(int(seconds))
            signal.pause()
        os.read(there, 1)
        return child

    def spawn(self, seconds: float) -> int:
        """A program that lives on, with every descriptor that it can inherit."""
        return subprocess.Popen(
            ["sleep", str(seconds)], close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ).pid

    def record_in_turns(self, run_id: str, times: int, first: int) -> int:
        """Holds the run so many times, one event each; how often another process had it."""
        busy = done = 0
        while done < times:
            try:
                writer = self._journal.hold(run_id)
            except RunBusy:
                busy += 1
                continue
            writer.append(waits(1, first + done), STATE)
            writer.release()
            done += 1
        return busy

    def release_watched(self) -> list[tuple[str, bool]]:
        """Releases the run: each file that is removed, and whether its lock was held at that moment."""
        import fcntl

        removed: list[tuple[str, bool]] = []

        def watch(event: str, arguments: Any) -> None:
            if event != "os.remove":
                return
            descriptor = os.open(arguments[0], os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
            os.close(descriptor)
            removed.append((os.path.basename(arguments[0]), held))

        sys.addaudithook(watch)
        self._writer.release()
        return removed

    def exclude(self, directory: str, times: int) -> list[int]:
        """Takes and gives up one lock so many times: how often it had it, and how often not alone."""
        leases, alone = Leases(Path(directory) / "locks"), Path(directory) / "alone"
        had = together = 0
        while had < times:
            try:
                lease = leases.begin("x")
            except Taken:
                continue
            had += 1
            try:
                os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
                alone.unlink()
            except OSError:
                together += 1
            lease.give_up()
        return [had, together]

    def begin_in(self, path: str, run_id: str) -> None:
        """Begins a run in another journal."""
        begun(SqliteJournal(Path(path)), run_id).release()

    def limit_files(self, size: int) -> None:
        """No file may grow beyond this size, as on a disk that is full."""
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def be_nobody(self) -> None:
        """From now on without the rights of root."""
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    def fill(self, size: int) -> int:
        """Appends texts until one cannot be kept; how many were."""
        kept = 0
        try:
            while True:
                self._writer.append([Said(2.0, str(kept) + "x" * size)], STATE)
                kept += 1
        except BridaError:
            return kept

    def count(self, run_id: str) -> int:
        return len(self._journal.read(run_id))


def _serve(path: Path) -> None:
    program = _Program(path)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = getattr(program, name)(*arguments)
        except BridaError as error:
            answer = [type(error).__name__, str(error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
