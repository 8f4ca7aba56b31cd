"""Daemon threads for what blocks: tools and hooks that are not async.

They are not those of the event loop's executor, which would hold the process at its end. A job has its
thread to itself; one that never ends keeps it, and is left behind. A thread whose job is done waits a
moment for another, since starting one costs more than most calls do.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

IDLE: Final = 1.0
"""Seconds that a thread waits for another job before it ends."""

Job: TypeAlias = Callable[[], None]


class _Worker:
    """A thread that does jobs, one at a time."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[str, Job]] = SimpleQueue()
        self._ending = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="brida idle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, name: str, job: Job) -> bool:
        """Whether it does the job; False where it has ended meanwhile."""
        with self._ending:
            if not self._ended:
                self._jobs.put((name, job))
            return not self._ended

    def _run(self) -> None:
        while not self._ended:
            try:
                self._thread.name, job = self._jobs.get(timeout=IDLE)
            except Empty:
                with self._ending:
                    self._ended = self._jobs.empty()
                continue
            job()
            del job  # and with it the arguments of a call
            self._thread.name = "brida idle"


_idle: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Worker]] = WeakKeyDictionary()
"""The threads of each event loop that have nothing to do; only their loop's own thread looks here."""


async def run_in_daemon_thread(job: Callable[[], object], *, name: str) -> object:
    """The value of ``job``, which must not raise, run in a thread that nobody waits for at the end.

    Cancelling leaves the job to itself.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()
    idle = _idle.setdefault(loop, [])

    def settle(value: object) -> None:
        idle.append(worker)
        if not done.done():
            done.set_result(value)

    def work() -> None:
        value = context.run(job)
        with suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
            loop.call_soon_threadsafe(settle, value)

    while idle:
        worker = idle.pop()
        if worker.take(name, work):
            break
    else:
        worker = _Worker()
        worker.take(name, work)
        worker.start()
    return await done
