"""One process at a time writes to a run, whatever happens to the processes."""

import os
import signal
import socket
import sqlite3
import sys
import time
from contextlib import closing

import pytest

from brida.core.events import Waited
from brida.errors import LeaseLost, RunBusy, UnknownRun
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, Child, beginning, begun, events_of, over, waits


def locks(journal):
    return sorted(file.name for file in journal.path.with_name("journal.db.locks").iterdir())


def test_a_second_process_hears_who_has_the_run(journal, path):
    with Child(path) as child:
        pid = child.ask("begin", "run-1")
        with pytest.raises(
            RunBusy, match=f"process {pid} on {socket.gethostname()} has had it since"
        ) as busy:
            journal.hold("run-1")
        assert busy.value.owner is not None
        assert (busy.value.owner.pid, busy.value.owner.host) == (pid, socket.gethostname())
        assert abs(busy.value.owner.since - time.time()) < 600
        assert journal.runs()[0].owner == busy.value.owner


def test_a_killed_owner_frees_its_run_at_once(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        child.ask("append", 3)
        child.kill()
        assert journal.runs()[0].owner is None
        writer = journal.hold("run-1")
    assert events_of(journal) == [*beginning(), *waits(3)]
    assert writer.epoch == 2
    assert locks(journal) == ["run-1.2"]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_child_of_a_killed_owner_does_not_keep_its_run(journal, path, how):
    with Child(path) as child:
        child.ask("begin", "run-1")
        grandchild = child.ask(how, 50)
        try:
            child.kill()
            assert journal.hold("run-1").epoch == 2
        finally:
            os.kill(grandchild, signal.SIGKILL)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_the_end_of_a_child_does_not_free_the_run_of_its_parent(journal, path, how):
    with Child(path) as child:
        child.ask("begin", "run-1")
        os.kill(child.ask(how, 50), signal.SIGKILL)
        with pytest.raises(RunBusy):
            journal.hold("run-1")
        child.ask("append", 1)
    assert len(events_of(journal)) == 3


def test_a_frozen_owner_still_has_its_run(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        child.stop()
        with pytest.raises(RunBusy):
            journal.hold("run-1")
        child.go_on()
        assert child.ask("append", 1) is None


def test_a_frozen_owner_whose_run_was_taken_over_changes_nothing_when_it_wakes(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        child.stop()
        writer = journal.hold("run-1", take_over=True)
        writer.append(waits(1), STATE)
        row = journal.runs()[0]
        child.tell("append", 2, 100)
        child.go_on()
        kind, words = child.answer()
        assert (kind, "kept as late" in words) == ("LeaseLost", True)
        assert child.ask("append", 1, 200)[0] == "LeaseLost"
        assert child.ask("release") is None
    assert events_of(journal) == [*beginning(), *waits(1)]
    assert [record.event for record in journal.late("run-1")] == [*waits(2, 100), *waits(1, 200)]
    assert [record.seq for record in journal.late("run-1")] == [1, 2, 3]
    assert journal.runs() == [row]
    writer.append(waits(1, 1), STATE)
    assert events_of(journal) == [*beginning(), *waits(2)]


def test_the_end_of_who_lost_its_run_does_not_free_it(journal, path):
    with Child(path) as loser, Child(path) as winner:
        loser.ask("begin", "run-1")
        assert winner.ask("hold", "run-1", True) == 2
        loser.ask("release")
        with pytest.raises(RunBusy) as busy:
            journal.hold("run-1")
        assert busy.value.owner is not None
        assert busy.value.owner.pid == winner.pid
        assert locks(journal) == ["run-1.2"]


def test_a_run_that_was_taken_over_can_be_taken_over_again(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        assert journal.hold("run-1", take_over=True).epoch == 2
        assert journal.hold("run-1", take_over=True).epoch == 3


def test_two_holds_within_one_process_conflict_as_well(journal):
    writer = begun(journal)
    with pytest.raises(RunBusy) as busy:
        journal.hold("run-1")
    assert busy.value.owner is not None
    assert busy.value.owner.pid == os.getpid()
    with pytest.raises(RunBusy):
        SqliteJournal(journal.path).hold("run-1")
    writer.release()
    assert journal.hold("run-1").epoch == 2


def test_two_beginnings_of_one_run_conflict(journal):
    journal.begin("run-1")
    with pytest.raises(RunBusy):
        journal.begin("run-1")


def test_another_name_of_the_file_does_not_part_its_holders(journal, tmp_path):
    begun(journal)
    other = tmp_path / "elsewhere" / "other.db"
    other.parent.mkdir()
    other.symlink_to(journal.path)
    with pytest.raises(RunBusy):
        SqliteJournal(other).hold("run-1")


def test_the_working_directory_may_change(journal, tmp_path, monkeypatch):
    begun(journal).release()
    monkeypatch.chdir(tmp_path)
    relative = SqliteJournal(journal.path.relative_to(tmp_path))
    monkeypatch.chdir("/")
    assert len(relative.read("run-1")) == 2


def test_a_writer_whose_run_was_removed_keeps_nothing_of_it(journal):
    writer = begun(journal)
    other = journal.hold("run-1", take_over=True)
    other.forget()
    other.release()
    with pytest.raises(LeaseLost, match="removed the run"):
        writer.append(waits(1), STATE)
    assert journal.runs() == []
    with pytest.raises(UnknownRun):
        journal.late("run-1")
    with closing(sqlite3.connect(journal.path)) as connection:
        assert connection.execute("SELECT count(*) FROM late").fetchone() == (0,)


def test_who_lost_a_run_cannot_forget_it(journal):
    writer = begun(journal)
    journal.hold("run-1", take_over=True)
    with pytest.raises(LeaseLost):
        writer.forget()
    assert events_of(journal) == beginning()


def test_a_take_over_from_a_dead_process_leaves_no_file_of_it(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        child.kill()
    journal.hold("run-1", take_over=True)
    assert locks(journal) == ["run-1.2"]


def test_a_released_run_leaves_no_lock_file(journal):
    for number in range(3):
        over(journal, f"run-{number}")
    assert locks(journal) == []


def test_sweeping_removes_the_locks_of_dead_processes_alone(journal, path):
    with Child(path) as dead, Child(path) as alive:
        dead.ask("begin", "dead")
        alive.ask("begin", "alive")
        dead.kill()
        assert locks(journal) == ["alive.1", "dead.1"]
        journal.sweep(before=0.0)
        assert locks(journal) == ["alive.1"]
        with pytest.raises(RunBusy):
            journal.hold("alive")


def test_sweeping_removes_the_locks_of_runs_that_never_recorded(journal):
    over(journal, "run-1")
    directory = journal.path.with_name("journal.db.locks")
    for name in ("run-1.1", "run-1.9", "ghost.1"):
        (directory / name).touch()
    held = journal.begin("held")
    (directory / "note").touch()
    journal.sweep(before=0.0)
    assert locks(journal) == ["held.1", "note"]
    held.append(beginning("held"), STATE)


def test_a_lock_file_stays_where_the_name_of_a_run_would_lead_elsewhere(journal, tmp_path):
    begun(journal, "../../x/y")
    assert locks(journal) == ["..%2F..%2Fx%2Fy.1"]


def test_a_hold_that_cannot_be_entered_frees_its_lock(journal):
    begun(journal).release()
    blocker = sqlite3.connect(journal.path, isolation_level=None)
    blocker.execute("CREATE TRIGGER no BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(Exception, match="no"):
        journal.hold("run-1")
    assert locks(journal) == []
    blocker.execute("DROP TRIGGER no")
    blocker.close()
    assert journal.hold("run-1").epoch == 2


def test_two_processes_that_hold_one_run_in_turns_lose_nothing(journal, path):
    times = 200
    over(journal, "run-1")
    with Child(path) as one, Child(path) as two:
        one.tell("record_in_turns", "run-1", times, 1_000)
        two.tell("record_in_turns", "run-1", times, 2_000)
        one.answer()
        two.answer()
    events = events_of(journal)[3:]
    seconds = [event.seconds for event in events if isinstance(event, Waited)]
    assert sorted(seconds) == [*range(1_000, 1_000 + times), *range(2_000, 2_000 + times)]
    assert [s for s in seconds if s < 2_000] == [*range(1_000, 1_000 + times)]
    assert journal.late("run-1") == ()
    assert journal.hold("run-1").epoch == 2 * times + 2


def test_two_processes_that_write_to_runs_of_their_own_lose_nothing(journal, path):
    with Child(path) as one, Child(path) as two:
        one.ask("begin", "one")
        two.ask("begin", "two")
        for number in range(200):
            one.tell("append", 1, number)
            two.tell("append", 1, number)
        assert {one.answer() for _ in range(200)} == {two.answer() for _ in range(200)} == {None}
    for run_id in ("one", "two"):
        assert events_of(journal, run_id)[2:] == waits(200)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
def test_a_lock_is_held_until_the_name_of_its_file_is_gone(path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        assert child.ask("release_watched") == [["run-1.1", True]]


def test_a_lock_whose_file_comes_and_goes_is_held_by_one_process_alone(path, tmp_path):
    children = [Child(path) for _ in range(3)]
    try:
        for child in children:
            child.tell("exclude", str(tmp_path), 300)
        assert [child.answer() for child in children] == [[300, 0]] * 3
    finally:
        for child in children:
            child.kill()


def test_processes_may_make_the_journal_at_the_same_moment(tmp_path):
    paths = [tmp_path / f"journal-{number}.db" for number in range(100)]
    children = [Child(tmp_path / "unused.db") for _ in range(4)]
    try:
        for child in children:
            child.ask("begin_in", str(tmp_path / "first.db"), f"run-{child.pid}")  # all are there now
        for path in paths:
            for number, child in enumerate(children):
                child.tell("begin_in", str(path), f"run-{number}")
            assert [child.answer() for child in children] == [None] * 4
    finally:
        for child in children:
            child.kill()
    assert {len(SqliteJournal(path).runs()) for path in paths} == {4}
