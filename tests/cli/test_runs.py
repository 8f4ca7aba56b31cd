# mypy: disable-error-code="index"
"""Looking into the journal: runs, show, export, replay, fork, rm, gc, completion."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pexpect
import pytest

from brida.core.events import decode_event
from support.folders import Folders
from support.process import command, environment
from support.script import asks, says, tool_use
from support.server import Server


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path)


def clock(_at, body):
    if len(body["messages"]) > 1:
        return says("It is noon.")
    return asks(tool_use("toolu_1", "get_time"))


@pytest.fixture
def recorded(folders):
    """A folder in whose journal one run is; its server still answers."""
    with Server(clock, require_key=False) as server:
        ran = folders.run("what time is it?", "--base-url", server.base_url, "--model", "m", "--json")
        assert ran.code == 0
        folders.run_id = ran.object["run_id"]
        yield folders


def journal_of(folders) -> Path:
    (path,) = folders.home.rglob("journal.db")
    return path


def damage(folders, seq, column="payload"):
    connection = sqlite3.connect(journal_of(folders))
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute(f"UPDATE events SET {column} = replace({column}, 'a', 'b') WHERE seq = ?", (seq,))
    connection.commit()
    connection.close()


# -- runs


def test_an_empty_journal_is_said_and_not_made_by_looking(folders):
    for arguments in (["runs"], ["pending"]):
        assert folders.run(*arguments).code == 0
    assert folders.run("runs", "--json").object == {"version": 1, "runs": []}
    assert folders.run("show", "-").code == 2
    assert not list(folders.home.rglob("journal.db"))


def test_the_table_has_a_line_for_each_run(recorded):
    lines = recorded.run("runs").out.splitlines()
    assert lines[0].split() == ["run", "when", "state", "turns", "tokens", "task"]
    run, _day, _hour, state, turns, _tokens, *task = lines[1].split()
    assert recorded.run_id.startswith(run)
    assert (state, turns, " ".join(task)) == ("completed", "1", "what time is it?")
    (row,) = recorded.run("runs", "--json").object["runs"]
    assert (row["state"], row["model"], row["requests"]) == ("completed", "m", 2)


def test_a_hostile_task_breaks_no_line(folders):
    with Server([says("no")], require_key=False) as server:
        task = "\x1b[2Jgo\nrun \u202e" + "x" * 5_000
        folders.run(task, "--base-url", server.base_url, "--model", "m")
    shown = folders.run("runs").out
    assert len(shown.splitlines()) == 2
    assert not {"\x1b", "\u202e"} & set(shown)


# -- show


def test_a_run_is_shown_as_it_went_with_the_numbers_of_its_events(recorded):
    shown = recorded.run("show", recorded.run_id[:6])
    lines = shown.out.splitlines()
    assert shown.code == 0
    assert lines[0].startswith(f"   1  run {recorded.run_id} with m")
    assert any(line.endswith("a person says: what time is it?") for line in lines)
    assert any("[turn 1] the model asks for get_time({})" in line for line in lines)
    assert "It is noon." in lines
    assert lines[-1].startswith("1 turn of tool calls over 2 model requests")
    numbers = [int(line[:4]) for line in lines if line[:4].strip().isdigit()]
    assert numbers == sorted(numbers)


def test_as_json_every_event_is_a_line_with_its_number(recorded):
    lines = [json.loads(line) for line in recorded.run("show", "-", "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["kind"] == "Started"


def test_it_speaks_the_language_that_is_asked_for(recorded):
    assert "una persona dice" in recorded.run("show", "-", BRIDA_LANGUAGE="es").out


@pytest.mark.journal_is_broken_on_purpose
def test_a_damaged_run_is_shown_as_far_as_it_can_be_read_and_not_resumed(recorded):
    damage(recorded, 4)
    shown = recorded.run("show", "-")
    assert shown.code == 5
    assert "event 4 is damaged" in shown.err
    assert "a person says" in shown.out
    resumed = recorded.run("resume", "-", "more", "--json")
    assert (resumed.code, resumed.object["stop"]["kind"]) == (5, "journal_error")
    assert recorded.run("replay", "-").code == 5


@pytest.mark.journal_is_broken_on_purpose
def test_a_record_of_a_newer_brida_is_refused_in_words(recorded):
    connection = sqlite3.connect(journal_of(recorded))
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute("UPDATE events SET version = 99 WHERE seq = 3")
    connection.commit()
    connection.close()
    shown = recorded.run("show", "-")
    assert (shown.code, "newer brida" in shown.err) == (5, True)


# -- export


def test_a_transcript_is_what_is_exported_unless_something_else_is_wanted(recorded):
    exported = recorded.run("export", "-")
    assert exported.out.startswith("## You\n\nwhat time is it?")
    assert "**The model asks for get_time**" in exported.out
    messages = json.loads(recorded.run("export", "-", "--as", "messages").out)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    events = [decode_event(line) for line in recorded.run("export", "-", "--as", "jsonl").out.splitlines()]
    assert type(events[-1]).__name__ == "Stopped"


def test_an_export_never_overwrites(recorded):
    assert recorded.run("export", "-", "--to", "notes.md").code == 0
    path = recorded.project / "notes.md"
    before = path.read_text()
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    again = recorded.run("export", "-", "--to", "notes.md", "--as", "jsonl")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert path.read_text() == before


def test_hostile_text_opens_no_fence_of_a_transcript(folders):
    def script(_at, body):
        if len(body["messages"]) > 1:
            return says("done")
        return asks(tool_use("t", "read_file", {"path": "```\n# You\n"}))

    with Server(script, require_key=False) as server:
        folders.run("go", "--base-url", server.base_url, "--model", "m")
    assert folders.run("export", "-").out.count("## You") == 1


# -- replay and fork


def test_every_request_is_made_again_and_compared(recorded):
    assert recorded.run("replay", "-").out == f"{recorded.run_id}: 2 requests, all the same\n"
    assert recorded.run("replay", "--all").code == 0
    assert recorded.run("replay").code == 2


def test_a_request_that_differs_is_shown_with_what_is_new_in_it(recorded):
    """The record is whole by its checksums, and it leads to other requests: another loop wrote it."""
    from dataclasses import replace

    from brida.core.events import CallFinished
    from brida.core.replay import replay
    from brida.journal.sqlite import SqliteJournal

    journal = SqliteJournal(journal_of(recorded))
    events = [record.event for record in journal.read(recorded.run_id)]
    changed = [replace(e, content="13:00") if isinstance(e, CallFinished) else e for e in events]
    found = replay(changed)
    assert found.mismatch is not None
    assert (found.same, found.holds) == (1, False)
    assert "13:00" in json.dumps(found.mismatch.messages)
    assert found.mismatch.recorded != found.mismatch.made


def test_a_fork_goes_on_by_itself_and_leaves_the_other_as_it_was(recorded):
    before = recorded.run("show", recorded.run_id, "--json").out
    wrong = recorded.run("fork", "-", "--at", "3")
    assert (wrong.code, "the nearest places are: 2, 4" in wrong.err) == (2, True)
    forked = recorded.run("fork", "-", "--at", "2")
    fork_id = forked.out.strip()
    assert forked.code == 0
    assert recorded.run("show", fork_id).out.count("forked from") == 1
    moved = recorded.run("resume", fork_id, "--json")
    assert (moved.code, moved.object["text"], moved.object["run_id"]) == (0, "It is noon.", fork_id)
    assert recorded.run("show", recorded.run_id, "--json").out == before


# -- rm and gc


def test_what_is_removed_is_gone_and_nothing_is_removed_unasked(recorded):
    assert recorded.run("rm", "-").code == 2
    assert recorded.run("rm", "-", "--yes").code == 0
    assert recorded.run("runs", "--json").object["runs"] == []
    assert recorded.run("rm", "-", "--yes").code == 2


def test_at_a_terminal_a_person_is_asked_before_a_run_is_removed(recorded):
    for typed, left in (("n\r", 1), ("y\r", 0)):
        child = recorded.spawn("rm", "-")
        child.expect("Remove for good")
        child.send(typed)
        child.expect(pexpect.EOF)
        child.close()
        assert len(recorded.run("runs", "--json").object["runs"]) == left


def test_old_runs_are_swept_and_what_waits_stays(recorded):
    def asking(_at, _body):
        return asks(tool_use("t", "write_file", {"path": "x", "content": "y"}))

    with Server(asking, require_key=False) as server:
        parked = recorded.run("write", "--base-url", server.base_url, "--model", "m", "--park")
    assert parked.code == 6
    assert recorded.run("gc", "--older-than", "soon").code == 2
    assert recorded.run("gc").out == ""
    assert recorded.run("gc", "--older-than", "0h", "--dry-run").out == f"{recorded.run_id}\n"
    assert recorded.run("gc", "--older-than", "0h").out == f"{recorded.run_id}\n"
    assert [row["state"] for row in recorded.run("runs", "--json").object["runs"]] == ["waiting"]


# -- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_printed(folders, shell):
    ran = folders.run("completion", shell)
    assert (ran.code, "_BRIDA_COMPLETE" in ran.out) == (0, True)


def test_commands_and_ids_are_completed(recorded):
    def completed(words):
        env = {"_BRIDA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            command(),
            cwd=recorded.project,
            env=environment(**recorded.env, **env),
            capture_output=True,
            timeout=30,
            check=False,
        )
        return done.stdout.decode().split()

    assert completed("brida res") == ["plain,resume"]
    assert completed("brida show ") == [f"plain,{recorded.run_id}"]
