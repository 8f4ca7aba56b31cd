# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""The command line as a process, against a real server: what it prints, where, and how it ends."""

import json
import os
import signal
import subprocess
import threading

import pytest

from support.process import BRIDA, brida, environment
from support.script import (
    CutStream,
    Error,
    Reply,
    Slow,
    asks,
    overloaded,
    rate_limited,
    refuses,
    says,
    text,
    tool_use,
)
from support.server import Server

TASK = "Read the first line of README.md, then tell me what time it is"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "README.md").write_text("# A project\nwith two lines\n")
    return tmp_path


def at(server: Server) -> list[str]:
    return ["--base-url", server.base_url, "--model", "test-model"]


def clock_script():
    return [
        asks(tool_use("t1", "read_file", {"path": "README.md"})),
        asks(tool_use("t2", "get_time")),
        says("It is noon."),
    ]


def test_a_task_is_answered_with_a_trace_on_stderr_and_the_text_on_stdout(project):
    with Server(clock_script(), require_key=False) as server:
        ran = brida(TASK, *at(server), cwd=project)
    assert (ran.code, ran.out) == (0, "It is noon.\n")
    assert '[turn 1] the model asks for read_file({"path":"README.md"})' in ran.err
    assert '[turn 1] read_file returned "# A project\\nwith two lines\\n"' in ran.err
    assert "[turn 3] the model ends (end_turn)" in ran.err
    assert "2 turns of tool calls over 3 model requests · " in ran.err
    assert f"test-model at {server.base_url}" in ran.err


def test_the_request_is_exactly_this(project):
    with Server([says("hi")], require_key=False) as server:
        brida(
            "say hi",
            *at(server),
            "--system",
            "be brief",
            "--tools",
            "none",
            "--stop-sequence",
            "END",
            cwd=project,
        )
        body = server.requests[0].body
    assert body == {
        "model": "test-model",
        "system": "be brief",
        "stop_sequences": ["END"],
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "say hi"}]}],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("language", "closing", "ending"),
    [
        ("en", "2 turns of tool calls over 3 model requests", "no progress"),
        ("es", "2 turnos de llamadas a herramientas en 3 peticiones al modelo", "giro en vacío"),
        ("pt", "2 turnos de chamadas de ferramenta em 3 requisições ao modelo", "giro em falso"),
    ],
)
def test_a_run_is_told_in_the_users_language(project, language, closing, ending):
    with Server(clock_script(), require_key=False) as server:
        assert closing in brida(TASK, *at(server), "--lang", language, cwd=project).err
    same = lambda at, body: asks(tool_use(f"t{at}", "get_time"))  # noqa: E731
    with Server(same, require_key=False) as server:
        ran = brida(TASK, *at(server), "--lang", language, cwd=project)
    assert ran.code == 3
    assert ending in ran.err


@pytest.mark.parametrize(("same", "kind"), [(True, "no_progress"), (False, "max_turns")])
def test_a_model_that_asks_for_ever_ends_at_its_valve_as_one_object(project, same, kind):
    def script(at, body):
        return asks(
            tool_use(f"t{at}", "read_file", {"path": "README.md" if same else f"{at}.txt"}), words="on"
        )

    with Server(script, require_key=False) as server:
        ran = brida(TASK, *at(server), "--json", "--lang", "es", cwd=project)
    assert ran.code == 3
    assert (ran.object["stop"]["kind"], ran.object["text"]) == (kind, "on")
    assert len(ran.object["pending"]) == 1
    assert ("giro en vacío" if same else "tope de turnos") in ran.err


