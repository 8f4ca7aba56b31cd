"""Who may write to a run: an epoch in the journal, and a lock that lives as long as its process.

Epoch N of a run has a lock file of its own. Whoever wants the run looks whether the lock of the present
epoch is held (then its owner lives), takes the lock of the next one, and only then moves the epoch on,
where it is still the same. So the operating system frees a run whose owner was killed, no clock is asked,
and of two that want it at once one gets it. A lock file may be removed as soon as its epoch is past: its
number never comes again.
"""

import os
import socket
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from brida.journal.base import Owner

PATIENCE: Final = 0.1
"""Seconds that a look at a lock waits, since another process may be looking at it too."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A hold on a run. ``lock`` is held by this process."""

    run_id: str
    epoch: int
    lock: FileLock

    def give_up(self) -> None:
        """Frees the lock."""
        self.lock.release(force=True)
        with suppress(OSError):
            os.unlink(self.lock.lock_file)


class Taken(Exception):
    """Somebody else has the run; ``owner`` where that is known."""

    def __init__(self, owner: Owner | None) -> None:
        super().__init__("taken")
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one journal, with the directory of their lock files."""

    directory: Path

    def take(self, connection: sqlite3.Connection, run_id: str, *, take_over: bool) -> Lease:
        """A hold on the run, whatever it was before. Raises :class:`Taken`."""
        epoch, owner = present(connection, run_id)
        if epoch and not take_over and self._is_held(run_id, epoch):
            raise Taken(owner)
        lock = self._lock(run_id, epoch + 1)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise Taken(owner) from None
        lease = Lease(run_id, epoch + 1, lock)
        try:
            moved = self._move(connection, run_id, epoch)
        except BaseException:
            lease.give_up()
            raise
        if not moved:
            lease.give_up()
            raise Taken(present(connection, run_id)[1])
        return lease

    def owner(self, connection: sqlite3.Connection, run_id: str) -> Owner | None:
        """The process that holds the run now; None where nobody does."""
        epoch, owner = present(connection, run_id)
        return owner if owner is not None and self._is_held(run_id, epoch) else None

    def _lock(self, run_id: str, epoch: int) -> FileLock:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        path = self.directory / f"{run_id}.{epoch}"
        return FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)

    def _is_held(self, run_id: str, epoch: int) -> bool:
        if not (self.directory / f"{run_id}.{epoch}").exists():
            return False
        lock = self._lock(run_id, epoch)
        try:
            lock.acquire(timeout=PATIENCE, poll_interval=PATIENCE / 10)
        except Timeout:
            return True
        lock.release()
        return False

    def _move(self, connection: sqlite3.Connection, run_id: str, epoch: int) -> bool:
        facts = (os.getpid(), socket.gethostname(), time.time())
        if epoch:
            moved = connection.execute(
                "UPDATE leases SET epoch = epoch + 1, pid = ?, host = ?, since = ? "
                "WHERE run_id = ? AND epoch = ?",
                (*facts, run_id, epoch),
            )
        else:
            moved = connection.execute(
                "INSERT OR IGNORE INTO leases (epoch, pid, host, since, run_id) VALUES (1, ?, ?, ?, ?)",
                (*facts, run_id),
            )
        return moved.rowcount == 1


def present(connection: sqlite3.Connection, run_id: str) -> tuple[int, Owner | None]:
    """The epoch of the run, 0 before the first, and who holds it or held it last without giving it up."""
    row = connection.execute(
        "SELECT epoch, pid, host, since FROM leases WHERE run_id = ?", (run_id,)
    ).fetchone()
    if row is None:
        return 0, None
    epoch, pid, host, since = row
    return epoch, None if pid is None else Owner(pid, host, since)
