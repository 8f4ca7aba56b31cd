"""The hold of one process on one run of a SQLite journal."""

import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from brida.core.events import Event
from brida.core.state import State
from brida.core.wording import Say
from brida.errors import JournalError, LeaseLost
from brida.journal.base import DURABLE, Charge, Message
from brida.journal.budgets import pay
from brida.journal.faults import FAULTS, code_of, told
from brida.journal.lease import Lease, enter, present
from brida.journal.overview import learn
from brida.journal.rows import row_of
from brida.journal.schema import BUSY_SECONDS

PATIENCE: Final = 30.0
"""Seconds that a run waits for others that write to the journal, each for milliseconds."""

SHORTEST: Final = 0.0005
LONGEST: Final = 0.004
"""Seconds between two tries. SQLite's own waits grow to a tenth of a second, in which others always come
first where many runs write at every request.
"""


class SqliteWriter:
    """The hold on one run. See :class:`Writer`.

    ``is_new``: the journal learns of the run with its first event. ``full``: every append goes to the disk
    at once.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        lease: Lease,
        path: Path,
        say: Say,
        *,
        is_new: bool = False,
        full: bool = False,
    ) -> None:
        self._connection, self._lease, self._path, self._say = connection, lease, path, say
        self._is_new, self._full = is_new, full
        self._released = False
        self._synchronous = ""
        last = connection.execute(
            "SELECT seq, checksum FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (self.run_id,)
        ).fetchone()
        self._seq: int = last[0] if last else 0
        self._checksum: str = last[1] if last else ""

    @property
    def run_id(self) -> str:
        """See :class:`Writer`."""
        return self._lease.run_id

    @property
    def epoch(self) -> int:
        """See :class:`Writer`."""
        return self._lease.epoch

    def append(
        self,
        events: Sequence[Event],
        state: State,
        *,
        taken: Iterable[int] = (),
        charge: Charge | None = None,
    ) -> None:
        """See :class:`Writer`."""
        if self._released:
            raise JournalError(self._say("the run was given up: nothing more can be recorded"))
        seq, checksum = self._seq, self._checksum
        durable = charge is not None or any(type(event).__name__ in DURABLE for event in events)
        with self._transaction(durable=durable):
            epoch = present(self._connection, self.run_id)[0]
            is_ours = enter(self._connection, self._lease) if self._is_new else epoch == self.epoch
            if is_ours:
                if charge is not None:
                    pay(self._connection, self.run_id, charge, self._say)
                for event in events:
                    seq += 1
                    row, checksum = row_of(self.run_id, seq, event, checksum)
                    self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                learn(self._connection, self.run_id, events, seq, state)
                for message in taken:
                    self._connection.execute("DELETE FROM inbox WHERE id = ?", (message,))
            elif epoch:
                self._keep_late(events)
        if not is_ours:
            raise self._lost(removed=not epoch)
        self._seq, self._checksum, self._is_new = seq, checksum, False

    def _lost(self, *, removed: bool) -> LeaseLost:
        if removed:
            return LeaseLost(self._say("another process has removed the run; what came of it is not kept"))
        return LeaseLost(self._say("another process has taken the run over; what came of it is kept as late"))

    def _keep_late(self, events: Sequence[Event]) -> None:
        for event in events:
            (run_id, _, *rest, _), _ = row_of(self.run_id, 0, event, "")
            self._connection.execute(
                "INSERT INTO late (run_id, epoch, at, kind, version, payload) VALUES (?, ?, ?, ?, ?, ?)",
                (run_id, self.epoch, *rest),
            )

    def inbox(self) -> tuple[Message, ...]:
        """See :class:`Writer`."""
        if self._released:
            return ()
        with self._told():
            rows = self._connection.execute(
                "SELECT id, at, kind, text, by FROM inbox WHERE run_id = ? ORDER BY id", (self.run_id,)
            ).fetchall()
        return tuple(Message(*row) for row in rows)

    def forget(self) -> None:
        """Removes all that the journal has of the run. Raises :class:`LeaseLost`."""
        with self._transaction(durable=True):
            epoch = present(self._connection, self.run_id)[0]
            is_ours = epoch == self.epoch
            if is_ours:
                for table in ("runs", "events", "leases", "inbox", "late"):  # no event goes before its run
                    self._connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (self.run_id,))
        if not is_ours:
            raise self._lost(removed=not epoch)

    def release(self) -> None:
        """See :class:`Writer`."""
        if self._released:
            return
        self._released = True
        try:
            with suppress(sqlite3.Error):  # the lock tells as well
                self._connection.execute(
                    "UPDATE leases SET pid = NULL, host = NULL, since = NULL WHERE run_id = ? AND epoch = ?",
                    (self.run_id, self.epoch),
                )
            with suppress(sqlite3.Error):
                self._connection.close()
        finally:
            self._lease.give_up()

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        """All of the block or nothing, on the disk where it is ``durable``.

        Otherwise it is the system's to write it there. A commit has handed it over, so it survives the
        death of this process, by SIGKILL too, but not a loss of power.
        """
        wanted = "FULL" if durable or self._full else "NORMAL"
        with self._told():
            if wanted != self._synchronous:
                self._connection.execute(f"PRAGMA synchronous = {wanted}")
                self._synchronous = wanted
            self._enter()
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _enter(self) -> None:
        """Begins to write, when it is this run's turn."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000)}")
            time.sleep(random.uniform(SHORTEST, LONGEST))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            raise told(self._path, error, self._say) from error
