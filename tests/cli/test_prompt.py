# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""A person at a pseudo-terminal edits arguments, and looks at what is long and at what would change."""

import os
import shlex
import signal
import sys
import textwrap

import pexpect
import psutil
import pytest

from support.process import command, environment
from support.script import asks, says, tool_use
from support.server import Server

WRONG_PATH = {"path": "wrong.txt", "content": "hello"}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def temporary(tmp_path):
    """Where files for an editor are made; nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def serve(*calls):
    return Server([asks(*calls), says("Understood.")], require_key=False)


def write(call_id="t", **arguments):
    return tool_use(call_id, "write_file", {**WRONG_PATH, **arguments})


def spawn(server, project, *flags, program=None, columns=100, **more):
    """The command line; ``program`` runs around it, given as the beginning of a command."""
    arguments = [*(program or []), *command("go", "--base-url", server.base_url, "--model", "m", *flags)]
    names = ("VISUAL", "EDITOR", "PAGER", "NO_COLOR")
    env = {name: value for name, value in environment().items() if name not in names}
    return pexpect.spawn(
        arguments[0],
        arguments[1:],
        cwd=str(project),
        env={**env, **{name: str(value) for name, value in more.items()}},
        encoding="utf-8",
        timeout=30,
        dimensions=(40, columns),
    )


def script(folder, name, body):
    """A command line that runs a Python script; ``path`` is the file it is to edit."""
    file = folder / f"{name}.py"
    start = "import json, os, sys, time\nfrom pathlib import Path\npath = Path(sys.argv[-1])\n"
    file.write_text(start + textwrap.dedent(body))
    return shlex.join([sys.executable, str(file)])


def finish(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def heard(server):
    return [block["content"] for block in server.requests[-1].body["messages"][-1]["content"]]


HANGS = """
    import tty
    tty.setraw(0)
    import termios
    modes = termios.tcgetattr(0)
    modes[3] |= termios.ISIG
    termios.tcsetattr(0, termios.TCSANOW, modes)
    os.write(2, b"editing\\r\\n")
    time.sleep(600)
