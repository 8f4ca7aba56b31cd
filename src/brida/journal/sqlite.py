"""The journal in one SQLite file: what a single machine needs, with nothing to set up."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from brida.core.events import Event, Resumed, Said, Started, Stopped
from brida.core.state import State, fold
from brida.core.wording import Say, english
from brida.errors import Damaged, JournalError, LeaseLost, NewerRecord, RunBusy, UnknownRun
from brida.journal.base import DURABLE, Message, MessageKind, Owner, Record, RunRow
from brida.journal.filesystem import is_networked
from brida.journal.lease import Lease, Leases, Taken, present
from brida.journal.rows import NotAsWritten, TooNew, event_of, row_of
from brida.journal.schema import connect, make_file

TASK_SHOWN: Final = 200
"""Characters of a run's first text that the table of runs holds."""


def default_path() -> Path:
    """Where the journal is where nobody says: in the user's state directory."""
    import platformdirs

    return platformdirs.user_state_path("brida") / "journal.db"


class SqliteJournal:
    """The journal in the file ``path``, which is made with the first run. See :class:`Journal`.

    Every use has a connection of its own, so threads need not know of each other. ``warning``: what a
    person should know of where the file lies. Every method raises :class:`JournalError` where the file
    cannot be used.
    """

    def __init__(self, path: Path, say: Say = english) -> None:
        self.path = path
        self._say = say
        self._leases = Leases(path.with_name(f"{path.name}.locks"))
        self._networked = is_networked(path.parent)

    @property
    def warning(self) -> str | None:
        """What a person should know before the journal is used; None where there is nothing."""
        if not self._networked:
            return None
        return self._say(
            "{path} lies on a network file system: it is written more slowly, and its locks are only as good "
            "as that system's",
            path=self.path,
        )

    # -- one run

    def begin(self, run_id: str) -> "SqliteWriter":
        """See :class:`Journal`."""
        with self._told():
            make_file(self.path)
            return self._held(self._connect(), run_id, take_over=False)

    def hold(self, run_id: str, *, take_over: bool = False) -> "SqliteWriter":
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told():
            return self._held(connection, run_id, take_over=take_over)

    def _held(self, connection: sqlite3.Connection, run_id: str, *, take_over: bool) -> "SqliteWriter":
        try:
            lease = self._leases.take(connection, run_id, take_over=take_over)
        except Taken as taken:
            connection.close()
            raise self._busy(run_id, taken.owner) from None
        except BaseException:
            connection.close()
            raise
        try:
            return SqliteWriter(connection, lease, self._say, full=self._networked)
        except BaseException:
            lease.give_up()
            connection.close()
            raise

    def read(self, run_id: str) -> tuple[Record, ...]:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        records: list[Record] = []
        try:
            checksum = ""
            for row in connection.execute(
                "SELECT seq, at, kind, version, payload, checksum FROM events WHERE run_id = ? ORDER BY seq",
                (run_id,),
            ):
                event, checksum = event_of(run_id, len(records) + 1, row, checksum)
                records.append(Record(len(records) + 1, event))
            last = connection.execute("SELECT last_seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if last is not None and last[0] > len(records):
                raise NotAsWritten(self._say("it is missing"))
        except TooNew as error:
            words = self._say("{place}: {error}", place=self._place(run_id, len(records)), error=error)
            raise NewerRecord(words, tuple(records)) from error
        except (NotAsWritten, sqlite3.DatabaseError, UnicodeDecodeError) as error:
            words = self._say(
                "{place} is damaged: {error}", place=self._place(run_id, len(records)), error=error
            )
            raise Damaged(words, tuple(records)) from error
        finally:
            connection.close()
        return tuple(records)

    def _place(self, run_id: str, before: int) -> str:
        return self._say("{path}: run {run_id}, event {seq}", path=self.path, run_id=run_id, seq=before + 1)

    # -- all runs

    def runs(self) -> list[RunRow]:
        """See :class:`Journal`."""
        if not self.path.exists():
            return []
        with self._told(), self._connected() as connection:
            return [
                replace(RunRow(*row), owner=self._leases.owner(connection, row[0]))
                for row in connection.execute(
                    "SELECT run_id, created, updated, task, stop, turns, requests, tokens, model, last_seq "
                    "FROM runs ORDER BY updated DESC, rowid DESC"
                ).fetchall()
            ]

    def find(self, prefix: str) -> str:
        """See :class:`Journal`."""
        if not self.path.exists():
            raise self._no_journal()
        with self._told(), self._connected() as connection:
            if prefix == "-":
                query, facts = "SELECT run_id FROM runs ORDER BY updated DESC, rowid DESC LIMIT 1", ()
            else:
                query = (
                    "SELECT run_id FROM runs WHERE substr(run_id, 1, length(?1)) = ?1 ORDER BY run_id LIMIT 9"
                )
                facts = (prefix,)  # type: ignore[assignment]
            found = [str(row[0]) for row in connection.execute(query, facts)]
        if prefix in found or (len(found) == 1 and prefix):
            return prefix if prefix in found else found[0]
        if found and prefix:
            words = self._say(
                "more than one run begins with {prefix}: {runs}", prefix=prefix, runs=", ".join(found)
            )
            raise UnknownRun(words)
        raise UnknownRun(self._say("there is no run {prefix} in {path}", prefix=prefix, path=self.path))

    def post(self, run_id: str, kind: MessageKind, text: str, by: str) -> None:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told(), _closing(connection):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                "INSERT INTO inbox (run_id, at, kind, text, by) VALUES (?, ?, ?, ?, ?)",
                (run_id, time.time(), kind, text, by),
            )

    def late(self, run_id: str) -> tuple[Record, ...]:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told(), _closing(connection):
            rows = connection.execute(
                "SELECT id, at, kind, version, payload, '' FROM late WHERE run_id = ? ORDER BY id", (run_id,)
            ).fetchall()
            return tuple(
                Record(number, event_of(run_id, row[0], row, None)[0]) for number, row in enumerate(rows, 1)
            )

    def remove(self, run_id: str) -> None:
        """See :class:`Journal`."""
        writer = self.hold(run_id)
        try:
            with self._told():
                writer.forget()
        finally:
            writer.release()

    def sweep(self, *, before: float) -> list[str]:
        """See :class:`Journal`."""
        if not self.path.exists():
            return []
        gone = []
        for row in self.runs():
            if row.updated < before and row.is_over:
                with suppress(RunBusy, UnknownRun):
                    self.remove(row.run_id)
                    gone.append(row.run_id)
        with self._told(), self._connected() as connection, suppress(sqlite3.OperationalError):
            connection.execute("VACUUM")  # where another process uses the file, the next sweep does it
        return gone

    def rebuild(self) -> None:
        """See :class:`Journal`."""
        with self._told(), self._connected() as connection:
            known = [str(row[0]) for row in connection.execute("SELECT DISTINCT run_id FROM events")]
            connection.execute("DELETE FROM runs")
        for run_id in known:
            try:
                records = self.read(run_id)
            except (Damaged, NewerRecord) as error:
                records = error.records
            if records:
                self._rebuild(run_id, [record.event for record in records])

    def _rebuild(self, run_id: str, events: list[Event]) -> None:
        state = fold(events)
        with self._told(), self._connected() as connection:
            about = _About(connection, run_id)
            for seq, event in enumerate(events, 1):
                about.learn(event, seq)
            about.count(state)

    # -- the file

    def _connect_known(self, run_id: str) -> sqlite3.Connection:
        """A connection, where there is such a run."""
        if not self.path.exists():
            raise self._no_journal()
        with self._told():
            connection = self._connect()
        try:
            with self._told():
                there = present(connection, run_id)[0]
                there = (
                    there
                    or connection.execute(
                        "SELECT 1 FROM events WHERE run_id = ? LIMIT 1", (run_id,)
                    ).fetchone()
                )
            if not there:
                raise UnknownRun(
                    self._say("there is no run {prefix} in {path}", prefix=run_id, path=self.path)
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, self._say, write_ahead=not self._networked)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _closing(self._connect()) as connection:
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong with the file, in words."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise broken(self.path, error, self._say) from error

    def _no_journal(self) -> UnknownRun:
        return UnknownRun(self._say("there is no journal yet at {path}", path=self.path))

    def _busy(self, run_id: str, owner: Owner | None) -> RunBusy:
        if owner is None:
            return RunBusy(self._say("run {run_id} is busy: another process has it", run_id=run_id), None)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner.since))
        words = self._say(
            "run {run_id} is busy: process {pid} on {host} has had it since {since}",
            run_id=run_id,
            pid=owner.pid,
            host=owner.host,
            since=since,
        )
        return RunBusy(words, owner)


