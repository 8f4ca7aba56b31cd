"""What holds for every run of every test: its events are JSON and back, and replay to the same requests."""

import os
import uuid
from pathlib import Path

import pytest

from brida.core.codec import decode_event, encode_event
from brida.core.replay import replay
from brida.journal.sqlite import SqliteJournal
from brida.runtime.outcome import Outcome
from support.process import TESTS_JOURNAL


def pytest_collection_modifyitems(items):
    """A walk through a large space may take its time on a machine that is busy."""
    for item in items:
        if item.get_closest_marker("exhaustive") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def every_recorded_run_replays(monkeypatch, tmp_path_factory, request):
    """Watches the outcomes of this process, and the journal of the command lines that the test starts."""
    seen = {}
    made = Outcome.of.__func__  # type: ignore[attr-defined]

    def of(cls, state, events):
        seen[state.started.run_id] = events
        return made(cls, state, events)

    monkeypatch.setattr(Outcome, "of", classmethod(of))
    path = tmp_path_factory.getbasetemp() / f"{uuid.uuid4().hex}.db"
    monkeypatch.setitem(os.environ, TESTS_JOURNAL, str(path))
    home = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    for events in seen.values():
        assert [decode_event(encode_event(event)) for event in events] == list(events)
        assert replay(events).holds
    if request.node.get_closest_marker("journal_is_broken_on_purpose") is None:
        for journal in (path, *(() if home is None else home.rglob("brida/journal.db"))):
            check_journal(journal)


def check_journal(path: Path) -> None:
    if not path.exists():
        return
    journal = SqliteJournal(path)
    for row in journal.runs():
        events = [record.event for record in journal.read(row.run_id)]
        assert replay(events).holds, row
