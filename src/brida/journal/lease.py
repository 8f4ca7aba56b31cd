"""Who may write to a run: an epoch in the journal, and a lock that lives as long as its process.

Epoch N of a run has a lock file of its own. Whoever wants the run looks whether the lock of the present
epoch is held (then its owner lives), takes the lock of the next one, and only then moves the epoch on,
where it is still the same. So the operating system frees a run whose owner was killed, no clock is asked,
and of two that want it at once one gets it.

A lock file is removed only by who holds its lock, and before the lock is freed. Were it freed first,
another process could lock the file in between, lose its name to the removal, and look like a dead owner
ever after. Whoever had the file open already and locks it once it is free holds a file without a name:
``filelock`` sees that and begins again with a new file.
"""

import os
import socket
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from filelock import FileLock, Timeout

from brida.journal.base import Owner

PATIENCE: Final = 0.1
"""Seconds that an attempt at a lock waits, since another process may be looking whether it is held."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A hold on a run. ``lock`` is held by this process; a child that it forks does not hold it."""

    run_id: str
    epoch: int
    lock: FileLock

    def give_up(self) -> None:
        """Frees the lock."""
        _give_up(self.lock)


class Taken(Exception):
    """Somebody else has the run; ``owner`` where that is known."""

    def __init__(self, owner: Owner | None) -> None:
        super().__init__("taken")
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one journal, with the directory of their lock files."""

    directory: Path

    def begin(self, run_id: str) -> Lease:
        """A hold on a run that the journal has not: :func:`enter` tells it. Raises :class:`Taken`."""
        return self._lease(run_id, 1)

    def take(self, connection: sqlite3.Connection, run_id: str, *, take_over: bool) -> Lease:
        """A hold on the run, whatever it was before. Raises :class:`Taken`."""
        epoch, owner = present(connection, run_id)
        if epoch and not take_over and self._is_held(run_id, epoch):
            raise Taken(owner)
        lease = self._lease(run_id, epoch + 1)
        try:
            moved = enter(connection, lease)
        except BaseException:
            lease.give_up()
            raise
        if not moved:
            lease.give_up()
            raise Taken(present(connection, run_id)[1])
        self._is_held(run_id, epoch)  # leaves no file of an owner that is dead
        return lease

    def owner(self, connection: sqlite3.Connection, run_id: str) -> Owner | None:
        """The process that holds the run now; None where nobody does."""
        epoch, owner = present(connection, run_id)
        return owner if owner is not None and self._is_held(run_id, epoch) else None

    def tidy(self) -> None:
        """Removes the lock files that nobody holds. Raises ``OSError``."""
        with suppress(FileNotFoundError):
            for path in list(self.directory.iterdir()):
                if path.suffix[1:].isdecimal():
                    _is_held(path)

    def _lease(self, run_id: str, epoch: int) -> Lease:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        lock = _lock(self._path(run_id, epoch))
        if lock is None:
            raise Taken(None)
        return Lease(run_id, epoch, lock)

    def _is_held(self, run_id: str, epoch: int) -> bool:
        return _is_held(self._path(run_id, epoch))

    def _path(self, run_id: str, epoch: int) -> Path:
        return self.directory / f"{quote(run_id, safe='')}.{epoch}"


def _lock(path: Path) -> FileLock | None:
    """The lock, held by this process now; None where another holds it."""
    lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=PATIENCE / 10)
    except Timeout:
        return None
    return lock


def _is_held(path: Path) -> bool:
    """Whether a process that lives holds the lock; a file that nobody holds is removed."""
    if not path.exists():
        return False
    lock = _lock(path)
    if lock is not None:
        _give_up(lock)
    return lock is None


def _give_up(lock: FileLock) -> None:
    if lock.is_locked:
        with suppress(OSError):  # Windows removes no open file; ``filelock`` does it there, once it is closed
            os.unlink(lock.lock_file)
    lock.release(force=True)


def enter(connection: sqlite3.Connection, lease: Lease) -> bool:
    """Moves the run to the epoch of the lease; False where it is not at the one before it."""
    facts = {
        "epoch": lease.epoch,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.time(),
        "run_id": lease.run_id,
    }
    if lease.epoch == 1:
        query = (
            "INSERT OR IGNORE INTO leases (epoch, pid, host, since, run_id) "
            "VALUES (:epoch, :pid, :host, :since, :run_id)"
        )
    else:
        query = (
            "UPDATE leases SET epoch = :epoch, pid = :pid, host = :host, since = :since "
            "WHERE run_id = :run_id AND epoch = :epoch - 1"
        )
    return connection.execute(query, facts).rowcount == 1


def present(connection: sqlite3.Connection, run_id: str) -> tuple[int, Owner | None]:
    """The epoch of the run, 0 before the first, and who holds it or held it last without giving it up."""
    row = connection.execute(
        "SELECT epoch, pid, host, since FROM leases WHERE run_id = ?", (run_id,)
    ).fetchone()
    if row is None:
        return 0, None
    epoch, pid, host, since = row
    return epoch, None if pid is None else Owner(pid, host, since)
