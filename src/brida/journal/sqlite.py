"""The journal in one SQLite file: what a single machine needs, with nothing to set up."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

from brida.core.wording import Say, english
from brida.errors import Damaged, JournalError, LeaseLost, NewerRecord, RunBusy, UnknownRun
from brida.journal import budgets
from brida.journal.base import BudgetRow, MessageKind, Owner, Period, Record, RunRow
from brida.journal.faults import FAULTS, code_of, told
from brida.journal.filesystem import is_networked
from brida.journal.lease import Leases, Taken
from brida.journal.overview import as_far_as_they_fold, learn, storable
from brida.journal.rows import NotAsWritten, TooNew, event_of
from brida.journal.schema import connect, make_file
from brida.journal.writer import SqliteWriter


def default_path() -> Path:
    """Where the journal is where nobody says: in the user's state directory."""
    import platformdirs

    return platformdirs.user_state_path("brida") / "journal.db"


class SqliteJournal:
    """The journal in the file ``path``, which is made with the first run. See :class:`Journal`.

    Every use has a connection of its own, so threads need not know of each other; the last one to be
    closed leaves a single file behind. Every method raises :class:`JournalError` where the file cannot be
    used.
    """

    def __init__(self, path: Path, say: Say = english) -> None:
        # One file, one directory of locks: two names of it must not part who holds a run.
        self.path = Path(os.path.realpath(path))
        self._say = say
        self._leases = Leases(self.path.with_name(f"{self.path.name}.locks"))
        self._networked = is_networked(self.path.parent)
        self._write_ahead = not self._networked

    @property
    def warning(self) -> str | None:
        """What a person should know before the journal is used; None where there is nothing.

        Whether a file system takes a write-ahead log is only known once the journal was used.
        """
        if self._networked:
            return self._say(
                "{path} lies on a network file system: it is written more slowly, and its locks are only as "
                "good as that system's",
                path=self.path,
            )
        if not self._write_ahead:
            return self._say(
                "{path}: its file system takes no write-ahead log, so it is written more slowly",
                path=self.path,
            )
        return None

    # -- one run

    def begin(self, run_id: str) -> SqliteWriter:
        """See :class:`Journal`."""
        with self._told():
            make_file(self.path)
            connection = self._connect()
            with _closed_if_it_fails(connection):
                try:
                    lease = self._leases.begin(run_id)
                except Taken:
                    raise self._busy(run_id, None) from None
                try:
                    if _is_known(connection, run_id):
                        words = self._say(
                            "there is a run {run_id} in {path} already", run_id=run_id, path=self.path
                        )
                        raise JournalError(words)
                    return SqliteWriter(
                        connection, lease, self.path, self._say, is_new=True, full=not self._write_ahead
                    )
                except BaseException:
                    lease.give_up()
                    raise

    def hold(self, run_id: str, *, take_over: bool = False) -> SqliteWriter:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told(), _closed_if_it_fails(connection):
            try:
                lease = self._leases.take(connection, run_id, take_over=take_over)
            except Taken as taken:
                known = _is_known(connection, run_id)
                raise self._busy(run_id, taken.owner) if known else self._unknown(run_id) from None
            try:
                writer = SqliteWriter(connection, lease, self.path, self._say, full=not self._write_ahead)
                if not _is_known(connection, run_id):  # it was removed a moment ago
                    writer.forget()
                    raise self._unknown(run_id)
            except BaseException:
                lease.give_up()
                raise
        return writer

    def read(self, run_id: str) -> tuple[Record, ...]:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told(), _closing(connection), _snapshot(connection):
            return self._read(connection, run_id)

    def _read(self, connection: sqlite3.Connection, run_id: str) -> tuple[Record, ...]:
        records: list[Record] = []
        try:
            checksum = ""
            for row in connection.execute(
                "SELECT seq, at, kind, version, payload, checksum FROM events WHERE run_id = ? ORDER BY seq",
                (run_id,),
            ):
                event, checksum = event_of(run_id, len(records) + 1, row, checksum, self._say)
                records.append(Record(len(records) + 1, event))
            last = connection.execute("SELECT last_seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if last is not None and last[0] > len(records):
                raise NotAsWritten(self._say("it is missing"))
        except TooNew as error:
            words = self._say("{place}: {error}", place=self._place(run_id, len(records)), error=error)
            raise NewerRecord(words, tuple(records)) from error
        except (NotAsWritten, sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if code_of(error) not in _CORRUPT:
                raise
            words = self._say(
                "{place} is damaged: {error}", place=self._place(run_id, len(records)), error=error
            )
            raise Damaged(words, tuple(records)) from error
        return tuple(records)

    def _place(self, run_id: str, before: int) -> str:
        return self._say("{path}: run {run_id}, event {seq}", path=self.path, run_id=run_id, seq=before + 1)

    # -- all runs

    def runs(self) -> list[RunRow]:
        """See :class:`Journal`."""
        with self._told():
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
        prefix = storable(prefix)
        with self._told():
            if not self.path.exists():
                raise self._no_journal()
        facts: dict[str, str] = {"prefix": prefix}
        beginning = "substr(run_id, 1, length(:prefix)) = :prefix"
        query = f"SELECT run_id FROM runs WHERE {beginning} ORDER BY run_id LIMIT 9"
        if prefix == "-":
            query, facts = "SELECT run_id FROM runs ORDER BY updated DESC, rowid DESC LIMIT 1", {}
        with self._told(), self._connected() as connection:
            found = [str(row[0]) for row in connection.execute(query, facts)]
        if prefix in found:
            return prefix
        if len(found) == 1 and prefix:
            return found[0]
        if found and prefix:
            words = self._say(
                "more than one run begins with {prefix}: {runs}", prefix=prefix, runs=", ".join(found)
            )
            raise UnknownRun(words)
        raise self._unknown(prefix)

    def post(self, run_id: str, kind: MessageKind, text: str, by: str) -> None:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        with self._told(), _closing(connection):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                "INSERT INTO inbox (run_id, at, kind, text, by) VALUES (?, ?, ?, ?, ?)",
                (run_id, time.time(), kind, storable(text), storable(by)),
            )

    def late(self, run_id: str) -> tuple[Record, ...]:
        """See :class:`Journal`."""
        connection = self._connect_known(run_id)
        records: list[Record] = []
        with self._told(), _closing(connection):
            for row in connection.execute(
                "SELECT id, at, kind, version, payload, '' FROM late WHERE run_id = ? ORDER BY id", (run_id,)
            ):
                try:
                    event, _ = event_of(run_id, row[0], row, None, self._say)
                except (NotAsWritten, TooNew) as error:
                    place = self._say(
                        "{path}: run {run_id}, late event {seq}",
                        path=self.path,
                        run_id=run_id,
                        seq=len(records) + 1,
                    )
                    kind = NewerRecord if isinstance(error, TooNew) else Damaged
                    words = self._say("{place}: {error}", place=place, error=error)
                    raise kind(words, tuple(records)) from error
                records.append(Record(len(records) + 1, event))
        return tuple(records)

    def remove(self, run_id: str) -> None:
        """See :class:`Journal`."""
        self._remove(run_id, lambda: True)

    def _remove(self, run_id: str, still: Callable[[], bool]) -> bool:
        """Forgets the run if, once nobody else can change it, it is ``still`` to be forgotten."""
        writer = self.hold(run_id)
        try:
            if wanted := still():
                writer.forget()
            return wanted
        finally:
            writer.release()

    def sweep(self, *, before: float) -> list[str]:
        """See :class:`Journal`."""
        gone = []
        for row in self.runs():
            if row.is_over and row.updated < before:
                with suppress(RunBusy, UnknownRun, LeaseLost):
                    if self._remove(row.run_id, partial(self._is_old, row.run_id, before)):
                        gone.append(row.run_id)
        with self._told():
            if not self.path.exists():
                return gone
            self._leases.tidy()
        with self._told(), self._connected() as connection, suppress(sqlite3.OperationalError):
            connection.execute("VACUUM")  # where another process uses the file, the next sweep does it
        return gone

    def _is_old(self, run_id: str, before: float) -> bool:
        rows = [row for row in self.runs() if row.run_id == run_id]
        return any(row.has_ended and row.updated < before for row in rows)

    # -- budgets

    def budgets(self) -> list[BudgetRow]:
        """See :class:`Journal`."""
        with self._told():
            if not self.path.exists():
                return []
        with self._told(), self._connected() as connection, _snapshot(connection):
            return budgets.rows(connection)

    def budget(self, name: str) -> BudgetRow:
        """See :class:`Journal`."""
        with self._told():
            if not self.path.exists():
                raise budgets.unknown(name, self._say)
        with self._told(), self._connected() as connection, _snapshot(connection):
            return budgets.one(connection, name, self._say)

    def create_budget(self, name: str, limit: Decimal, per: Period) -> None:
        """See :class:`Journal`."""
        with self._told():
            make_file(self.path)
        with self._changing_budgets(name) as connection:
            budgets.create(connection, name, limit, per, self._say)

    def change_budget(self, name: str, limit: Decimal) -> None:
        """See :class:`Journal`."""
        with self._changing_budgets(name) as connection:
            budgets.change(connection, name, limit, self._say)

    def remove_budget(self, name: str) -> None:
        """See :class:`Journal`."""
        with self._changing_budgets(name) as connection:
            budgets.remove(connection, name, self._say)

    @contextmanager
    def _changing_budgets(self, name: str) -> Iterator[sqlite3.Connection]:
        with self._told():
            if not self.path.exists():
                raise budgets.unknown(name, self._say)
        with self._told(), self._connected() as connection:
            connection.execute("PRAGMA synchronous = FULL")
            with _transaction(connection):
                yield connection

    def rebuild(self) -> None:
        """See :class:`Journal`."""
        with self._told():
            if not self.path.exists():
                return
        with self._told(), self._connected() as connection, _transaction(connection):
            before = dict(connection.execute("SELECT run_id, last_seq FROM runs").fetchall())
            known = connection.execute("SELECT DISTINCT run_id FROM events").fetchall()
            connection.execute("DELETE FROM runs")
            for (run_id,) in known:
                try:
                    records = self._read(connection, run_id)
                except (Damaged, NewerRecord) as error:
                    records = error.records
                events = [record.event for record in records]
                if state := as_far_as_they_fold(events):
                    # That events are missing at the end is known from the table alone.
                    learn(connection, run_id, events, max(len(events), before.get(run_id, 0)), state)

    # -- the file

    def _connect_known(self, run_id: str) -> sqlite3.Connection:
        """A connection, where there is such a run."""
        with self._told():
            if not self.path.exists():
                raise self._no_journal()
            connection = self._connect()
            with _closed_if_it_fails(connection):
                if not _is_known(connection, run_id):
                    raise self._unknown(run_id)
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection, self._write_ahead = connect(self.path, self._say, write_ahead=not self._networked)
        return connection

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _closing(self._connect()) as connection:
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong with the file, in words."""
        try:
            yield
        except FAULTS as error:
            raise told(self.path, error, self._say) from error

    def _unknown(self, prefix: str) -> UnknownRun:
        return UnknownRun(self._say("there is no run {prefix} in {path}", prefix=prefix, path=self.path))

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


_CORRUPT = (None, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Codes of errors that the content of the file is to blame for; None: a row that is not as written."""


def _is_known(connection: sqlite3.Connection, run_id: str) -> bool:
    events, runs = (f"EXISTS (SELECT 1 FROM {table} WHERE run_id = :run_id)" for table in ("events", "runs"))
    query = f"SELECT {events} OR {runs}"
    return bool(connection.execute(query, {"run_id": run_id}).fetchone()[0])


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _closed_if_it_fails(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All that the block reads is of one moment, whoever writes meanwhile."""
    connection.execute("BEGIN")
    yield  # the connection is closed next, which ends the transaction too


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    yield  # what fails closes the connection, and nothing of it is kept
    connection.execute("COMMIT")
