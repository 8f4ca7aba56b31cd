# mypy: disable-error-code="index"
"""``--agent``: one made in code, one that the settings describe, and what flags and a project do to it."""

import pytest

from support.folders import Folders
from support.script import asks, says, tool_use
from support.server import Server

CODE = """
from brida import Agent, AnthropicModel, Limits, Policy, tool

@tool(impact="read")
def lookup(order: int) -> str:
    "Look an order up."
    return f"order {order} is on its way"

def make():
    print("this goes to stderr")
    return Agent(
        model=AnthropicModel("coded", base_url=URL),
        tools=[lookup],
        system="be kind",
        limits=Limits(max_turns=20, max_tokens_total=None),
        policy=Policy({"lookup": "ask"}, default="deny"),
        language="pt",
        yes_to=["lookup"],
    )

agent = make()
number = 3
def broken():
    raise RuntimeError("no agent today")
"""


@pytest.fixture
def server():
    def script(_at, body):
        turns = len(body["messages"]) // 2
        return asks(tool_use(f"t{turns}", "lookup", {"order": turns})) if turns < 2 else says("done")

    with Server(script, require_key=False) as server:
        yield server


@pytest.fixture
def folders(tmp_path, server):
    folders = Folders(tmp_path)
    (folders.project / "mine.py").write_text(CODE.replace("URL", repr(server.base_url)))
    return folders


@pytest.mark.parametrize("name", ["mine:agent", "mine:make"])
def test_an_agent_in_code_runs_as_it_is(folders, server, name):
    ran = folders.run("go", "--agent", name, "--json", BRIDA_MODEL="other", BRIDA_MAX_TURNS="0")
    assert (ran.code, ran.object["turns"], ran.object["text"]) == (0, 2, "done")
    body = server.bodies[0]
    assert (body["model"], body["system"]) == ("coded", "be kind")
    assert [tool["name"] for tool in body["tools"]] == ["lookup"]
    assert "2 turnos de chamadas" in ran.err


def test_flags_that_are_given_beat_the_agents_own(folders, server):
    flags = [
        "--max-turns",
        "1",
        "--system",
        "be quick",
        "--lang",
        "en",
        "--tools",
        "get_time",
        "--model",
        "m",
    ]
    ran = folders.run("go", "--agent", "mine:agent", "--json", *flags)
    assert (ran.code, ran.object["stop"]["detail"]["limit"]) == (3, 1)
    body = server.bodies[0]
    assert (body["model"], body["system"]) == ("m", "be quick")
    assert [tool["name"] for tool in body["tools"]] == ["lookup", "get_time"]
    assert "1 turn of tool calls" in ran.err


def test_a_project_tightens_an_agent_too(folders, server):
    folders.project_file.write_text(
        'system = "obey"\nmodel = "evil"\n[limits]\nmax_turns = 1\nmax_calls = 500\n[policy]\nask = ["*"]\n'
    )
    ran = folders.run("go", "--agent", "mine:agent", "--json")
    assert (ran.object["stop"]["kind"], ran.object["stop"]["detail"]["limit"]) == ("max_turns", 1)
    assert server.bodies[0]["system"] == "be kind"
    folders.project_file.write_text('[policy]\ndeny = ["look*"]')
    assert folders.run("go", "--agent", "mine:agent", "--json").object["denied"][0]["tool"] == "lookup"


def test_config_shows_the_agent(folders):
    folders.user_file.write_text('model = "mine"\n[policy]\ndeny = ["x"]\n')
    shown = folders.config("--agent", "mine:agent")
    assert shown["values"]["model"] == "coded"
    assert shown["sources"]["limits.max_turns"] == "--agent mine:agent"
    rules = [
        (one["key"], one["value"], one["source"]) for one in shown["settings"] if "policy." in one["key"]
    ]
    assert rules == [
        ("policy.ask", "lookup", "--agent mine:agent: Policy"),
        ("policy.deny", "x", str(folders.user_file)),
        ("policy.default", "deny", "--agent mine:agent"),
    ]
    assert [(one["key"], one["why"]) for one in shown["ignored"]] == [("model", "the agent has its own")]


def test_an_agent_that_the_users_file_describes(folders, server):
    folders.user_file.write_text(
        'model = "other"\nlanguage = "es"\n[agents.reader]\n'
        f'model = "described"\nbase_url = "{server.base_url}"\ntools = ["none", "get_time"]\n'
        "[agents.reader.limits]\nmax_turns = 1\n"
    )
    ran = folders.run("go", "--agent", "reader", "--json")
    assert (ran.code, ran.object["stop"]["kind"]) == (3, "max_turns")
    assert server.bodies[0]["model"] == "described"
    assert [tool["name"] for tool in server.bodies[0]["tools"]] == ["get_time"]
    assert "tope de turnos" in ran.err


def test_an_agent_of_a_project_runs_once_it_is_trusted(folders, server):
    folders.project_file.write_text(
        f'[agents.theirs]\nmodel = "t"\nbase_url = "{server.base_url}"\ntools = ["none", "mine:lookup"]\n'
    )
    refused = folders.run("go", "--agent", "theirs")
    assert refused.code == 2
    assert f"theirs is described in {folders.project_file}, which is not trusted" in refused.err
    folders.run("trust", "--yes")
    ran = folders.run("go", "--agent", "theirs", "--json")
    assert (ran.code, ran.object["turns"]) == (0, 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine:number", "mine:number is a int; expected a brida.Agent"),
        ("mine:broken", "mine:broken cannot be used: RuntimeError: no agent today"),
        ("mine:nothing", "mine:nothing cannot be used: AttributeError"),
        ("nowhere:agent", "nowhere:agent cannot be used: ModuleNotFoundError"),
        ("mine:", "mine: cannot be used"),
        ("reder", "there is no agent reder; did you mean reader?"),
        ("unlike", "there is no agent unlike; the settings describe: reader"),
        ("", "there is no agent"),
    ],
)
def test_an_agent_that_is_none_is_named_with_what_is_wrong(folders, name, words):
    folders.user_file.write_text("[agents.reader]\n")
    ran = folders.run("go", "--agent", name, "--json")
    assert (ran.code, ran.object["stop"]["kind"]) == (2, "configuration_error")
    assert words in ran.object["stop"]["detail"]["error"]
    assert "Traceback" not in ran.err
