"""For any events: they come back as they were, and a change of a single byte is found."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.events import VERSION
from brida.core.wording import english
from brida.errors import Damaged
from brida.journal.rows import NotAsWritten, TooNew, event_of, row_of
from brida.journal.sqlite import SqliteJournal
from support.events import events
from support.journals import STATE, beginning, events_of

lists_of_events = st.lists(st.lists(events(without=("Started",)), max_size=4), max_size=3)


@settings(max_examples=25, deadline=None)
@given(lists_of_events)
def test_whatever_is_appended_is_read_back_equal(appends):
    with tempfile.TemporaryDirectory() as directory:
        journal = SqliteJournal(Path(directory) / "journal.db")
        writer = journal.begin("run-1")
        try:
            for some in (beginning(), *appends):
                writer.append(some, STATE)
            wanted = [*beginning(), *(event for some in appends for event in some)]
            assert events_of(journal) == wanted
            before = journal.runs()
            journal.rebuild()
            assert [(row.last_seq, row.task, row.stop) for row in before] == [
                (row.last_seq, row.task, row.stop) for row in journal.runs()
            ]
        finally:
            writer.release()


@given(events(), st.text(max_size=8), st.integers(1, 10**9), st.text(max_size=16))
def test_an_event_comes_back_from_its_row(event, run_id, seq, before):
    (_, *row), checksum = row_of(run_id, seq, event, before)
    assert event_of(run_id, seq, row, before, english) == (event, checksum)


@given(events(), st.data())
def test_any_byte_that_changes_in_a_row_is_found(event, data):
    (_, *row), _ = row_of("run-1", 3, event, "before")
    at = data.draw(st.sampled_from([2, 4]), label="column")  # the kind, the payload
    content = bytearray(row[at].encode())
    place = data.draw(st.integers(0, len(content) - 1), label="place")
    content[place] ^= data.draw(st.integers(1, 255), label="flipped bits")
    row[at] = content.decode(errors="surrogateescape")
    with pytest.raises(NotAsWritten):
        event_of("run-1", 3, row, "before", english)


@given(events(), st.data())
def test_any_other_number_or_chain_of_a_row_is_found(event, data):
    (_, *row), _ = row_of("run-1", 3, event, "before")
    run_id, seq, before = "run-1", 3, "before"
    match data.draw(st.sampled_from(["run", "seq", "at", "version", "before"])):
        case "run":
            run_id = "run-2"
        case "seq":
            row[0] = seq = 4
        case "at":
            row[1] = event.at / 2 + 1.5 if event.at != 3.0 else 7.0
        case "version":
            row[3] = data.draw(st.integers(-5, 5).filter(lambda version: version != VERSION))
        case "before":
            before = "another"
    with pytest.raises((NotAsWritten, TooNew)):
        event_of(run_id, seq, row, before, english)


def test_every_single_byte_of_a_payload_counts(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db")
    writer = journal.begin("run-1")
    writer.append(beginning(), STATE)
    writer.release()
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_stay_as_they_are")
        (payload,) = connection.execute("SELECT payload FROM events WHERE seq = 2").fetchone()
        for at in range(len(payload)):
            changed = payload[:at] + chr(ord(payload[at]) ^ 1) + payload[at + 1 :]
            connection.execute("UPDATE events SET payload = ? WHERE seq = 2", (changed,))
            with pytest.raises(Damaged, match="event 2"):
                journal.read("run-1")
        connection.execute("UPDATE events SET payload = ? WHERE seq = 2", (payload,))
    assert events_of(journal) == beginning()
