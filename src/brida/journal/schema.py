"""The tables of a journal in SQLite, and how a file becomes one."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.errors import JournalError, NewerRecord
from brida.journal.faults import code_of

APPLICATION_ID: Final = 0x62726964
SCHEMA_VERSION: Final = 2
BUSY_SECONDS: Final = 5.0
"""How long one statement waits for another process; each holds the file for milliseconds."""

TABLES: Final = """
CREATE TABLE events (
    run_id TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    version INTEGER NOT NULL, payload TEXT NOT NULL, checksum TEXT NOT NULL
);
CREATE UNIQUE INDEX events_of_a_run ON events (run_id, seq);
CREATE TRIGGER events_stay_as_they_are BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_go_with_their_run BEFORE DELETE ON events
    WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = OLD.run_id)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, task TEXT NOT NULL DEFAULT '',
    stop TEXT, turns INTEGER NOT NULL DEFAULT 0, requests INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL, last_seq INTEGER NOT NULL
);
CREATE TABLE leases (
    run_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, pid INTEGER, host TEXT, since REAL
);
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL, by TEXT NOT NULL
);
CREATE INDEX inbox_of_a_run ON inbox (run_id);
CREATE TABLE late (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL,
    kind TEXT NOT NULL, version INTEGER NOT NULL, payload TEXT NOT NULL
);
"""

BUDGETS: Final = """
CREATE TABLE budgets (
    name TEXT PRIMARY KEY, ceiling INTEGER NOT NULL, per TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE budget_totals (
    name TEXT NOT NULL, period TEXT NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY (name, period)
);
CREATE TABLE budget_reserves (
    run_id TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (run_id, name)
);
"""

MADE_BY: Final = (TABLES, BUDGETS)
"""What each version of the file has added, from the first on."""


def make_file(path: Path) -> None:
    """An empty file that only its owner can read, in a directory of which the same holds if we make it.

    Raises ``OSError``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.close(descriptor)


def connect(path: Path, say: Say, *, write_ahead: bool) -> tuple[sqlite3.Connection, bool]:
    """A connection to the journal at ``path``, which exists; an empty file becomes one.

    Also whether it has a write-ahead log: a file system may not take one. Raises :class:`JournalError`
    where the file is something else, :class:`NewerRecord` where a newer brida made it, ``sqlite3.Error``.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",  # SQLite would make a file that everybody can read
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        _check(connection, path, say)
        # SQLite keeps the index of a write-ahead log in shared memory, which a network does not share.
        mode = _set_mode(connection, "wal" if write_ahead else "delete")
        if _value(connection, "user_version") < SCHEMA_VERSION:
            _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection, mode == "wal"


def _check(connection: sqlite3.Connection, path: Path, say: Say) -> None:
    connection.execute("BEGIN")  # another process may be making the tables right now
    try:
        application, version = _value(connection, "application_id"), _value(connection, "user_version")
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")
    if application != APPLICATION_ID and not (empty and application == 0 and version == 0):
        raise JournalError(say("{path} is a database, but no journal of brida", path=path))
    if version > SCHEMA_VERSION:
        raise NewerRecord(
            say(
                "{path} was written by a newer brida (version {version} of the journal; this one reads up to "
                "{known})",
                path=path,
                version=version,
                known=SCHEMA_VERSION,
            )
        )


def _set_mode(connection: sqlite3.Connection, wanted: str) -> str:
    """The mode that the file has then. SQLite does not wait by itself for others that change it too."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
            if mode != wanted:
                mode = str(connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0])
            return mode
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _value(connection, "user_version")
        if version < SCHEMA_VERSION:  # no other process has made them meanwhile
            for statement in _statements("".join(MADE_BY[version:])):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    statements, held = [], ""
    for line in script.splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            statements.append(held)
            held = ""
    return statements


def _value(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
