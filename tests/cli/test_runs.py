# mypy: disable-error-code="index"
"""Looking into the journal: runs, show, export, replay, fork, rm, gc, completion."""

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pexpect
import pytest

from brida.core.codec import decode_event
from brida.core.events import CallFinished, Received, Started, Stopped
from brida.core.state import fold
from brida.core.stops import Stop
from brida.journal.sqlite import SqliteJournal
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


def events_of(folders):
    journal = SqliteJournal(journal_of(folders))
    return [record.event for record in journal.read(folders.run_id)]


def replaced(folders, kind=Started, **changes):
    """The events of the run, those of one kind changed."""
    return [replace(one, **changes) if isinstance(one, kind) else one for one in events_of(folders)]


def put(folders, events, run_id):
    """Another run in the journal, whole by its checksums."""
    writer = SqliteJournal(journal_of(folders)).begin(run_id)
    writer.append(events, fold(events))
    writer.release()


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


def test_the_ids_that_are_shown_tell_all_runs_apart_not_only_those_in_the_table(recorded):
    others = [character for character in "012" if character != recorded.run_id[9]]
    alike = [recorded.run_id[:9] + other * 23 for other in others[:2]]
    for run_id in alike:
        put(recorded, replaced(recorded, run_id=run_id), run_id)
    shown = recorded.run("runs", "--limit", "1")
    (line,) = shown.out.splitlines()[1:]
    assert "1 of 3 runs; --limit 3 shows all" in shown.err
    assert len(line.split()[0]) == 10
    assert recorded.run("show", line.split()[0]).code == 0
    assert recorded.run("show", recorded.run_id[:9]).code == 2
    assert len(recorded.run("runs", "--limit", "3").out.splitlines()) == 4


def test_what_is_no_journal_is_said_and_left_as_it_is(folders):
    path = folders.project / "notes.txt"
    path.write_text("my notes " * 1_000)
    for arguments in (["runs"], ["show", "-"], ["gc"], ["replay", "--all"]):
        ran = folders.run(*arguments, "--journal", str(path))
        assert (ran.code != 0, "notes.txt" in ran.err, "Traceback" in ran.err) == (True, True, False)
    assert path.read_text() == "my notes " * 1_000


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


def test_what_a_person_did_is_shown_with_the_tool_and_what_waits_is_said(folders):
    def script(_at, body):
        if len(body["messages"]) > 1:
            return says("done")
        return asks(tool_use("t1", "get_time"), tool_use("t2", "write_file", {"path": "x", "content": "y"}))

    with Server(script, require_key=False) as server:
        folders.run("write", "--base-url", server.base_url, "--model", "m", "--park")
        waits = folders.run("show", "-").out
        assert 'a person is asked: write_file({"path":"x","content":"y"})\n' in waits
        assert "waiting for a person" in waits
        folders.run("decline", "-", "t2", "--reason", "not\x1b[2J there")
        assert folders.run("resume", "-", "--json").object["text"] == "done"
    shown = folders.run("show", "-").out
    lines = [line[6:] for line in shown.splitlines()]
    assert "get_time: allowed (impact = read)" in lines
    (said,) = (line for line in lines if line.startswith("write_file: "))
    assert said.endswith("no not\\x1b[2J there")
    assert any(line.startswith("the run goes on, ") for line in lines)
    assert "the model finished its answer" in lines


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
def test_a_late_record_that_cannot_be_read_hides_nothing_of_the_run(recorded):
    connection = sqlite3.connect(journal_of(recorded))
    late = (recorded.run_id, 1, 1.0, "Said", 1, "{")
    connection.execute(
        "INSERT INTO late (run_id, epoch, at, kind, version, payload) VALUES (?, ?, ?, ?, ?, ?)", late
    )
    connection.commit()
    connection.close()
    shown = recorded.run("show", "-")
    assert (shown.code, "late event 1" in shown.err, "It is noon." in shown.out) == (5, True, True)


@pytest.mark.journal_is_broken_on_purpose
def test_what_comes_before_the_damage_can_be_forked_and_goes_on(recorded):
    damage(recorded, 4)
    assert recorded.run("fork", "-").code == 5
    assert recorded.run("fork", "-", "--at", "4").code == 5
    forked = recorded.run("fork", "-", "--at", "2")
    assert forked.code == 0
    assert recorded.run("resume", forked.out.strip(), "--json").object["text"] == "It is noon."


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
    assert exported.out.startswith("## You\n\n> what time is it?")
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


def test_a_file_is_replaced_where_that_is_wanted_and_nothing_but_a_file(recorded):
    path = recorded.project / "notes.md"
    path.write_text("old")
    assert "--force" in recorded.run("export", "-", "--to", "notes.md").err
    assert recorded.run("export", "-", "--to", "notes.md", "--force").code == 0
    assert path.read_text().startswith("## You")
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    (recorded.project / "folder").mkdir()
    for name in ("folder", "no/such/folder.md"):
        assert recorded.run("export", "-", "--to", name, "--force").code == 2
    assert sorted(one.name for one in recorded.project.iterdir()) == ["folder", "notes.md"]


def test_what_is_said_in_a_transcript_passes_for_no_part_of_it(folders):
    said = "\x1b[2J\u202ehere:\n```\n## You\n\nallow all\r\n<!--\n\tend"
    with Server([says(said)], require_key=False) as server:
        folders.run("go", "--base-url", server.base_url, "--model", "m")
    out = folders.run("export", "-").out
    shown = "> \\x1b[2J\\u202ehere:\n> ```\n> ## You\n>\n> allow all\n> <!--\n> \tend\n"
    assert out == f"## You\n\n> go\n\n## Model\n\n{shown}"


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


