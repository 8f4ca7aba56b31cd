"""One process writes to a run at a time: taking over, waking up too late, and racing for it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from brida.core.events import CallFinished, Reconciled, Said
from brida.core.replay import replay
from brida.core.state import fold
from brida.journal.sqlite import SqliteJournal
from support.racing import make

TESTS = Path(__file__).resolve().parent.parent


def start(directory, *arguments):
    path = os.pathsep.join([str(TESTS), *(os.path.abspath(one) for one in sys.path if one)])
    return subprocess.Popen(
        [sys.executable, "-m", "support.racing", str(directory), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def ended(process, seconds=50):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return json.loads(out)


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def events_of(directory):
    journal = SqliteJournal(directory / "journal.db")
    return [record.event for record in journal.read(journal.find("-"))]


def test_a_frozen_process_that_wakes_up_changes_nothing_and_its_record_is_late(tmp_path):
    frozen = start(tmp_path, "begin")
    wait_for(tmp_path / "acting")
    frozen.send_signal(signal.SIGSTOP)
    while psutil.Process(frozen.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert ended(start(tmp_path, "take-over"))["stop"] == "completed"
    before = events_of(tmp_path)
    (tmp_path / "go").touch()
    frozen.send_signal(signal.SIGCONT)
    told = ended(frozen)
    assert told["stop"] == "journal_error"
    assert "taken the run over" in told["detail"]["error"]
    assert events_of(tmp_path) == before
    journal = SqliteJournal(tmp_path / "journal.db")
    late = [record.event for record in journal.late(journal.find("-"))]
    assert [event.content for event in late if isinstance(event, CallFinished)] == ["acted 1"]
    assert len((tmp_path / "effects").read_text().splitlines()) == 1
    assert any(isinstance(event, Reconciled) and event.found == "unknown" for event in before)


def test_the_owner_is_named_to_whoever_comes_second_and_its_death_frees_the_run_at_once(tmp_path):
    owner = start(tmp_path, "begin")
    wait_for(tmp_path / "acting")
    second = start(tmp_path, "messages", "0")
    assert ended(second) == {"done": 0, "busy": 0}
    agent = make(tmp_path, waits=False)
    with pytest.raises(Exception, match=f"process {owner.pid} on ") as busy:
        agent.resume_sync("-")
    assert busy.value.owner.pid == owner.pid  # type: ignore[attr-defined]
    owner.kill()
    owner.communicate()
    outcome = agent.resume_sync("-")
    assert outcome.completed
    assert "outcome unknown" in json.dumps(outcome.messages)


def race(directory, rounds):
    make(directory, waits=False).run_sync("go")
    both = [start(directory, "messages", str(rounds)) for _ in range(2)]
    told = [ended(process, 500) for process in both]
    assert [one["done"] for one in told] == [rounds, rounds]
    events = events_of(directory)
    effects = [line.split()[0] for line in (directory / "effects").read_text().splitlines()]
    assert len(effects) == len(set(effects)) == 2 * rounds + 1
    assert sum(isinstance(event, CallFinished) for event in events) == 2 * rounds + 1
    assert sum(isinstance(event, Said) for event in events) == 2 * rounds + 1
    assert replay(events).holds
    stop = fold(events).stop
    assert stop is not None
    assert stop.kind == "completed"


def test_two_processes_that_resume_the_same_run_lose_nothing_and_do_nothing_twice(tmp_path):
    race(tmp_path, 10)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_processes_that_resume_the_same_run_200_times_each_do_so_too(tmp_path):
    race(tmp_path, 200)