class SqliteWriter:
    """The hold on one run. See :class:`Writer`. ``full``: every append goes to the disk at once."""

    def __init__(self, connection: sqlite3.Connection, lease: Lease, say: Say, *, full: bool) -> None:
        self._connection, self._lease, self._say, self._full = connection, lease, say, full
        self._released = False
        self._synchronous = ""
        self._about = _About(connection, lease.run_id)
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

    def append(self, events: Sequence[Event], state: State, *, taken: Iterable[int] = ()) -> None:
        """See :class:`Writer`."""
        if self._released:
            raise JournalError(self._say("the run was given up: nothing more can be recorded"))
        seq, checksum = self._seq, self._checksum
        with self._transaction(durable=any(type(event).__name__ in DURABLE for event in events)):
            if present(self._connection, self.run_id)[0] != self.epoch:
                lost = True
                self._keep_late(events)
            else:
                lost = False
                for event in events:
                    seq += 1
                    row, checksum = row_of(self.run_id, seq, event, checksum)
                    self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                    self._about.learn(event, seq)
                self._about.count(state)
                for message in taken:
                    self._connection.execute("DELETE FROM inbox WHERE id = ?", (message,))
        if lost:
            raise LeaseLost(
                self._say("another process has taken the run over; what came of it is kept as late")
            )
        self._seq, self._checksum = seq, checksum

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
        """Removes all that the journal has of the run."""
        with self._transaction(durable=True):
            for table in ("events", "runs", "leases", "inbox", "late"):
                self._connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (self.run_id,))

    def release(self) -> None:
        """See :class:`Writer`."""
        if self._released:
            return
        self._released = True
        with suppress(sqlite3.Error):  # the lock tells as well
            self._connection.execute(
                "UPDATE leases SET pid = NULL, host = NULL, since = NULL WHERE run_id = ? AND epoch = ?",
                (self.run_id, self.epoch),
            )
        with suppress(sqlite3.Error):
            self._connection.close()
        self._lease.give_up()

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        """All of the block or nothing, on the disk where it is ``durable``.

        Without that SQLite leaves it to the system to write it there: it survives the process, not a loss of
        power.
        """
        wanted = "FULL" if durable or self._full else "NORMAL"
        with self._told():
            if wanted != self._synchronous:
                self._connection.execute(f"PRAGMA synchronous = {wanted}")
                self._synchronous = wanted
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise broken(None, error, self._say) from error