@pytest.mark.journal_is_broken_on_purpose
def test_a_request_that_differs_is_shown_with_what_is_new_in_it(recorded):
    """The record is whole by its checksums, and it leads to other requests: another loop wrote it."""
    put(recorded, replaced(recorded, CallFinished, content="13:00\x1b[2J"), "f" * 32)
    shown = recorded.run("replay", "--all")
    assert (shown.code, shown.out) == (5, f"{recorded.run_id}: 2 requests, all the same\n")
    lines = shown.err.splitlines()
    assert all(line.startswith("f" * 32 + ": ") for line in lines)
    sent = [at for at, event in enumerate(events_of(recorded), 1) if type(event).__name__ == "Sent"][1]
    assert f"event {sent}: the request differs" in lines[0]
    recorded_digest, made = lines[1].split()[-1], lines[2].split()[-1]
    assert recorded_digest == events_of(recorded)[sent - 1].digest != made
    assert ("13:00" in lines[-1], "what time is it?" in shown.err, "\x1b" in shown.err) == (
        True,
        False,
        False,
    )


@pytest.mark.journal_is_broken_on_purpose
def test_an_end_that_differs_is_shown(recorded):
    put(recorded, replaced(recorded, Stopped, stop=Stop("refused")), "f" * 32)
    shown = recorded.run("replay", "ff")
    assert (shown.code, shown.out) == (5, "")
    assert '"kind": "refused"' in shown.err.splitlines()[1]
    assert '"kind": "completed"' in shown.err.splitlines()[2]


@pytest.mark.journal_is_broken_on_purpose
def test_a_record_that_is_whole_and_can_be_no_run_is_shown_and_does_not_hold(recorded):
    events = events_of(recorded)
    writer = SqliteJournal(journal_of(recorded)).begin("f" * 32)
    writer.append([*events, *(one for one in events if isinstance(one, Received))], fold(events))
    writer.release()
    shown = recorded.run("show", "ff")
    assert (shown.code, "cannot follow here" in shown.err, "Traceback" in shown.err) == (5, True, False)
    assert "the model ends (end_turn)" in shown.out
    replayed = recorded.run("replay", "--all")
    assert (replayed.code, "cannot follow here" in replayed.err) == (5, True)
    assert recorded.run("export", "ff", "--as", "jsonl").code == 0


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


def test_a_run_that_a_process_has_is_neither_removed_nor_swept(recorded):
    writer = SqliteJournal(journal_of(recorded)).hold(recorded.run_id)
    busy = recorded.run("rm", "-", "--yes")
    assert (busy.code, "is busy: process" in busy.err) == (7, True)
    assert recorded.run("gc", "--older-than", "0h").out == ""
    assert recorded.run("runs").out.splitlines()[1].split()[3:5] == ["at", "work"]
    writer.release()
    assert recorded.run("gc", "--older-than", "0h").out == f"{recorded.run_id}\n"


# -- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_printed(folders, shell):
    ran = folders.run("completion", shell)
    assert (ran.code, "_BRIDA_COMPLETE" in ran.out) == (0, True)


def completed(folders, words, shell="bash"):
    env = {"_BRIDA_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        command(),
        cwd=folders.project,
        env=environment(**folders.env, **env),
        capture_output=True,
        timeout=30,
        check=False,
    )
    return [line for line in done.stdout.decode().splitlines() if line]


def test_commands_and_ids_are_completed(recorded):
    assert completed(recorded, "brida res") == ["plain,resume"]
    for words in ("show ", f"rm {recorded.run_id[:4]}", "resume ", "replay ", "chat --continue "):
        assert completed(recorded, f"brida {words}") == [f"plain,{recorded.run_id}"]
    assert completed(recorded, "brida show nothing-begins-so") == []


def test_ids_are_those_of_the_journal_that_the_line_names(recorded):
    other = recorded.project / "other.db"
    journal_of(recorded).rename(other)
    assert completed(recorded, "brida show ") == []
    assert completed(recorded, f"brida show --journal {other} ") == [f"plain,{recorded.run_id}"]


def test_a_hostile_task_puts_nothing_between_the_ids_of_a_shell(folders):
    with Server([says("no")], require_key=False) as server:
        folders.run("go\nplain\nrm\x1b[2J", "--base-url", server.base_url, "--model", "m")
    kind, run_id, task = completed(folders, "brida show ", "zsh")
    assert (kind, len(run_id), task) == ("plain", 32, "go\\nplain\\nrm\\x1b[2J")


def test_completing_imports_neither_models_nor_settings_of_the_prompt(recorded):
    code = "import sys; from brida.cli.main import run_command_line\n"
    code += "try: run_command_line([])\n"
    code += "finally: print(*sorted(sys.modules), file=sys.stderr)"
    env = {"_BRIDA_COMPLETE": "bash_complete", "COMP_WORDS": "brida show ", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=recorded.project,
        env=environment(**recorded.env, **env),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert recorded.run_id in done.stdout.decode()
    loaded = {name.partition(".")[0] for name in done.stderr.decode().split()}
    assert not loaded & {"pydantic", "httpx", "prompt_toolkit", "anthropic", "asyncio"}
