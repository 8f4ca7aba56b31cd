# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""A person at a pseudo-terminal: the prompt before anything runs, and the text as it streams."""

import pexpect
import pytest

from support.process import command, environment
from support.script import asks, says, tool_use
from support.server import Server


@pytest.fixture
def server():
    with Server(
        [asks(tool_use("t", "write_file", {"path": "notes.txt", "content": "hello"})), says("Understood.")],
        require_key=False,
    ) as server:
        yield server


def spawn(server, project, *flags, columns=100):
    arguments = command("write 'hello' to notes.txt", "--base-url", server.base_url, "--model", "m", *flags)
    return pexpect.spawn(
        arguments[0],
        list(arguments[1:]),
        cwd=str(project),
        env=environment(),
        encoding="utf-8",
        timeout=20,
        dimensions=(40, columns),
    )


def finish(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def heard(server):
    return server.requests[-1].body["messages"][-1]["content"][0]


def test_a_high_impact_call_asks_before_it_writes(server, tmp_path):
    child = spawn(server, tmp_path)
    child.expect(r"\[approve\] about to run write_file \(high impact; rule: default = ask\)")
    child.expect('path +"notes.txt"')
    child.expect('content +"hello"')
    child.expect("Enter")
    assert not (tmp_path / "notes.txt").exists()
    child.send("\r")
    child.expect("Understood.")
    assert finish(child) == 0
    assert (tmp_path / "notes.txt").read_text() == "hello"


@pytest.mark.parametrize(("typed", "reason"), [("n", None), ("n not in this folder", "not in this folder")])
def test_n_leaves_no_file_and_the_model_hears_it(server, tmp_path, typed, reason):
    child = spawn(server, tmp_path)
    child.expect("allow once")
    child.send(typed + "\r")
    assert finish(child) == 0
    assert not (tmp_path / "notes.txt").exists()
    assert heard(server)["is_error"] is True
    assert "did not run" in heard(server)["content"]
    assert reason is None or reason in heard(server)["content"]


def test_the_end_of_input_declines(server, tmp_path):
    child = spawn(server, tmp_path)
    child.expect("allow once")
    child.sendeof()
    assert finish(child) == 0
    assert not (tmp_path / "notes.txt").exists()


def test_a_question_mark_explains_and_other_text_asks_again(server, tmp_path):
    child = spawn(server, tmp_path)
    child.expect("allow once")
    child.send("?\r")
    child.expect("exactly what will run")
    child.expect("allow once")
    child.send("yes please\r")
    child.expect("not understood")
    assert not (tmp_path / "notes.txt").exists()
    child.send("n\r")
    assert finish(child) == 0
    assert not (tmp_path / "notes.txt").exists()


def test_what_was_typed_before_the_prompt_does_not_count(tmp_path):
    import threading

    from support.script import Slow

    answer = threading.Event()
    script = [Slow(asks(tool_use("t", "write_file", {"path": "n", "content": "x"})), answer), says("ok")]
    with Server(script, require_key=False) as server:
        child = spawn(server, tmp_path)
        server.wait_for_requests(1)
        child.send("\r\r\r")
        child.expect("\r\n\r\n\r\n")
        answer.set()
        child.expect("allow once")
        assert not (tmp_path / "n").exists()
        child.send("n\r")
        assert finish(child) == 0
    assert not (tmp_path / "n").exists()


def test_s_allows_the_tool_for_the_session(tmp_path):
    writes = [asks(tool_use(f"t{n}", "write_file", {"path": f"{n}.txt", "content": "x"})) for n in (1, 2)]
    with Server([*writes, says("done")], require_key=False) as server:
        child = spawn(server, tmp_path)
        child.expect("allow once")
        child.send("s\r")
        assert finish(child) == 0
        assert child.before.count("[approve]") == 0
    assert (tmp_path / "2.txt").exists()


def test_a_secret_file_asks_even_where_a_rule_allows_the_tool(tmp_path):
    (tmp_path / ".env").write_text("TOKEN=1")
    with Server(
        [asks(tool_use("t", "read_file", {"path": ".env"})), says("ok")], require_key=False
    ) as server:
        child = spawn(server, tmp_path, "--allow", "read_file")
        child.expect(r"\[approve\] about to run read_file")
        child.send("n\r")
        assert finish(child) == 0
        assert "TOKEN" not in heard(server)["content"]


def test_no_control_character_of_the_model_reaches_the_terminal(tmp_path):
    hostile = "a\x1b[2J\x1b]0;owned\x07\u202ee\u200bnd\x9b31m\rX\b"
    script = [
        asks(tool_use("t", "write_file", {"path": hostile, "content": hostile}), words=hostile),
        says(hostile),
    ]
    with Server(script, require_key=False) as server:
        child = spawn(server, tmp_path)
        child.expect("allow once")
        shown = child.before
        child.send("n\r")
        child.expect(pexpect.EOF)
        shown += child.before
        child.close()
    for character in "\x1b\x07\u202e\u200b\x9b\b":
        assert character not in shown
    assert "\rX" not in shown


def test_ctrl_c_at_the_prompt_ends_the_run_and_writes_nothing(server, tmp_path):
    child = spawn(server, tmp_path)
    child.expect("allow once")
    child.sendintr()
    child.expect("Enter ends it")
    child.send("\r")
    assert finish(child) == 130
    assert not (tmp_path / "notes.txt").exists()
    assert "Traceback" not in child.before


@pytest.mark.parametrize(("language", "prompt"), [("es", "permitir una vez"), ("pt", "permitir uma vez")])
def test_the_prompt_speaks_the_users_language(server, tmp_path, language, prompt):
    child = spawn(server, tmp_path, "--lang", language)
    child.expect(prompt)
    child.send("n\r")
    assert finish(child) == 0


def test_text_streams_to_a_terminal_before_the_reply_is_whole(tmp_path):
    with Server(
        [says("first second third", pause_seconds=0.05, chunk_bytes=60)], require_key=False
    ) as server:
        child = spawn(server, tmp_path)
        child.expect("first")
        child.expect("third")
        assert finish(child) == 0
