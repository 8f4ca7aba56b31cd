"""A journal whose writers are all released when the test ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brida.journal.sqlite import SqliteJournal
from brida.journal.writer import SqliteWriter


class Watched(SqliteJournal):
    """Remembers its writers."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writers: list[SqliteWriter] = []

    def begin(self, run_id: str) -> SqliteWriter:
        self.writers.append(super().begin(run_id))
        return self.writers[-1]

    def hold(self, *arguments: Any, **more: Any) -> SqliteWriter:
        self.writers.append(super().hold(*arguments, **more))
        return self.writers[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    journal = Watched(path)
    yield journal
    for writer in journal.writers:
        writer.release()
