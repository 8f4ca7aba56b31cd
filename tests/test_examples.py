"""The examples, as a reader would run them: processes, against the strict server."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.process import Ran, environment
from support.script import Reply, asks, says, text, tool_use
from support.server import Server

LOOPS = Path(__file__).parent.parent / "examples" / "loops"
BOTH = ("bare.py", "with_brida.py")
TASK = "Read the first line of README.md, then tell me what time it is"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "README.md").write_text("# A title\n\nAnd a text.\n")
    return tmp_path


def run(example: str, server: Server, cwd: Path, task: str = TASK) -> Ran:
    done = subprocess.run(
        [sys.executable, str(LOOPS / example), task],
        cwd=cwd,
        env=environment(ANTHROPIC_BASE_URL=server.base_url, BRIDA_MODEL="claude-sonnet-5"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=50,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("example", BOTH)
def test_both_read_the_file_and_say_the_time(project, example):
    script = [
        asks(tool_use("toolu_1", "read_file", {"path": "README.md"}), tool_use("toolu_2", "get_time")),
        says("It says A title, and it is noon."),
    ]
    with Server(script, require_key=False) as server:
        ran = run(example, server, project)
        first, second = server.bodies
    assert (ran.code, ran.out) == (0, "It says A title, and it is noon.\n"), ran.err
    assert str(first["messages"][0]["content"]).count(TASK) == 1
    results = second["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == ["toolu_1", "toolu_2"]
    assert "# A title" in str(results[0]["content"])
    assert "T" in str(results[1]["content"])


@pytest.mark.parametrize("example", BOTH)
def test_both_offer_the_same_tools(project, example):
    with Server([says("Hello.")], require_key=False) as server:
        run(example, server, project)
        (body,) = server.bodies
    assert [tool["name"] for tool in body["tools"]] == ["get_time", "read_file", "write_file"]


# --- what the reins are for -------------------------------------------------------------------------------


def test_the_bare_loop_takes_a_cut_reply_for_an_answer_and_the_other_asks_again(project):
    call = {"path": "notes.txt", "content": "all that we kn"}
    cut = Reply("max_tokens", [text("I write it dow"), tool_use("toolu_1", "write_file", call)])
    with Server([cut], require_key=False) as server:
        ran = run("bare.py", server, project)
    assert (ran.code, ran.out) == (0, "I write it dow\n")
    with Server([cut, says("Written down.")], require_key=False) as server:
        ran = run("with_brida.py", server, project)
        assert [body["max_tokens"] for body in server.bodies] == [4096, 8192]
        assert server.bodies[0]["messages"] == server.bodies[1]["messages"]
    assert (ran.code, ran.out) == (0, "Written down.\n")
    assert not (project / "notes.txt").exists()


def test_the_bare_loop_writes_without_asking_and_the_other_does_not(project):
    script = [asks(tool_use("t", "write_file", {"path": "notes.txt", "content": "hello"})), says("Done.")]
    with Server(script, require_key=False) as server:
        assert run("bare.py", server, project).out == "Done.\n"
    assert (project / "notes.txt").read_text() == "hello"
    (project / "notes.txt").unlink()
    with Server(script, require_key=False) as server:
        ran = run("with_brida.py", server, project)
        heard = server.bodies[1]["messages"][2]["content"][0]
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert (heard["is_error"], "nobody is there" in heard["content"]) == (True, True)
    assert not (project / "notes.txt").exists()


def test_the_bare_loop_dies_of_an_unknown_tool_and_the_other_tells_the_model(project):
    script = [asks(tool_use("t", "send_email")), says("Sorry.")]
    with Server(script, require_key=False) as server:
        ran = run("bare.py", server, project)
    assert ran.code == 1
    assert "KeyError" in ran.err
    with Server(script, require_key=False) as server:
        assert run("with_brida.py", server, project).out == "Sorry.\n"


def test_the_bare_loop_never_stops_by_itself_and_the_other_does(project):
    def for_ever(number: int, body: dict) -> Reply:
        return says("Enough.") if number == 30 else asks(tool_use(f"toolu_{number}", "get_time"))

    with Server(for_ever, require_key=False) as server:
        assert run("bare.py", server, project).out == "Enough.\n"
        assert len(server.bodies) == 31
    with Server(for_ever, require_key=False) as server:
        ran = run("with_brida.py", server, project)
        assert len(server.bodies) <= 9
    assert ran.code == 3
    assert "no_progress" in ran.err


def test_the_bare_loop_is_short_and_has_no_valve():
    source = (LOOPS / "bare.py").read_text(encoding="utf-8")
    assert 50 <= len(source.splitlines()) <= 75
    for word in ("import brida", "from brida", "max_turns", "try:", "approve"):
        assert word not in source
