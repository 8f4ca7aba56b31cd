"""What went wrong with the file of a journal, in words."""

import os
import sqlite3
from pathlib import Path
from typing import Final, TypeAlias

from brida.core.wording import Say
from brida.errors import Damaged, JournalError

Fault: TypeAlias = OSError | sqlite3.Error | UnicodeError
FAULTS: Final = (OSError, sqlite3.Error, UnicodeError)


def told(path: Path, error: Fault, say: Say) -> JournalError:
    """The error in words; :class:`Damaged` where SQLite found the file corrupt."""
    words = say("the journal {path} cannot be used: {why}", path=path, why=_why(error, say))
    return Damaged(words) if code_of(error) == sqlite3.SQLITE_CORRUPT else JournalError(words)


def code_of(error: BaseException) -> int | None:
    """SQLite's primary code of the error, None where it is none of SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _why(error: Fault, say: Say) -> object:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    match code_of(error):
        case sqlite3.SQLITE_FULL:
            return say("the disk is full")
        case sqlite3.SQLITE_READONLY:
            return say("it or its directory is read-only")
        case sqlite3.SQLITE_CANTOPEN:
            return say("it cannot be opened; its directory must be writable too, even for reading")
        case sqlite3.SQLITE_BUSY:
            return say("another process keeps it locked")
        case sqlite3.SQLITE_NOTADB:
            return say("it is no database, or its beginning is damaged")
        case _:
            return error