CASES = {
    "success": (lambda: [says("fine")], [], 0, "completed"),
    "a valve": (lambda: [asks(tool_use("t", "get_time"))], ["--max-turns", "0"], 3, "max_turns"),
    "refusal": (lambda: [refuses("cyber", "no")], [], 4, "refused"),
    "a failing tool": (
        lambda: [asks(tool_use("t", "read_file", {"path": "/etc/passwd"})), says("well")],
        [],
        0,
        "completed",
    ),
    "a cut reply": (
        lambda: [Reply("max_tokens", [text("half")])] * 2,
        ["--max-tokens", "20000"],
        5,
        "truncated",
    ),
    "a bad request": (lambda: [Error(400, "invalid_request_error", "no")], [], 5, "model_error"),
    "a wait of an hour": (lambda: [rate_limited(3600)], [], 5, "model_error"),
    "bad configuration": (lambda: [], ["--tools", "no_such_tool"], 2, "configuration_error"),
    "a wrong flag": (lambda: [], ["--max-turns", "many"], 2, "configuration_error"),
    "an unknown flag": (lambda: [], ["--frobnicate"], 2, "configuration_error"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_ending_is_one_json_object_on_stdout(project, case):
    script, flags, code, kind = CASES[case]
    with Server(script(), require_key=False) as server:
        ran = brida("go", *at(server), "--json", *flags, cwd=project)
    assert (ran.code, ran.object["stop"]["kind"]) == (code, kind)
    assert "Traceback" not in ran.err
    for field in (
        "run_id",
        "text",
        "turns",
        "requests",
        "usage",
        "cost",
        "pending",
        "questions",
        "declined",
        "denied",
        "failed_calls",
        "seconds",
        "model",
        "base_url",
    ):
        assert field in ran.object


def test_a_fault_is_tried_again_and_shown(project):
    with Server(
        [overloaded(), CutStream(says("never"), 3, "close"), says("at last")], require_key=False
    ) as server:
        ran = brida("go", *at(server), cwd=project)
    assert (ran.code, ran.out) == (0, "at last\n")
    assert "attempt 1 failed: overloaded" in ran.err
    assert "1 model request " in ran.err


@pytest.mark.parametrize("stdin", ["null", "pipe", "closed"])
def test_nobody_there_declines_without_reading_stdin(project, stdin):
    with Server(
        [asks(tool_use("t", "write_file", {"path": "notes.txt", "content": "hello"})), says("ok")],
        require_key=False,
    ) as server:
        read, write = os.pipe()
        more = {"null": {}, "pipe": {"stdin": read}, "closed": {"preexec_fn": lambda: os.close(0)}}[stdin]
        ran = brida("write 'hello' to notes.txt", *at(server), "--json", cwd=project, **more)
        heard = server.requests[1].body["messages"][-1]["content"][0]
        os.close(read)
        os.close(write)
    assert ran.code == 0
    assert [note["tool"] for note in ran.object["declined"]] == ["write_file"]
    assert heard["is_error"] is True
    assert "nobody is there" in heard["content"]
    assert not (project / "notes.txt").exists()


def test_fail_on_declined_changes_the_exit_code_alone(project):
    script = [asks(tool_use("t", "write_file", {"path": "n", "content": ""})), says("ok")]
    with Server(script, require_key=False) as server:
        ran = brida("go", *at(server), "--json", "--fail-on-declined", cwd=project)
    assert (ran.code, ran.object["stop"]["kind"]) == (3, "completed")


@pytest.mark.parametrize(
    ("flags", "written"),
    [
        (["--yes-to", "write_file"], True),
        (["--allow", "write_file"], True),
        (["--allow", "*"], False),
        (["--yes-to", "write_file", "--deny", "write_*"], False),
        (["--allow", "write_file", "--ask", "*"], False),
    ],
)
def test_rules_and_advance_answers_decide(project, flags, written):
    with Server(
        [asks(tool_use("t", "write_file", {"path": "n", "content": "x"})), says("ok")], require_key=False
    ) as server:
        brida("go", *at(server), *flags, cwd=project)
    assert (project / "n").exists() is written


def test_a_denied_tool_is_denied_even_where_it_is_not_registered(project):
    with Server([asks(tool_use("t", "send_email")), says("ok")], require_key=False) as server:
        ran = brida("go", *at(server), "--deny", "send_email", "--json", cwd=project)
        heard = server.requests[1].body["messages"][-1]["content"][0]
    assert "forbidden by policy" in heard["content"]
    assert [note["tool"] for note in ran.object["denied"]] == ["send_email"]


def test_events_are_lines_of_json(project):
    with Server(clock_script(), require_key=False) as server:
        ran = brida(TASK, *at(server), "--events", cwd=project)
    kinds = [json.loads(line)["kind"] for line in ran.out.splitlines()]
    assert kinds[0] == "Started"
    assert kinds[-1] == "Stopped"


def test_json_and_events_exclude_each_other(project):
    ran = brida("go", "--json", "--events", cwd=project)
    assert ran.code == 2


def test_a_word_close_to_a_command_is_no_task(project):
    ran = brida("rum", cwd=project)
    assert ran.code == 2
    assert "brida run" in ran.err


def test_without_any_model_the_three_ways_out_are_named(project):
    blocked = project / "blocked"
    (blocked / "needle").mkdir(parents=True)
    (blocked / "needle" / "__init__.py").write_text("raise ImportError('blocked')\n")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(blocked), env["PYTHONPATH"]])
    done = subprocess.run(
        [*BRIDA, "go", "--json"],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=50,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 2
    for way in ("ANTHROPIC_API_KEY", "--base-url", "brida[embedded]"):
        assert way in json.loads(done.stdout)["stop"]["detail"]["error"]


def test_a_task_can_come_from_standard_input(project):
    read, write = os.pipe()
    os.write(write, b"from a pipe")
    os.close(write)
    with Server([says("ok")], require_key=False) as server:
        assert brida("-", *at(server), cwd=project, stdin=read).code == 0
        said = server.requests[0].body["messages"][0]["content"][0]["text"]
    os.close(read)
    assert said == "from a pipe"


def test_tools_of_ones_own_are_found_in_the_root(project):
    (project / "mytools.py").write_text(
        "from brida import tool\n\n@tool(impact='read')\ndef shout(word: str) -> str:\n"
        "    'Shout.'\n    return word.upper()\n"
    )
    with Server([asks(tool_use("t", "shout", {"word": "hey"})), says("ok")], require_key=False) as server:
        ran = brida("go", *at(server), "--tools", "none", "--tools", "mytools:shout", cwd=project)
        body = server.requests[1].body
    assert ran.code == 0
    assert [tool["name"] for tool in body["tools"]] == ["shout"]
    assert body["messages"][-1]["content"][0]["content"] == "HEY"


def start(project, *arguments, **more):
    return subprocess.Popen(
        [*BRIDA, *arguments],
        cwd=project,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def test_the_first_interrupt_abandons_a_request_at_once(project):
    answer = threading.Event()
    with Server([Slow(says("late"), answer)], require_key=False) as server:
        process = start(project, "go", *at(server), "--json")
        server.wait_for_requests(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        answer.set()
    assert process.returncode == 130
    assert json.loads(out)["stop"]["kind"] == "interrupted"
    assert b"Traceback" not in err


SLOW_TOOL = """
import pathlib, time
from brida import tool

@tool(impact="read")
def slow() -> str:
    "Slow."
    pathlib.Path("running").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return "slow but done"
"""


def wait_for(path):
    deadline = threading.Event()
    for _ in range(2_000):
        if path.exists():
            return
        deadline.wait(0.01)
    raise AssertionError(f"{path} never came")


def test_the_first_interrupt_lets_a_call_end_and_the_second_does_not(project):
    (project / "slow.py").write_text(SLOW_TOOL)
    for presses in (1, 2):
        with Server([asks(tool_use("t", "slow"))], require_key=False) as server:
            process = start(project, "go", *at(server), "--json", "--tools", "slow:slow")
            wait_for(project / "running")
            process.send_signal(signal.SIGINT)
            if presses == 1:
                (project / "go").touch()
            else:
                while b"Ctrl-C" not in process.stderr.readline():
                    pass
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 130
        failed = json.loads(out)["failed_calls"]
        assert len(failed) == presses - 1
        assert b"Traceback" not in err
        for name in ("running", "go"):
            (project / name).unlink(missing_ok=True)


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_a_closed_stream_is_no_traceback(project, closed):
    def close():
        for descriptor in {"stdout": (1,), "stderr": (2,), "both": (1, 2)}[closed]:
            os.close(descriptor)

    with Server(clock_script(), require_key=False) as server:
        process = start(project, TASK, *at(server), preexec_fn=close)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"Traceback" not in err + out
    assert b"Exception ignored" not in err


def test_a_reader_that_goes_away_is_no_traceback(project):
    with Server(clock_script(), require_key=False) as server:
        process = start(project, TASK, *at(server))
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(30) == 0
    process.stderr.close()
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


def test_a_console_without_utf8_gets_escapes(project):
    with Server([says("caf\u00e9 \u2603 \u202e")], require_key=False) as server:
        done = subprocess.run(
            [*BRIDA, "go", *at(server)],
            cwd=project,
            env=environment(PYTHONIOENCODING="ascii"),
            capture_output=True,
            timeout=50,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0
    assert done.stdout.startswith(b"caf\\xe9 \\u2603")


def test_a_secret_in_the_environment_reaches_no_output_and_no_request(project):
    canary = "sk-ant-canary-0123456789"
    with Server(
        [asks(tool_use("t", "get_time")), Error(401, "authentication_error", f"bad key {canary}")]
    ) as server:
        ran = brida("go", *at(server), "--events", "--debug", cwd=project, env={"ANTHROPIC_API_KEY": canary})
        bodies = b"".join(request.raw for request in server.requests)
    assert canary not in ran.out + ran.err
    assert canary.encode() not in bodies


@pytest.mark.parametrize(
    "arguments", [("--lang", "es", "doctor"), ("--quiet", "chat"), ("--max-turns", "1", "runs")]
)
def test_a_command_after_a_flag_is_no_task(tmp_path, arguments):
    with Server([says("never")], require_key=False) as server:
        ran = brida(*arguments, cwd=tmp_path, env={"ANTHROPIC_BASE_URL": server.base_url})
    assert (ran.code, server.bodies) == (2, [])
    assert f"brida run {arguments[-1]}" in ran.err


@pytest.mark.parametrize("flag", ["--deny", "--ask", "--allow"])
def test_a_rule_whose_name_is_nearly_that_of_a_tool_is_a_slip(tmp_path, flag):
    with Server([says("never")], require_key=False) as server:
        ran = brida("go", flag, "delet_file", "--base-url", server.base_url, "--model", "m", cwd=tmp_path)
    assert (ran.code, server.bodies) == (2, [])
    assert "did you mean delete_file?" in ran.err


def test_the_tokens_of_a_closing_reply_are_written_with_an_equals_sign(tmp_path):
    ran = brida("--closing-reply", "200", cwd=tmp_path)
    assert (ran.code, "--closing-reply=200" in ran.err) == (2, True)
