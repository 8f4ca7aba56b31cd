# mypy: disable-error-code="arg-type,index"
"""Promise G10: a secret of the environment reaches no model, event, journal, screen or child process.

A canary stands in the environment; the task holds it and tools give it in every way they can. Then all that
leaves the process, and all that it leaves behind, is searched for it.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import pytest
from pydantic import AfterValidator

from brida import Answer, ToolError, reply, run_process, tool, tool_use
from brida.core.codec import encode_event
from brida.core.events import Said
from brida.journal.sqlite import SqliteJournal
from brida.tools.builtin import builtin_tools
from brida.tools.output import RESULT_LIMIT
from support.agents import check, make, results
from support.process import brida
from support.script import asks, says
from support.script import tool_use as call
from support.server import Server

TOKEN = "sk-ant-canary-7Qx/+ \"'\\õ\n-token-0123456789"
PASSWORD = "canary-pass-4711"
PIN = "c4n4ry"
KEY = "sk-ant-canary-key-0123456789"
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": KEY,
    "SERVICE_TOKEN": TOKEN,
    "DATABASE_URL": f"postgres://user:{PASSWORD}@host/db",
    "CUSTOMER": PIN,
}
SECRETS = (TOKEN, PASSWORD, PIN, KEY)


def written(secret: str) -> list[str]:
    """The ways in which a secret may be found."""
    coded = base64.b64encode(secret.encode()).decode()
    return [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret)[1:-1])[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        coded,
        *(secret[at : at + 10] for at in range(len(secret) - 9)),
    ]


def found_in(*texts: str | bytes) -> list[str]:
    """The secrets that are in one of the texts, however they are written."""
    held = "\0".join(text if isinstance(text, str) else text.decode("utf-8", "replace") for text in texts)
    return [form for secret in SECRETS for form in written(secret) if form in held]


LEAKS = """
import base64, json, os, sys
from urllib.parse import quote
from brida import ToolError, run_process, tool

NAMES = ("ANTHROPIC_API_KEY", "SERVICE_TOKEN", "DATABASE_URL", "CUSTOMER")
VALUES = [os.environ[name] for name in NAMES]


@tool(impact="read")
def as_text() -> str:
    return "\\n".join(VALUES)


@tool(impact="read")
def as_value() -> dict:
    return {"environment": dict.fromkeys(VALUES, VALUES), "repr": repr(VALUES)}


@tool(impact="read")
def as_json() -> str:
    return json.dumps(VALUES) + json.dumps(VALUES, ensure_ascii=False)


@tool(impact="read")
def as_address() -> str:
    return " ".join(quote(value, safe="") for value in VALUES)


@tool(impact="read")
def as_base64() -> str:
    return " ".join(base64.b64encode(value.encode()).decode() for value in VALUES)


@tool(impact="read")
def as_error() -> str:
    raise ToolError(f"cannot log in with {VALUES}")


@tool(impact="read")
def as_bug() -> str:
    raise ValueError("|".join(VALUES))


@tool(impact="read")
async def of_a_child() -> str:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    return (await run_process([sys.executable, "-c", code])).output


