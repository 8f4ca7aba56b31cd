"""What goes into the journal comes out of it, run by run."""

import sqlite3
import threading
from contextlib import closing

import pytest

from brida.core.events import Answered, Resumed, Said, Stopped
from brida.core.state import fold
from brida.core.stops import Stop
from brida.errors import JournalError, RunBusy, UnknownRun
from support.journals import COMPLETED, STATE, WAITING, beginning, begun, events_of, over, waits


def test_events_come_back_in_order_numbered_from_one(journal):
    begun(journal).append(waits(3), STATE)
    assert [record.seq for record in journal.read("run-1")] == [1, 2, 3, 4, 5]
    assert events_of(journal) == [*beginning(), *waits(3)]


def test_a_run_goes_on_where_its_last_writer_ended(journal):
    begun(journal).release()
    writer = journal.hold("run-1")
    writer.append(waits(2), STATE)
    assert events_of(journal) == [*beginning(), *waits(2)]
    assert writer.epoch == 2


def test_runs_are_kept_apart(journal):
    one, two = begun(journal, "one"), begun(journal, "two")
    one.append(waits(1), STATE)
    two.append(waits(1, first=7), STATE)
    assert events_of(journal, "one")[2:] == waits(1)
    assert events_of(journal, "two")[2:] == waits(1, first=7)


def test_half_a_surrogate_pair_comes_back_as_it_was(journal):
    writer = journal.begin("run-1")
    events = beginning(text="half \ud800 and \udcff")
    writer.append(events, STATE)
    assert events_of(journal) == events
    assert journal.runs()[0].task == "half ? and ?"


def test_nothing_is_written_before_the_first_append(journal):
    writer = journal.begin("run-1")
    assert journal.runs() == []
    with pytest.raises(UnknownRun):
        journal.hold("run-1")
    writer.release()
    with pytest.raises(UnknownRun):
        journal.read("run-1")


def test_a_run_that_never_recorded_can_be_begun_again(journal):
    journal.begin("run-1").release()
    begun(journal)
    assert events_of(journal) == beginning()


def test_a_run_that_is_there_cannot_be_begun_again(journal):
    begun(journal).release()
    with pytest.raises(JournalError, match=r"a run run-1 in .* already"):
        journal.begin("run-1")
    assert events_of(journal) == beginning()


def test_all_events_of_an_append_are_kept_or_none(journal):
    writer = begun(journal)
    with pytest.raises(ValueError, match="JSON"):
        writer.append([*waits(2), Stopped(2.0, Stop("waiting", {"x": float("nan")}))], STATE)
    assert events_of(journal) == beginning()
    writer.append(waits(1), STATE)
    assert events_of(journal) == [*beginning(), *waits(1)]


def test_an_empty_append_changes_nothing(journal):
    begun(journal).append([], STATE)
    assert events_of(journal) == beginning()


def test_a_released_writer_records_nothing(journal):
    writer = begun(journal)
    writer.release()
    writer.release()
    with pytest.raises(JournalError, match="given up"):
        writer.append(waits(1), STATE)
    assert writer.inbox() == ()
    assert events_of(journal) == beginning()


# -- the table of runs


def test_a_row_tells_what_the_events_and_the_state_say(journal):
    writer = begun(journal, at=5.0, text="x" * 500)
    state = fold(beginning())
    state.turns, state.requests = 3, 4
    writer.append([Said(9.0, "a second text")], state)
    (row,) = journal.runs()
    assert (row.run_id, row.created, row.updated, row.task) == ("run-1", 5.0, 9.0, "x" * 200)
    assert (row.turns, row.requests, row.tokens, row.model, row.last_seq) == (3, 4, 0, "m", 3)
    assert row.stop is None
    assert row.owner is not None


def test_a_row_has_the_last_stop_until_the_run_goes_on(journal):
    writer = begun(journal)
    writer.append([Stopped(2.0, WAITING)], STATE)
    assert journal.runs()[0].stop == "waiting"
    writer.append([Answered(3.0, "call", "digest", True, "ada")], STATE)
    assert journal.runs()[0].stop == "waiting"
    writer.append([Resumed(4.0)], STATE)
    assert journal.runs()[0].stop is None


def test_the_run_that_was_updated_last_comes_first(journal):
    for run_id, at in (("a", 3.0), ("b", 9.0), ("c", 6.0)):
        over(journal, run_id, at)
    assert [row.run_id for row in journal.runs()] == ["b", "c", "a"]
    assert journal.find("-") == "b"


def test_a_journal_that_is_not_there_has_no_runs_and_is_not_made_by_looking(journal):
    assert journal.runs() == []
    assert journal.sweep(before=1e12) == []
    journal.rebuild()
    for look in (journal.find, journal.read, journal.hold, journal.late, journal.remove):
        with pytest.raises(UnknownRun, match="no journal yet"):
            look("run-1")
    assert not list(journal.path.parent.iterdir())


def test_a_unique_beginning_finds_a_run(journal):
    for run_id in ("abc1", "abc2", "abcd", "abc", "x%y"):
        over(journal, run_id)
    assert journal.find("abc") == "abc"
    assert journal.find("abcd") == "abcd"
    assert journal.find("x") == "x%y"
    with pytest.raises(UnknownRun, match="more than one run begins with ab: abc, abc1, abc2, abcd"):
        journal.find("ab")