class _About:
    """The row of a run in the table of runs."""

    def __init__(self, connection: sqlite3.Connection, run_id: str) -> None:
        self._connection, self._run_id = connection, run_id

    def learn(self, event: Event, seq: int) -> None:
        """What the event says of the run."""
        match event:
            case Started():
                self._connection.execute(
                    "INSERT INTO runs (run_id, created, updated, model, last_seq) VALUES (?, ?, ?, ?, ?)",
                    (self._run_id, event.at, event.at, event.model, seq),
                )
            case Said():
                self._set("task = CASE task WHEN '' THEN ? ELSE task END", event.text[:TASK_SHOWN])
            case Stopped():
                self._set("stop = ?", event.stop.kind)
            case Resumed():
                self._set("stop = ?", None)
            case _:
                pass
        self._set("updated = ?, last_seq = ?", event.at, seq)

    def count(self, state: State) -> None:
        """What the state counts."""
        self._set("turns = ?, requests = ?, tokens = ?", state.turns, state.requests, state.usage.total)

    def _set(self, assignments: str, *values: object) -> None:
        self._connection.execute(f"UPDATE runs SET {assignments} WHERE run_id = ?", (*values, self._run_id))


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    finally:
        connection.close()


def broken(path: Path | None, error: OSError | sqlite3.Error, say: Say) -> JournalError:
    """What went wrong with the file of a journal, in words."""
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
    if path is None:
        return JournalError(say("the journal cannot be written: {why}", why=why))
    return JournalError(say("the journal {path} cannot be used: {why}", path=path, why=why))