"""
"""An editor that leaves the terminal raw but for the keys that send signals."""


# -- editing


def test_a_path_edited_in_the_editor_is_where_the_write_goes_and_the_model_is_told(
    tmp_path, project, temporary
):
    editor = script(
        tmp_path,
        "right",
        """
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert os.isatty(0) and os.isatty(1) and "ANTHROPIC_API_KEY" not in os.environ
        path.write_text(path.read_text().replace("wrong.txt", "docs/right ñ.txt"), "utf-8")
        """,
    )
    (project / "docs").mkdir()
    with serve(write()) as server:
        secret = "sk-ant-canary-editor"
        child = spawn(server, project, EDITOR=editor, TMPDIR=temporary, ANTHROPIC_API_KEY=secret)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect(r"\+ path +\"docs/right ñ.txt\"")
        child.expect(r"- path +\"wrong.txt\"")
        child.expect(r"\[Enter\] allow once")
        assert list(project.glob("**/*.txt")) == []
        child.send("\r")
        assert finish(child) == 0
        (said,) = heard(server)
    assert (project / "docs" / "right ñ.txt").read_text() == "hello"
    assert not (project / "wrong.txt").exists()
    assert "A person changed the arguments" in said
    assert '{"path":"docs/right ñ.txt"}' in said
    assert list(temporary.iterdir()) == []


def test_visual_goes_before_editor_and_may_have_arguments(tmp_path, project):
    visual = script(tmp_path, "visual", 'path.write_text(json.dumps({"path": sys.argv[1], "content": "x"}))')
    with serve(write()) as server:
        child = spawn(server, project, VISUAL=f"{visual} 'a b.txt'", EDITOR="false")
        child.expect(r"\? why")
        child.send("e\r")
        child.expect(r"\+ path +\"a b.txt\"")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
    assert (project / "a b.txt").read_text() == "x"


def test_one_argument_is_set_in_one_line(project):
    with serve(write()) as server:
        child = spawn(server, project)
        child.expect(r"\? why")
        child.send("e path right one.txt\r")
        child.expect(r"\+ path +\"right one.txt\"")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
        assert '{"path":"right one.txt"}' in heard(server)[0]
    assert (project / "right one.txt").read_text() == "hello"


def test_without_an_editor_every_argument_is_asked_for_and_enter_keeps_it(project):
    with serve(write()) as server:
        child = spawn(server, project)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect("new value of path")
        child.send("\r")
        child.expect("new value of content")
        child.send('"two\\nlines"\r')
        child.expect(r"\+ content +\"two\\n")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
    assert (project / "wrong.txt").read_text() == "two\nlines"


def test_an_edit_can_be_edited_again_and_declined(project):
    with serve(write()) as server:
        child = spawn(server, project)
        child.expect(r"\? why")
        child.send("e path first.txt\r")
        child.expect(r"- path +\"wrong.txt\"")
        child.expect(r"\? why")
        child.send("e path second.txt\r")
        child.expect(r"\+ path +\"second.txt\"")
        child.expect(r"- path +\"wrong.txt\"")
        child.expect(r"\? why")
        child.send("n changed my mind\r")
        assert finish(child) == 0
        assert "changed my mind" in heard(server)[0]
    assert list(project.iterdir()) == []


def test_an_edit_that_is_not_valid_shows_why_and_cannot_be_allowed(project):
    with serve(write()) as server:
        child = spawn(server, project)
        child.expect(r"\? why")
        child.send("e colour blue\r")
        child.expect(r"\+ colour +\"blue\"")
        child.expect("! .*colour")
        child.expect(r"\? why")
        assert "[Enter]" not in child.before
        child.send("\r")
        child.expect("cannot run like this")
        child.expect(r"\? why")
        child.send("s\r")
        child.expect("not understood")
        assert list(project.iterdir()) == []
        child.send("n\r")
        assert finish(child) == 0
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    "body, told",
    [
        ("sys.exit(3)", "exit code 3"),
        ("pass", "nothing was changed"),
        ("path.unlink()", "did not work"),
        ("path.write_bytes(b'\\xff')", "did not work"),
        ("path.write_text('')", "left nothing"),
        ("path.write_text('[1]')", "one JSON object"),
        ("path.write_text('{\"path\": NaN}')", "NaN"),
        ("path.write_text('{\"path\": 1e999}')", "no value that JSON has"),
        ("path.write_text('[' * 100_000)", "this is not JSON"),
    ],
)
def test_an_editor_that_gives_nothing_of_use_changes_nothing_and_the_prompt_is_back(
    tmp_path, project, temporary, body, told
):
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=script(tmp_path, "bad", body), TMPDIR=temporary)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect(told)
        child.expect('path +"wrong.txt"')
        child.expect("allow once")
        assert list(temporary.iterdir()) == []
        child.send("\r")
        assert finish(child) == 0
        assert "changed" not in heard(server)[0]
    assert (project / "wrong.txt").read_text() == "hello"


@pytest.mark.parametrize("editor", ["no-such-editor", "'unclosed", "/dev/null"])
def test_an_editor_that_cannot_be_started_is_said_and_one_line_still_edits(project, editor):
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=editor)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect("did not work")
        child.expect("allow once")
        child.send("e path right.txt\r")
        child.expect(r"\+ path")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
    assert (project / "right.txt").exists()


def test_broken_json_is_kept_and_the_next_edit_goes_on_from_it(tmp_path, project, temporary):
    editor = script(
        tmp_path,
        "twice",
        """
        text = path.read_text()
        path.write_text(text + "}" if text.endswith('"') else '{"path": "mine.txt", "content": "x"')
        """,
    )
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=editor, TMPDIR=temporary)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect("this is not JSON: .* line 1, column")
        child.expect("allow once")
        assert list(temporary.iterdir()) == []
        child.send("e\r")
        child.expect(r"\+ path +\"mine.txt\"")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
    assert (project / "mine.txt").read_text() == "x"


def test_control_characters_that_a_person_pasted_are_shown_as_escapes(tmp_path, project):
    editor = script(
        tmp_path,
        "hostile",
        r"""
        path.write_text(json.dumps({"path": "a\x1b[2J\u202e.txt", "content": "x"}, ensure_ascii=False))
    """,
    )
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=editor)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect(r"\+ path +\"a\\u001b\[2J\\u202e")
        child.expect(r"\? why")
        child.send("n\r")
        assert finish(child) == 0


# -- what would change


def test_d_shows_what_would_change_escaped_line_by_line(project):
    (project / "wrong.txt").write_text("old\x1b[31m line\nsame\n")
    with serve(write(content="new line\nsame\n")) as server:
        child = spawn(server, project)
        child.expect("d difference")
        child.send("d\r")
        child.expect(r"-old\\x1b\[31m line")
        child.expect(r"\+new line")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
    assert (project / "wrong.txt").read_text() == "new line\nsame\n"


@pytest.mark.parametrize(
    "more, coloured", [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)]
)
def test_a_difference_is_coloured_where_the_terminal_and_the_person_have_it(project, more, coloured):
    (project / "wrong.txt").write_text("old\n")
    with serve(write()) as server:
        child = spawn(server, project, **more)
        child.expect("d difference")
        child.send("d\r")
        child.expect("allow once")
        assert ("\x1b[31m-old\x1b[m" in child.before) is coloured
        child.send("n\r")
        assert finish(child) == 0


def test_a_file_that_changed_after_the_question_is_not_overwritten_and_both_sides_hear_it(project):
    (project / "wrong.txt").write_text("old\n")
    with serve(write()) as server:
        child = spawn(server, project)
        child.expect("allow once")
        (project / "wrong.txt").write_text("somebody else's\n")
        child.send("d\r")
        child.expect("has changed since you were asked")
        child.expect("allow once")
        child.send("\r")
        assert finish(child) == 0
        assert "changed since it was approved" in heard(server)[0]
    assert (project / "wrong.txt").read_text() == "somebody else's\n"


def test_a_read_has_no_difference_to_show(project):
    with serve(tool_use("t", "read_file", {"path": "a.txt"})) as server:
        child = spawn(server, project, "--ask", "read_file")
        child.expect(r"\? why")
        assert "difference" not in child.before
        child.send("d\r")
        child.expect("not understood")
        child.send("n\r")
        assert finish(child) == 0


# -- what is long


LONG = "".join(f"{number} \x1b[2J\u202e\x07 of many\n" for number in range(4_000))


@pytest.mark.parametrize("pager", ["cat", "", None, "false", "no-such-pager", "'unclosed"])
def test_a_long_value_is_shown_in_full_and_never_interpreted(project, pager):
    more = {} if pager is None else {"PAGER": pager}
    with serve(write(content=LONG)) as server:
        child = spawn(server, project, columns=80, **more)
        child.expect(r"\.\.\. [0-9]+ more characters; v shows all of it")
        child.expect(r"v view all")
        child.expect(r"\? why")
        shown = child.before
        child.send("v\r")
        pages = 0
        while pages < 3 and child.expect(["3999 .* of many", "q enough"]) == 1:
            pages += 1
            shown += child.before
            child.send("q\r" if pages == 3 else "\r")
        assert pages == (0 if pager == "cat" else 3)
        child.expect("allow once")
        shown += child.before
        child.send("n\r")
        assert finish(child) == 0
    assert not set("\x1b\x07\u202e") & set(shown)
    assert ("did not work" in shown) is (pager in ("false", "no-such-pager"))


def test_less_has_the_terminal_and_gives_it_back(project):
    with serve(write(content="line\n" * 500)) as server:
        child = spawn(server, project, PAGER="less", TERM="xterm")
        child.expect(r"\? why")
        child.send("v\r")
        child.expect("line")
        child.expect("\r?:")
        child.send("q")
        child.expect("allow once")
        child.send("n\r")
        assert finish(child) == 0


# -- several calls


def test_the_calls_of_a_turn_are_listed_and_each_has_its_own_answer(project):
    calls = [write(f"t{number}", path=f"{number}.txt") for number in (1, 2, 3)]
    with serve(*calls) as server:
        child = spawn(server, project)
        child.expect("3 calls of this turn wait for an answer")
        for number in (1, 2, 3):
            child.expect(rf"{number}  write_file \(high impact\)")
            child.expect(rf'"path":"{number}.txt"')
        child.expect(r"\[approve 1 of 3\] about to run write_file")
        child.expect(r"\? why")
        child.send("\r")
        child.expect(r"\[approve 2 of 3\]")
        child.expect(r"\? why")
        child.send("n not this one\r")
        child.expect(r"\[approve 3 of 3\]")
        child.expect(r"\? why")
        child.send("e path third.txt\r")
        child.expect(r"\[approve 3 of 3\]")
        child.expect(r"\? why")
        assert sorted(project.iterdir()) == []
        child.send("\r")
        assert finish(child) == 0
        said = heard(server)
    assert sorted(path.name for path in project.iterdir()) == ["1.txt", "third.txt"]
    assert "not this one" in said[1]
    assert '"third.txt"' in said[2]


def test_an_edit_before_the_last_call_keeps_the_numbers_and_the_list_is_not_repeated(project):
    calls = [write(f"t{number}", path=f"{number}.txt") for number in (1, 2)]
    with serve(*calls) as server:
        child = spawn(server, project)
        child.expect("2 calls of this turn")
        child.expect(r"\? why")
        child.send("e path first.txt\r")
        child.expect(r"\[approve 1 of 2\]")
        child.expect(r"\? why")
        child.send("\r")
        child.expect(r"\[approve 2 of 2\]")
        assert "calls of this turn" not in child.before
        child.expect(r"\? why")
        child.send("\r")
        assert finish(child) == 0
    assert sorted(path.name for path in project.iterdir()) == ["2.txt", "first.txt"]


# -- Ctrl-C, and the ends of a terminal


def test_ctrl_c_in_the_editor_is_the_editors_and_the_question_is_still_open(tmp_path, project, temporary):
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=script(tmp_path, "hangs", HANGS), TMPDIR=temporary)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect("editing")
        child.sendintr()
        child.expect("the editor was interrupted")
        child.expect("allow once")
        assert list(temporary.iterdir()) == []
        child.send("\r")
        assert finish(child) == 0
    assert (project / "wrong.txt").read_text() == "hello"


def test_ctrl_c_in_the_pager_goes_back_to_the_question_and_the_next_one_ends_the_run(tmp_path, project):
    with serve(write(content="line\n" * 500)) as server:
        child = spawn(
            server, project, PAGER=script(tmp_path, "hangs", 'print("paging"); time.sleep(600)') + " -"
        )
        child.expect(r"\? why")
        child.send("v\r")
        child.expect("paging")
        child.sendintr()
        child.expect("allow once")
        child.sendintr()
        child.expect("Enter ends it")
        child.send("\r")
        assert finish(child) == 130
    assert list(project.iterdir()) == []


MOMENTS = {
    "at the question": (["\x03"], {}),
    "while a value is asked for": (["e\r", "new value of path", "\x03"], {}),
    "between pages": (["v\r", "q enough", "\x03"], {}),
    "in the editor, then at the question": (
        ["e\r", "editing", "\x03", "interrupted.*allow once", "\x03"],
        {"EDITOR": HANGS},
    ),
    "with the editor stuck in raw mode": (["e\r", "editing", signal.SIGTERM], {"EDITOR": HANGS}),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_interrupted_ends_valid_and_leaves_the_terminal_as_it_was(
    tmp_path, project, temporary, moment
):
    steps, programs = MOMENTS[moment]
    more = {name: script(tmp_path, name, body) for name, body in programs.items()}
    shell = 'stty -a; echo ====; trap : INT; "$@"; code=$?; echo ====; stty -a; exit $code'
    around = ["/bin/sh", "-c", shell, "sh"]
    with serve(write(content="line\n" * 500)) as server:
        child = spawn(server, project, program=around, TMPDIR=temporary, **more)
        child.expect("====")
        before = child.before
        child.expect(r"\? why")
        for step in steps:
            if isinstance(step, signal.Signals):
                (brida,) = (one for one in psutil.Process(child.pid).children() if "brida" in one.cmdline())
                brida.send_signal(step)
            elif step.endswith("\r") or step == "\x03":
                child.send(step)
            else:
                child.expect(f"(?s){step}")
        if steps[-1] == "\x03":
            child.expect("Enter ends it")
            child.send("\r")
        child.expect("====\r\n")
        assert "Traceback" not in child.before
        assert finish(child) == 130
        assert child.before.split() == before.split()
    assert list(project.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_a_terminal_that_hangs_up_ends_the_editor_and_its_file_is_gone(tmp_path, project, temporary):
    body = HANGS.replace("os.write", "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.write")
    with serve(write()) as server:
        child = spawn(server, project, EDITOR=script(tmp_path, "stays", body), TMPDIR=temporary)
        child.expect(r"\? why")
        child.send("e\r")
        child.expect("editing")
        brida = psutil.Process(child.pid)
        (editor,) = brida.children()
        os.close(child.child_fd)
        _, alive = psutil.wait_procs([editor], timeout=20)
        assert alive == []
        child.wait()
    assert list(project.iterdir()) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("language", ["en", "es", "pt"])
@pytest.mark.parametrize("typed, written", [("", True), ("n", False)])
def test_in_every_language_enter_allows_and_n_declines(project, language, typed, written):
    with serve(write()) as server:
        child = spawn(server, project, "--lang", language)
        child.expect('content +"hello"')
        child.expect(" · .*\r\n")
        child.send(typed + "\r")
        assert finish(child) == 0
    assert (project / "wrong.txt").exists() is written