@pytest.mark.parametrize("prefix", ["zzz", "%", "_", "", "\udcff", "a\x00", "A"])
def test_a_beginning_of_no_run_finds_none(journal, prefix):
    over(journal, "abc")
    with pytest.raises(UnknownRun, match="there is no run"):
        journal.find(prefix)


def test_the_table_of_runs_can_be_made_again_from_the_events(journal):
    over(journal, "one", 3.0)
    over(journal, "two", 4.0, WAITING)
    before = journal.runs()
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        connection.execute("DELETE FROM runs")
    assert journal.runs() == []
    journal.rebuild()
    assert journal.runs() == before


def test_making_the_table_again_keeps_who_holds_a_run(journal):
    writer = begun(journal)
    journal.rebuild()
    assert journal.runs()[0].owner is not None
    writer.append(waits(1), STATE)
    assert journal.runs()[0].last_seq == 3


# -- messages of other processes


def test_a_message_reaches_whoever_holds_the_run_until_it_is_taken(journal):
    writer = begun(journal)
    assert writer.inbox() == ()
    journal.post("run-1", "steer", "the other door", "ada")
    journal.post("run-1", "stop", "", "ada\udcff")
    first, second = writer.inbox()
    assert (first.kind, first.text, first.by) == ("steer", "the other door", "ada")
    assert (second.kind, second.by) == ("stop", "ada?")
    writer.append([Said(2.0, first.text, steering=True)], STATE, taken=[first.id])
    assert writer.inbox() == (second,)


def test_a_message_waits_for_who_will_hold_the_run(journal):
    begun(journal).release()
    journal.post("run-1", "steer", "later", "ada")
    assert [message.text for message in journal.hold("run-1").inbox()] == ["later"]


def test_a_message_is_not_taken_where_its_event_could_not_be_kept(journal):
    writer = begun(journal)
    journal.post("run-1", "steer", "x", "ada")
    (message,) = writer.inbox()
    journal.hold("run-1", take_over=True)
    with pytest.raises(JournalError):
        writer.append([Said(2.0, "x", steering=True)], STATE, taken=[message.id])
    assert writer.inbox() == (message,)


# -- forgetting


def test_a_removed_run_leaves_nothing(journal):
    over(journal, "gone")
    over(journal, "kept")
    journal.post("gone", "steer", "x", "ada")
    journal.remove("gone")
    assert [row.run_id for row in journal.runs()] == ["kept"]
    with closing(sqlite3.connect(journal.path)) as connection:
        for table in ("events", "runs", "leases", "inbox", "late"):
            rows = connection.execute(f"SELECT count(*) FROM {table} WHERE run_id = 'gone'").fetchone()
            assert rows == (0,), table
    assert not list(journal.path.with_name("journal.db.locks").iterdir())


def test_a_run_that_is_held_is_not_removed(journal):
    begun(journal)
    with pytest.raises(RunBusy):
        journal.remove("run-1")
    assert events_of(journal) == beginning()


def test_sweeping_forgets_what_is_over_and_old_and_nothing_else(journal):
    over(journal, "old", 1.0)
    over(journal, "young", 100.0)
    over(journal, "waiting", 1.0, WAITING)
    begun(journal, "unfinished").release()
    held = begun(journal, "held")
    held.append([Stopped(1.0, COMPLETED)], STATE)
    assert journal.sweep(before=50.0) == ["old"]
    assert {row.run_id for row in journal.runs()} == {"young", "waiting", "unfinished", "held"}


def test_sweeping_gives_the_room_back(journal):
    writer = begun(journal)
    for _ in range(50):
        writer.append([Said(2.0, "x" * 20_000)], STATE)
    writer.append([Stopped(2.0, COMPLETED)], STATE)
    writer.release()
    size = journal.path.stat().st_size
    journal.sweep(before=50.0)
    assert journal.path.stat().st_size < size / 10


# -- append-only


@pytest.mark.parametrize(
    "statement",
    ["UPDATE events SET payload = '{}'", "DELETE FROM events", "DELETE FROM events WHERE seq = 2"],
)
def test_events_cannot_be_changed_or_taken_out(journal, statement):
    begun(journal).release()
    with (
        closing(sqlite3.connect(journal.path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)
    assert events_of(journal) == beginning()


# -- threads


def test_a_run_can_be_read_while_it_is_written(journal):
    writer = begun(journal)
    ended = threading.Event()
    lengths, errors = [], []

    def read():
        while not ended.is_set():
            try:
                lengths.append(len(journal.read("run-1")))
            except JournalError as error:
                errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(300):
        writer.append(waits(2, 2 * number), STATE)
    ended.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(length % 2 == 0 for length in lengths)
    assert len(events_of(journal)) == 602


def test_threads_write_to_runs_of_their_own(journal):
    def write(run_id):
        writer = begun(journal, run_id)
        for number in range(50):
            writer.append(waits(1, number), STATE)
        writer.release()

    threads = [threading.Thread(target=write, args=(f"run-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert events_of(journal, f"run-{number}")[2:] == waits(50)
