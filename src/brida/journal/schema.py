"""The tables of a journal in SQLite, and how a file becomes one."""

import os
import sqlite3
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.errors import JournalError, NewerRecord

APPLICATION_ID: Final = 0x62726964
SCHEMA_VERSION: Final = 1
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


def make_file(path: Path) -> None:
    """An empty file that only its owner can read, in a directory of which the same holds if we make it.

    Raises ``OSError``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.close(descriptor)


def connect(path: Path, say: Say, *, write_ahead: bool) -> sqlite3.Connection:
    """A connection to the journal at ``path``, which exists; an empty file becomes one.

    Raises :class:`JournalError` where the file is something else, :class:`NewerRecord` where a newer brida
    made it, ``sqlite3.Error``.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _check(connection, path, say)
        # SQLite keeps the index of a write-ahead log in shared memory, which a network does not share.
        connection.execute("PRAGMA journal_mode = WAL" if write_ahead else "PRAGMA journal_mode = DELETE")
        if _value(connection, "user_version") == 0:
            _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, say: Say) -> None:
    application, version = _value(connection, "application_id"), _value(connection, "user_version")
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
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


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _value(connection, "user_version") == 0:  # no other process has made them meanwhile
            for statement in _statements():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements() -> list[str]:
    statements, held = [], ""
    for line in TABLES.splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            statements.append(held)
            held = ""
    return statements


def _value(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
