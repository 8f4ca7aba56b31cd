"""What is not as it was written is found, named, and shown as far as it can be read."""

import json
import sqlite3
from contextlib import closing

import pytest

from brida.core.events import Said, Stopped
from brida.errors import Damaged, JournalError, NewerRecord
from support.journals import COMPLETED, STATE, beginning, begun, events_of, over, waits

EVENTS = [*beginning(), *waits(4)]


def change(path, *statements):
    """Changes the file behind the back of the journal, with its triggers out of the way."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("events_stay_as_they_are", "events_go_with_their_run"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def run(journal):
    """A run of six events that nobody holds."""
    writer = begun(journal)
    writer.append(waits(4), STATE)
    writer.release()
    return journal


def damage(journal):
    with pytest.raises(Damaged) as found:
        journal.read("run-1")
    return found.value


@pytest.mark.parametrize(
    "statement, first_bad",
    [
        ("UPDATE events SET payload = '{\"seconds\":9.0}' WHERE seq = 4", 4),
        ("UPDATE events SET payload = payload || ' ' WHERE seq = 4", 4),
        ("UPDATE events SET payload = 'no json' WHERE seq = 4", 4),
        ("UPDATE events SET payload = x'ff' WHERE seq = 4", 4),
        ("UPDATE events SET at = 3.0 WHERE seq = 3", 3),
        ("UPDATE events SET kind = 'Lost' WHERE seq = 3", 3),
        ("UPDATE events SET kind = 'Nothing' WHERE seq = 3", 3),
        ("UPDATE events SET version = 0 WHERE seq = 3", 3),
        ("UPDATE events SET checksum = 'x' WHERE seq = 5", 5),
        ("UPDATE events SET run_id = 'other' WHERE seq = 5", 5),
        ("DELETE FROM events WHERE seq = 1", 1),
        ("DELETE FROM events WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 6", 6),
        ("DELETE FROM events WHERE seq > 3", 4),
        ("UPDATE events SET seq = seq + 10 WHERE seq > 4", 5),
    ],
)
def test_a_row_that_was_altered_or_lost_is_named_and_what_is_before_it_is_shown(run, statement, first_bad):
    change(run.path, statement)
    found = damage(run)
    assert f"run run-1, event {first_bad} is damaged" in str(found)
    assert [record.event for record in found.records] == EVENTS[: first_bad - 1]


def test_rows_that_were_swapped_are_found(run):
    change(
        run.path,
        "UPDATE events SET seq = 100 WHERE seq = 3",
        "UPDATE events SET seq = 3 WHERE seq = 4",
        "UPDATE events SET seq = 4 WHERE seq = 100",
    )
    assert "event 3 is damaged" in str(damage(run))


def test_a_row_of_another_run_is_found(run):
    over(run, "run-2")
    change(
        run.path,
        "DELETE FROM events WHERE run_id = 'run-1' AND seq = 3",
        "INSERT INTO events SELECT 'run-1', seq, at, kind, version, payload, checksum FROM events "
        "WHERE run_id = 'run-2' AND seq = 3",
    )
    assert "event 3 is damaged" in str(damage(run))


def test_a_lost_end_is_still_known_after_the_table_was_made_again(run):
    change(run.path, "DELETE FROM events WHERE seq = 6")
    run.rebuild()
    assert "event 6 is damaged" in str(damage(run))


def test_the_table_is_made_again_as_far_as_a_damaged_run_can_be_read(run):
    over(run, "whole")
    change(run.path, "UPDATE events SET payload = 'x' WHERE run_id = 'run-1' AND seq = 3", "DELETE FROM runs")
    run.rebuild()
    assert {row.run_id: row.task for row in run.runs()} == {
        "run-1": "count the stars",
        "whole": "count the stars",
    }


def test_the_other_runs_of_a_damaged_journal_can_be_read(run):
    over(run, "whole")
    change(run.path, "DELETE FROM events WHERE run_id = 'run-1' AND seq = 3")
    assert events_of(run, "whole")[-1] == Stopped(1.0, COMPLETED)


def test_a_record_of_a_newer_version_is_refused(run):
    change(run.path, "UPDATE events SET version = 3 WHERE seq = 5")
    with pytest.raises(
        NewerRecord, match=r"event 5: a newer brida wrote it \(version 3 of a record"
    ) as found:
        run.read("run-1")
    assert [record.event for record in found.value.records] == EVENTS[:4]


def test_a_kind_that_is_unknown_and_as_it_was_written_is_of_a_newer_version(run, monkeypatch):
    import brida.core.events
    import brida.journal.rows

    kinds = {name: kind for name, kind in brida.core.events.KINDS.items() if name != "Waited"}
    for module in (brida.core.events, brida.journal.rows):
        monkeypatch.setattr(module, "KINDS", kinds)
    with pytest.raises(NewerRecord, match=r"event 3: a newer brida wrote it \(kind \"Waited\" is unknown"):
        run.read("run-1")


def test_a_late_record_that_is_damaged_is_named(journal):
    writer = begun(journal)
    journal.hold("run-1", take_over=True)
    with pytest.raises(JournalError):
        writer.append(waits(3), STATE)
    change(journal.path, "UPDATE late SET payload = '[]' WHERE id = 2")
    with pytest.raises(Damaged, match="late event 2") as found:
        journal.late("run-1")
    assert [record.event for record in found.value.records] == waits(1)


# -- pages that SQLite itself cannot read


@pytest.fixture
def long(journal):
    """A run whose events fill many pages, nobody holding it."""
    writer = begun(journal)
    for number in range(60):
        writer.append([Said(2.0, str(number) + "y" * 3_000)], STATE)
    writer.release()
    return journal


def test_a_corrupt_page_in_the_middle_is_named_and_what_is_before_it_is_shown(long):
    expected = events_of(long)
    content = bytearray(long.path.read_bytes())
    # the page on which the thirtieth text begins, from its header on
    at = content.index(b"29yyyy") // 4096 * 4096
    content[at : at + 4096] = b"\xff" * 4096
    long.path.write_bytes(content)
    found = damage(long)
    assert 0 < len(found.records) < 62
    assert [record.event for record in found.records] == expected[: len(found.records)]
    assert f"event {len(found.records) + 1} is damaged" in str(found)


def test_a_file_that_was_cut_short_is_found(long):
    content = long.path.read_bytes()
    long.path.write_bytes(content[: len(content) // 2])
    with pytest.raises(Damaged):
        long.read("run-1")


def test_a_first_page_of_nonsense_is_no_journal(long):
    content = bytearray(long.path.read_bytes())
    content[:100] = b"\xff" * 100
    long.path.write_bytes(content)
    for look in (
        long.runs,
        lambda: long.read("run-1"),
        lambda: long.begin("x"),
        lambda: long.sweep(before=0),
    ):
        with pytest.raises(JournalError, match="no database, or its beginning is damaged"):
            look()
    assert long.path.read_bytes() == content


def test_a_schema_that_cannot_be_read_is_damage(long):
    content = bytearray(long.path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    long.path.write_bytes(content)
    with pytest.raises(Damaged):
        long.runs()


# -- files that are something else


@pytest.mark.parametrize("content", [b"hello, world\n", b"\x00" * 5_000, json.dumps({"a": 1}).encode() * 900])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(journal, content):
    journal.path.write_bytes(content)
    for look in (journal.runs, lambda: journal.begin("run-1"), lambda: journal.find("-")):
        with pytest.raises(JournalError, match="no database"):
            look()
    assert journal.path.read_bytes() == content


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE mine (a)"],
        ["PRAGMA user_version = 1"],
        ["PRAGMA application_id = 7"],
        ["CREATE TABLE events (a)", "PRAGMA user_version = 1"],
    ],
)
def test_another_database_is_refused_and_left_as_it_is(journal, statements):
    change(journal.path, *statements)
    before = journal.path.read_bytes()
    for look in (journal.runs, lambda: journal.begin("run-1"), lambda: journal.find("-")):
        with pytest.raises(JournalError, match="is a database, but no journal of brida"):
            look()
    assert journal.path.read_bytes() == before
    assert [file.name for file in journal.path.parent.iterdir()] == ["journal.db"]


def test_a_journal_of_a_newer_brida_is_refused_and_left_as_it_is(run):
    change(run.path, "PRAGMA user_version = 3")
    before = run.path.read_bytes()
    for look in (run.runs, lambda: run.read("run-1"), lambda: run.hold("run-1"), lambda: run.begin("x")):
        with pytest.raises(NewerRecord, match=r"written by a newer brida \(version 3 of the journal"):
            look()
    assert run.path.read_bytes() == before


def test_an_empty_file_becomes_a_journal(journal):
    journal.path.touch()
    over(journal, "run-1")
    assert [row.run_id for row in journal.runs()] == ["run-1"]