tools = [as_text, as_value, as_json, as_address, as_base64, as_error, as_bug, of_a_child]
"""
TOOLS = ("as_text", "as_value", "as_json", "as_address", "as_base64", "as_error", "as_bug", "of_a_child")


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "leaks.py").write_text(LEAKS, encoding="utf-8")
    return folder


def left_behind(folder: Path) -> list[bytes]:
    """The bytes of every file below a folder but those of the project itself."""
    return [
        one.read_bytes() for one in folder.rglob("*") if one.is_file() and one.suffix not in (".py", ".pyc")
    ]


@pytest.mark.parametrize("flags", [[], ["--json"], ["--quiet"]])
def test_no_secret_leaves_a_run_of_the_command_line(project, tmp_path, flags):
    task = f"Log in with {TOKEN}, {PASSWORD} and {PIN} at {ENVIRONMENT['DATABASE_URL']}"
    replies = [asks(*(call(f"t{at}", name) for at, name in enumerate(TOOLS))), says("Done.")]
    home = {**ENVIRONMENT, "HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home")}
    journal = str(tmp_path / "home" / "runs.db")
    (tmp_path / "home").mkdir()
    with Server(replies) as server:
        ran = brida(
            *("run", task, "--base-url", server.base_url, "--model", "test-model", "--journal", journal),
            *("--tools", "none", "--tools", "leaks:tools", "--secret", "CUSTOMER", *flags),
            cwd=project,
            env=home,
        )
        bodies = [request.raw for request in server.requests]
    assert ran.code == 0, ran.err
    assert len(bodies) == 2
    looks = () if flags else LOOKS
    shown = [brida(*words, "--journal", journal, cwd=project, env=home) for words in looks]
    assert [look.code for look in shown] == [0] * len(looks), shown
    assert found_in(*bodies) == []
    assert found_in(ran.out, ran.err) == []
    assert found_in(*left_behind(tmp_path)) == []
    assert found_in(*(text for look in shown for text in (look.out, look.err))) == []
    heard = results(json.loads(bodies[1])["messages"][2])
    assert [call_id for call_id, _, _ in heard] == [f"t{at}" for at in range(len(TOOLS))]
    assert [call_id for call_id, content, _ in heard[:-1] if "[secret SERVICE_TOKEN]" not in content] == []
    assert set(ENVIRONMENT).isdisjoint(json.loads(heard[-1][1]))


def test_no_secret_comes_with_a_message_or_an_answer_from_another_terminal(project, tmp_path):
    home = {**ENVIRONMENT, "HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    (project / "acts.py").write_text("from brida import tool\n\n\n@tool\ndef act() -> str:\n    return 'x'\n")
    at_journal = ("--journal", str(tmp_path / "home" / "runs.db"))
    with Server([asks(call("t", "act")), says("Done.")]) as server:
        ways = ("--base-url", server.base_url, "--model", "test-model", "--tools", "none")
        flags = (*ways, "--tools", "acts:act", "--secret", "CUSTOMER", "--park", *at_journal)
        parked = brida("run", "go", *flags, cwd=project, env=home)
        assert parked.code == 6, parked.err
        steered = brida("steer", "-", f"the pin is {PIN}", *at_journal, cwd=project, env=home)
        assert found_in(*left_behind(tmp_path)) == []
        why = ("--reason", f"log in with {PIN} and {TOKEN}")
        declined = brida("decline", "-", "1", *why, *at_journal, cwd=project, env=home)
        resumed = brida("resume", "-", *at_journal, cwd=project, env=home)
        bodies = [request.raw for request in server.requests]
    assert (steered.code, declined.code, resumed.code) == (0, 0, 0), declined.err + resumed.err
    assert b"log in with [secret CUSTOMER] and [secret SERVICE_TOKEN]" in bodies[1]
    assert found_in(*bodies, *left_behind(tmp_path), declined.out, declined.err, resumed.err) == []


LOOKS = (
    ("runs",),
    ("show", "-"),
    ("show", "-", "--json"),
    *(("export", "-", "--as", form) for form in ("markdown", "messages", "jsonl")),
    ("replay", "-"),
)


# --- in code ----------------------------------------------------------------------------------------------


@pytest.fixture
def _canary(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_canary")
def test_no_secret_is_in_the_events_or_the_messages():
    @tool(impact="read")
    def leak() -> list[str]:
        return list(SECRETS)

    agent, model = make([reply(tool_use("t", "leak")), reply("done")], leak, secrets=["CUSTOMER"])
    outcome = agent.run_sync("use " + TOKEN)
    check(outcome, model)
    assert found_in(*map(encode_event, outcome.events), json.dumps(outcome.messages)) == []
    assert found_in(*(json.dumps(dict(body)) for body in model.requests), repr(outcome)) == []
    assert next(event.text for event in outcome.events if isinstance(event, Said)) == (
        "use [secret SERVICE_TOKEN]"
    )


@pytest.mark.usefixtures("_canary")
def test_no_secret_comes_with_a_persons_words():
    @tool
    def act() -> str:
        return "acted"

    agent, model = make(
        [reply(tool_use("t", "act")), reply("done"), reply("again")],
        act,
        secrets=["CUSTOMER"],
        approve=lambda question: Answer(False, reason=f"first log in with {TOKEN}"),
    )

    async def main():
        run = agent.start("go")
        run.steer(f"the password is {PASSWORD}")
        return (await run), (await agent.run(f"{PIN}"))

    for outcome in asyncio.run(main()):
        assert found_in(*map(encode_event, outcome.events)) == []
    assert found_in(*(json.dumps(dict(body)) for body in model.requests)) == []


@pytest.mark.usefixtures("_canary")
@pytest.mark.parametrize("limit", [RESULT_LIMIT, 4_000, 200])
def test_no_part_of_a_secret_is_left_where_a_result_or_an_error_is_cut(limit):
    @tool(impact="read")
    def text(before: int) -> str:
        return "x" * before + KEY + "y" * 40_000

    @tool(impact="read")
    async def fail(before: int) -> str:
        raise ToolError("x" * before + KEY + "y" * 40_000)

    @tool(impact="read")
    def bug(before: int) -> str:
        raise ValueError("x" * before + KEY + "y" * 40_000)

    @tool(impact="read")
    def value(before: int) -> list[str]:
        return ["x" * before + KEY + "y" * 40_000]

    @tool(impact="read")
    def broken(before: int) -> Iterator[str]:
        yield "first"
        raise ValueError("x" * before + KEY)

    tools = (text, fail, bug, value, broken)
    for before in range(limit - 90, limit, 11):
        calls = [tool_use(one.name, one.name, {"before": before}) for one in tools]
        agent, _ = make([*(reply(one) for one in calls), reply("done")], *tools)
        outcome = agent.run_sync("go")
        assert outcome.turns == len(tools)
        assert "sk-ant" not in "".join(encode_event(event).decode() for event in outcome.events)


@pytest.mark.usefixtures("_canary")
def test_what_is_said_of_wrong_arguments_holds_no_secret():
    def check_(value: str) -> str:
        raise ValueError(f"{value} is not {TOKEN}")

    @tool(impact="read")
    def strict(p: Annotated[str, AfterValidator(check_)]) -> str:
        return p

    agent, model = make([reply(tool_use("t", "strict", {"p": "x"})), reply("done")], strict)
    outcome = agent.run_sync("go")
    assert [note.id for note in outcome.failed_calls] == ["t"]
    assert "is not [secret SERVICE_TOKEN]" in str(outcome.messages)
    check(outcome, model)


@pytest.mark.usefixtures("_canary")
def test_a_journal_of_a_program_holds_no_secret(tmp_path):
    @tool(impact="read")
    def leak() -> str:
        return TOKEN

    path = tmp_path / "runs.db"
    agent, model = make(
        [reply(tool_use("t", "leak")), reply("done")], leak, journal=SqliteJournal(path), secrets=["CUSTOMER"]
    )
    outcome = agent.run_sync(f"{PIN} {PASSWORD} {KEY}")
    check(outcome, model)
    assert found_in(*left_behind(tmp_path)) == []


@pytest.mark.usefixtures("_canary")
def test_a_child_has_no_secret_but_the_one_that_it_was_given():
    @tool(impact="read")
    async def child() -> str:
        code = "import os; print(sorted(os.environ), os.environ['CUSTOMER'])"
        given = {"CUSTOMER": os.environ["CUSTOMER"]}
        done = await run_process([sys.executable, "-c", code], environment=given)
        assert PIN in done.output
        return done.output

    agent, model = make([reply(tool_use("t", "child")), reply("done")], child, secrets=["CUSTOMER"])
    outcome = agent.run_sync("go")
    check(outcome, model)
    held = "".join(encode_event(event).decode() for event in outcome.events)
    assert "'CUSTOMER'" in held
    assert "[secret CUSTOMER]" in held
    assert "SERVICE_TOKEN" not in held
    assert "DATABASE_URL" not in held


@pytest.mark.usefixtures("_canary")
def test_a_run_that_is_resumed_sends_the_same_bytes(tmp_path):
    @tool(impact="read")
    def leak() -> str:
        return TOKEN

    path = tmp_path / "runs.db"
    replies = [reply(tool_use("t", "leak")), reply("done"), reply("again")]
    agent, model = make(replies, leak, journal=SqliteJournal(path), secrets=["CUSTOMER"])
    first = agent.run_sync(TOKEN)
    second = agent.resume_sync(first.run_id, f"and {PIN}")
    check(second, model)
    before, after = model.requests[1]["messages"], model.requests[2]["messages"]
    assert after[: len(before)] == before
    assert after[-1]["content"][-1]["text"] == "and [secret CUSTOMER]"
    assert found_in(*left_behind(tmp_path)) == []


@pytest.mark.usefixtures("_canary")
def test_pages_of_a_file_show_no_half_of_a_secret(tmp_path):
    (tmp_path / "notes.txt").write_text("ñ" * 50 + KEY + "\n" + "y" * 50 + "\n")
    read_file = builtin_tools(tmp_path)["read_file"]
    for edge in range(45, 50 + len(KEY) + 4):
        pages = [{"path": "notes.txt", "limit": edge}, {"path": "notes.txt", "offset": edge}]
        calls = [tool_use(f"t{at}", "read_file", page) for at, page in enumerate(pages)]
        agent, _ = make([reply(*calls), reply("done")], read_file)
        first, second = (content for _, content, _ in results(agent.run_sync("go").messages[2]))
        assert found_in(first, second) == []
        first = first.partition("\n[")[0]
        if 50 < edge < 50 + len(KEY):
            assert first + second == "ñ" * 50 + "*" * len(KEY) + "\n" + "y" * 50 + "\n"


@pytest.mark.usefixtures("_canary")
def test_a_page_between_the_ends_of_a_secret_shows_nothing_of_it(tmp_path):
    (tmp_path / "notes.txt").write_text(KEY)
    read_file = builtin_tools(tmp_path)["read_file"]
    call_ = tool_use("t", "read_file", {"path": "notes.txt", "offset": 5, "limit": 12})
    agent, _ = make([reply(call_), reply("done")], read_file)
    ((_, result, _),) = results(agent.run_sync("go").messages[2])
    assert result.startswith("*" * 12 + "\n[12 characters shown")


@pytest.mark.usefixtures("_canary")
def test_what_a_search_shows_of_a_long_line_is_no_half_of_a_secret(tmp_path):
    find = builtin_tools(tmp_path)["search_text"]
    for gap in range(1, 40, 3):  # both ends of what is shown are somewhere in a secret, or beside one
        (tmp_path / "long.txt").write_text(f"{KEY} " * 40 + "é" * gap + "needle" + "é" * gap + f" {KEY}" * 40)
        agent, _ = make([reply(tool_use("t", "search_text", {"text": "needle"})), reply("done")], find)
        ((_, result, _),) = results(agent.run_sync("go").messages[2])
        assert "needle" in result
        assert found_in(result) == []
