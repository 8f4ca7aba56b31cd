# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""A conversation at a pseudo-terminal: messages, commands, and Ctrl-C at every moment."""

import json
import signal
import stat
import threading
from contextlib import contextmanager

import pexpect
import pytest

from support.process import brida, command, environment
from support.script import Slow, asks, says, tool_use
from support.server import Server

CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"
READY = "\x1b[?2004h"
"""What a terminal is told where a line can be typed: pasted text is to be marked as such."""


@contextmanager
def talking(script, project, *flags, **env):
    """A conversation and the server that answers it; both are gone at the end."""
    with Server(script, require_key=False) as server:
        arguments = command("chat", "--base-url", server.base_url, "--model", "m", *flags)
        child = pexpect.spawn(
            arguments[0],
            list(arguments[1:]),
            cwd=str(project),
            env=environment(TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1", HOME=str(project), **env),
            encoding="utf-8",
            timeout=20,
            dimensions=(40, 100),
        )
        try:
            child.expect("/help lists the commands")
            child.expect_exact(READY)
            yield child, server
        finally:
            child.close(force=True)


def say(child, text):
    child.send(text)
    child.send("\r")


def ends(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def texts(body):
    return [b["text"] for m in body["messages"] for b in m["content"] if b["type"] == "text"]


def test_each_message_goes_on_with_the_same_history(tmp_path):
    with talking([says("It is noon."), says("It is one.")], tmp_path) as (child, server):
        say(child, "what time is it?")
        child.expect("It is noon.")
        child.expect("1 model request")
        say(child, "and in an hour?")
        child.expect("It is one.")
        child.expect("in this session")
        say(child, "/end")
        assert ends(child) == 0
    assert texts(server.bodies[1]) == ["what time is it?", "It is noon.", "and in an hour?"]


def test_alt_enter_begins_a_new_line(tmp_path):
    with talking([says("Understood.")], tmp_path) as (child, server):
        child.send("first")
        child.send(ALT_ENTER)
        say(child, "second")
        child.expect("Understood.")
        child.send(CTRL_D)
        assert ends(child) == 0
    assert texts(server.bodies[0]) == ["first\nsecond"]


def test_a_call_is_asked_about_in_a_conversation_too(tmp_path):
    script = [asks(tool_use("t", "write_file", {"path": "n.txt", "content": "x"})), says("Done.")]
    with talking(script, tmp_path) as (child, _):
        say(child, "write it")
        child.expect("allow once")
        child.send("\r")
        child.expect("Done.")
        child.send(CTRL_D)
        assert ends(child) == 0
    assert (tmp_path / "n.txt").read_text() == "x"


def test_an_answer_for_the_session_holds_for_the_conversation(tmp_path):
    calls = [asks(tool_use(f"t{n}", "write_file", {"path": f"{n}.txt", "content": "x"})) for n in range(2)]
    with talking([calls[0], says("Done."), calls[1], says("Again.")], tmp_path) as (child, _):
        say(child, "write it")
        child.expect("allow once")
        child.send("s\r")
        child.expect("Done.")
        say(child, "/policy")
        child.expect("allowed this session: write_file")
        say(child, "write another")
        child.expect("Again.")
    assert (tmp_path / "1.txt").exists()


# --- commands ---------------------------------------------------------------------------------------------


def test_help_lists_every_command(tmp_path):
    with talking([], tmp_path) as (child, _):
        say(child, "/help")
        for word in ("/help", "/limits", "/tools", "/policy", "/save", "/end"):
            child.expect(word)


def test_limits_shows_what_is_used_and_renews_the_budget(tmp_path):
    usage = {"input_tokens": 60_000, "output_tokens": 40}
    script = [says("One.", usage=usage), says("Two.", usage=usage)]
    with talking(script, tmp_path, "--max-tokens-total", "61000") as (child, server):
        say(child, "first")
        child.expect("One.")
        say(child, "/limits")
        child.expect("max_tokens_total +61000 +used: 60040")
        say(child, "second")
        child.expect("token budget: 60040 of 61000 tokens used")
        say(child, "/limits reset")
        child.expect("begins again")
        say(child, "third")
        child.expect("Two.")
    assert texts(server.bodies[-1]) == ["first", "One.", "second", "third"]


def test_tools_says_what_happens_where_the_model_asks(tmp_path):
    with talking([], tmp_path, "--deny", "delete_file") as (child, _):
        say(child, "/tools")
        child.expect("read_file +allow +impact: read")
        child.expect("write_file +ask +impact: high; rule: default = ask")
        child.expect("delete_file +deny .*rule: deny delete_file")


@pytest.mark.parametrize("name", ["talk.md", "talk.json"])
def test_save_writes_a_new_file_for_its_owner_alone(tmp_path, name):
    with talking([says("It is noon.")], tmp_path) as (child, _):
        say(child, f"/save {name}")
        child.expect("nothing has been said yet")
        say(child, "what time is it?")
        child.expect("It is noon.")
        say(child, f"/save {name}")
        child.expect("written: ")
        say(child, f"/save {name}")
        child.expect("is there already")
        say(child, "/save no/such/folder.md")
        child.expect("cannot be written")
        say(child, "/save")
        child.expect("/save FILE")
    path = tmp_path / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if name.endswith("json"):
        assert [m["role"] for m in json.loads(path.read_text())] == ["user", "assistant"]
    else:
        assert path.read_text() == "## You\n\n> what time is it?\n\n## Model\n\n> It is noon.\n"


def test_an_unknown_command_is_no_message(tmp_path):
    with talking([], tmp_path) as (child, server):
        say(child, "/hlep")
        child.expect("there is no command /hlep")
    assert server.requests == []


def test_a_path_at_the_beginning_is_a_message(tmp_path):
    with talking([says("A file.")], tmp_path) as (child, _):
        say(child, "/etc/hosts is what?")
        child.expect("A file.")


def test_a_blank_line_is_nothing(tmp_path):
    with talking([says("Hello.")], tmp_path) as (child, server):
        say(child, "  ")
        say(child, "hello")
        child.expect("Hello.")
    assert len(server.bodies) == 1


# --- what is remembered -----------------------------------------------------------------------------------


def test_what_was_typed_is_remembered_for_its_owner_alone_but_not_what_begins_with_a_blank(tmp_path):
    with talking([says("One."), says("Two.")], tmp_path) as (child, _):
        say(child, "an ordinary line")
        child.expect("One.")
        say(child, " a private line")
        child.expect("Two.")
    (path,) = tmp_path.rglob("chat_history")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = path.read_text()
    assert "an ordinary line" in kept
    assert "private" not in kept


def test_a_history_that_cannot_be_kept_is_said_and_no_obstacle(tmp_path):
    (tmp_path / ".local").write_text("in the way")
    with Server([says("Hello.")], require_key=False) as server:
        arguments = command("chat", "--base-url", server.base_url, "--model", "m", "--no-journal")
        child = pexpect.spawn(
            arguments[0],
            list(arguments[1:]),
            cwd=str(tmp_path),
            env=environment(TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1", HOME=str(tmp_path)),
            encoding="utf-8",
            timeout=20,
        )
        child.expect("what you type is not remembered")
        child.expect_exact(READY)
        say(child, "hello")
        child.expect("Hello.")
        child.close(force=True)


def test_a_history_that_can_no_longer_be_written_is_no_obstacle(tmp_path):
    with talking([says("Hello.")], tmp_path) as (child, _):
        (path,) = tmp_path.rglob("chat_history")
        path.unlink()
        path.mkdir()
        say(child, "hello")
        child.expect("Hello.")
        child.send(CTRL_D)
        assert ends(child) == 0


# --- Ctrl-C at every moment -------------------------------------------------------------------------------


def test_ctrl_c_while_nothing_happens_throws_the_line_away(tmp_path):
    with talking([says("Hello.")], tmp_path) as (child, server):
        child.send("not this")
        child.send(CTRL_C)
        child.expect("Ctrl-D or /end ends the conversation")
        say(child, "hello")
        child.expect("Hello.")
    assert texts(server.bodies[0]) == ["hello"]


def test_an_interrupt_from_outside_while_nothing_happens_is_the_same(tmp_path):
    with talking([says("Hello.")], tmp_path) as (child, _):
        child.kill(signal.SIGINT)
        child.expect("Ctrl-D or /end ends the conversation")
        say(child, "hello")
        child.expect("Hello.")


def test_ctrl_c_while_the_model_is_asked_ends_that_message_and_not_the_conversation(tmp_path):
    never = threading.Event()
    with talking([Slow(says("late"), never), says("Hello.")], tmp_path) as (child, server):
        say(child, "first")
        server.wait_for_requests(1)
        child.send(CTRL_C)
        child.expect("interrupted")
        child.expect_exact(READY)
        say(child, "second")
        child.expect("Hello.")
        never.set()
        child.send(CTRL_D)
        assert ends(child) == 0
    assert texts(server.bodies[1]) == ["first", "second"]


def test_ctrl_c_at_a_question_ends_that_message_and_nothing_runs(tmp_path):
    script = [asks(tool_use("t", "write_file", {"path": "n.txt", "content": "x"})), says("Hello.")]
    with talking(script, tmp_path) as (child, server):
        say(child, "write it")
        child.expect("allow once")
        child.send(CTRL_C)
        child.expect("interrupted")
        child.expect_exact(READY)
        say(child, "never mind")
        child.expect("Hello.")
    assert not (tmp_path / "n.txt").exists()
    assert "did not run: interrupted" in server.bodies[1]["messages"][-1]["content"][0]["content"]


SLOW_TOOL = """
import pathlib, time
from brida import current_call, tool

@tool(impact="read")
def slow() -> str:
    \"\"\"Takes long.\"\"\"
    pathlib.Path("begun").touch()
    current_call().cancelled.wait(30)
    return "cancelled"
"""


def test_ctrl_c_in_a_tool_lets_it_end_and_a_second_one_does_not(tmp_path):
    (tmp_path / "slow_tools.py").write_text(SLOW_TOOL)
    script = [asks(tool_use("t", "slow", {})), says("Hello.")]
    with talking(script, tmp_path, "--tools", "slow_tools:slow") as (child, server):
        say(child, "take long")
        child.expect("asks for slow")
        child.send(CTRL_C)
        child.expect("press Ctrl-C again")
        child.send(CTRL_C)
        child.expect("interrupted")
        child.expect_exact(READY)
        say(child, "never mind")
        child.expect("Hello.")
    assert "outcome unknown" in server.bodies[1]["messages"][-1]["content"][0]["content"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_process_ends_the_conversation(tmp_path, number):
    with talking([], tmp_path) as (child, _):
        child.kill(number)
        assert ends(child) == 130


def test_a_hang_up_during_a_message_ends_both(tmp_path):
    never = threading.Event()
    with talking([Slow(says("late"), never)], tmp_path) as (child, server):
        say(child, "first")
        server.wait_for_requests(1)
        child.kill(signal.SIGTERM)
        assert ends(child) == 130
        never.set()


# --- where it cannot be -----------------------------------------------------------------------------------


def test_without_a_terminal_there_is_no_conversation(tmp_path):
    ran = brida("chat", "--model", "m", "--base-url", "http://127.0.0.1:1", cwd=tmp_path)
    assert ran.code == 2
    assert "needs a terminal" in ran.err


def test_a_model_that_cannot_be_asked_is_said_and_the_conversation_goes_on(tmp_path):
    from support.script import Error

    with talking([Error(400, "invalid_request_error", "no"), says("Hello.")], tmp_path) as (child, _):
        say(child, "first")
        child.expect("could not be asked")
        say(child, "second")
        child.expect("Hello.")
