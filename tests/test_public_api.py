"""What users hold on to: the names of the package, its cheap import, and the pages that describe it."""

import ast
import asyncio
import importlib
import inspect
import json
import logging
import re
import subprocess
import sys
import tomllib
import typing
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import brida
from brida import Agent, Answer, Limits, Outcome, Policy, Question, Rule, ScriptedModel, Stop, reply, tool_use
from brida.core.stops import EXIT_CODES, STOP_CLASSES, StopClass
from brida.core.valves import REPLY_CEILING
from support.process import brida as run_brida
from support.process import environment
from support.script import asks, says
from support.script import tool_use as call
from support.server import Server

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
OUTCOME_PAGE = (ROOT / "docs" / "outcome.md").read_text(encoding="utf-8")


# --- names ------------------------------------------------------------------------------------------------


def test_the_public_names_are_sorted_and_complete():
    assert brida.__all__ == sorted(brida.__all__)
    assert len(set(brida.__all__)) == len(brida.__all__)
    tree = ast.parse(Path(brida.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    statements = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    imported = {str(alias.asname): str(node.module) for node in statements for alias in node.names}
    assert sorted(imported) == brida.__all__  # what a type checker sees is what there is
    for name, home in imported.items():
        assert getattr(importlib.import_module(home), name) is getattr(brida, name)


@pytest.mark.parametrize("name", brida.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(brida, name)
    assert name in dir(brida)
    written = value.__doc__ or ""
    assert written.strip()
    assert not written.startswith(f"{name}("), "a dataclass whose docstring was made for it"
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and inspect.isfunction(function):
                assert (function.__doc__ or "").strip(), f"{name}.{method}"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = brida.nothing


def test_every_public_name_can_be_imported_by_star():
    found: dict[str, object] = {}
    exec("from brida import *", found)
    assert set(brida.__all__) <= set(found)


# --- what an import costs ---------------------------------------------------------------------------------

HEAVY = (
    "anthropic",
    "asyncio",
    "click",
    "concurrent.futures",
    "httpx2",
    "inspect",
    "logging",
    "needle",
    "pydantic",
    "ssl",
)

LOOK = """
import json, sys, threading
before = set(sys.modules)
opened = []
WRITES = ("open", "os.mkdir", "os.rename", "os.remove", "socket.connect", "subprocess.Popen", "os.putenv")
def watch(name, arguments):
    if name in WRITES and not (name == "open" and (arguments[1] or "r") in ("r", "rb")):
        opened.append([name, str(arguments)])
sys.addaudithook(watch)
import brida
print(json.dumps({
    "modules": sorted(set(sys.modules) - before),
    "opened": opened,
    "threads": threading.active_count(),
}))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """What a fresh process sees of ``import brida``."""
    folder = tmp_path_factory.mktemp("empty")
    env = environment(HOME=str(folder), PYTHONDONTWRITEBYTECODE="1")
    look = [sys.executable, "-S", "-c", LOOK]
    done = subprocess.run(look, cwd=folder, env=env, capture_output=True, text=True, timeout=50, check=True)
    assert (done.stderr, list(folder.iterdir())) == ("", [])
    return json.loads(done.stdout)


def test_importing_the_package_imports_nothing_heavy(imported):
    assert [name for name in HEAVY if name in imported["modules"]] == []
    assert [name for name in imported["modules"] if name.startswith("brida.")] == []


def test_importing_the_package_does_nothing(imported):
    assert (imported["opened"], imported["threads"]) == ([], 1)


def test_no_log_handler_is_ever_put_in_place():
    for name in brida.__all__:
        getattr(brida, name)
    loggers = [
        logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("brida")
    ]
    assert [logger for logger in loggers if logger.handlers] == []


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_the_command_line_answers_simple_questions_without_the_heavy_packages(tmp_path, flag):
    ask = [sys.executable, "-X", "importtime", "-m", "brida", flag]
    done = subprocess.run(
        ask, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip()
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "brida.cli.main" in modules
    assert modules & {"anthropic", "pydantic", "needle", "httpx2", "asyncio"} == set()


def test_the_version_is_the_projects(tmp_path):
    ran = run_brida("--version", cwd=tmp_path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    installed = any(metadata.distributions(name="brida"))
    version = project["project"]["version"] if installed else "(from its source, not installed)"
    assert (ran.code, ran.out) == (0, f"brida {version}\n")


# --- the README -------------------------------------------------------------------------------------------


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def example(monkeypatch, server: Server, said: str) -> dict:
    """The README's example, run against ``server``, with ``said`` typed at its question."""
    source, _ = python_blocks()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
    monkeypatch.setattr("builtins.input", lambda prompt: said)
    names: dict = {}
    exec(compile(source, "README.md", "exec"), names)
    return names


@pytest.mark.parametrize("said", ["y", "n"])
def test_the_readmes_example_runs(monkeypatch, capsys, said):
    arguments = {"customer": "Acme", "amount": 120.0}
    with Server([asks(call("t", "send_invoice", arguments)), says("Done.")], require_key=False) as server:
        outcome: Outcome = example(monkeypatch, server, said)["outcome"]
        heard = server.bodies[1]["messages"][2]["content"][0]
    assert capsys.readouterr().out == f"Done. completed {outcome.usage.total} {outcome.cost}\n"
    assert outcome.cost is not None
    assert outcome.cost > 0
    assert outcome.usage.total == 240
    assert heard.get("is_error", False) is (said == "n")
    assert ("sent 120.0 to Acme" in heard["content"]) is (said == "y")
    assert [note.tool for note in outcome.declined] == (["send_invoice"] if said == "n" else [])


def test_the_readmes_structured_answer_is_typed(capsys):
    _, source = python_blocks()
    answer = tool_use("t", "give_answer", {"number": 4412, "status": "sent"})
    agent = Agent(model=ScriptedModel([reply(answer)]), tools=[], language="en")
    exec(compile(source, "README.md", "exec"), {"BaseModel": BaseModel, "agent": agent})
    assert capsys.readouterr().out == "sent\n"


def test_the_readmes_scripted_model_says_what_is_written():
    (written,) = re.findall(r"`(ScriptedModel\(.*?\))` says", " ".join(README.split()))
    model = eval(written, {"ScriptedModel": ScriptedModel, "reply": reply, "tool_use": tool_use})
    outcome = Agent(model=model, tools=[], language="en").run_sync("go")
    assert (outcome.text, [note.tool for note in outcome.failed_calls]) == ("noon", ["get_time"])


def limits_table() -> dict[str, tuple[str, str, str]]:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*) ?\| ([^|]+) \|$", README, re.MULTILINE)
    return {row[0].strip(): (row[1].strip(), row[2].strip(), row[3].strip()) for row in rows}


def test_the_readmes_limits_are_the_defaults(tmp_path):
    limits, table = Limits(), limits_table()
    max_tokens = inspect.signature(Agent).parameters["max_tokens"].default
    assert table["turns of tool calls"][0] == str(limits.max_turns)
    assert table["requests to the model"][0] == "4 x turns + 14"
    assert limits.requests == 4 * limits.max_turns + 14
    assert table["attempts of one request"][0].startswith(f"{limits.max_attempts}, ")
    assert table["calls"][0] == str(limits.max_calls)
    assert table["pauses (`pause_turn`)"][0] == str(limits.max_pauses)
    assert (
        table["size of a reply"][0] == f"{max_tokens:,} tokens, doubled after a cut up to {REPLY_CEILING:,}"
    )
    assert table["tokens of the run"][0] == f"{limits.max_tokens_total:,}"
    assert (table["seconds of work"][0], limits.deadline) == ("off", None)
    assert (table["walking in place"][0], limits.no_progress) == ("on", True)
    words = run_brida("run", "--help", cwd=tmp_path, env={"COLUMNS": "200"}).out
    for _, flag, stops in table.values():
        if flag.startswith("`--"):
            assert flag.strip("`") in words
        kind = re.match(r"`(\w+)`", stops)
        assert kind is None or kind.group(1) in STOP_CLASSES


def test_every_flag_of_the_readme_is_a_flag(tmp_path):
    commands, wide = (("run",), ("usage",), ("budget", "create")), {"COLUMNS": "200"}
    words = "".join(run_brida(*one, "--help", cwd=tmp_path, env=wide).out for one in commands)
    for flag in set(re.findall(r"`?(--[a-z][a-z-]+)", README)):
        assert re.search(rf"{flag}\b", words), flag


def test_every_exit_code_of_the_readme_is_one():
    table = {int(code) for code in re.findall(r"^\| (\d+) \| ", README, re.MULTILINE)}
    assert table == set(EXIT_CODES.values())


def test_every_link_of_the_pages_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    missing = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []


# --- the other pages --------------------------------------------------------------------------------------


FIELDS = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ", OUTCOME_PAGE.partition("| class |")[0], re.MULTILINE)
TYPES: dict[str, Any] = {
    "integer": int,
    "text": str,
    "object": dict,
    "number": int | float,
    "null": type(None),
    "list of calls": list,
}


def finished() -> Outcome:
    return Agent(model=ScriptedModel([reply("done")]), language="en").run_sync("go")


def test_the_outcomes_page_lists_exactly_its_fields():
    listed = [name for cell, _ in FIELDS for name in re.findall(r"`([\w.]+)`", cell)]
    there: list[str] = []
    outcome: Any = finished().to_json()
    for name, value in outcome.items():
        there += [f"{name}.{inner}" for inner in value] if name == "stop" else [name]
    assert sorted(listed) == sorted(there)
    (usage,) = re.findall(r"^\| `usage` \| object .*$", OUTCOME_PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", usage)) - {"usage"} == set(outcome["usage"])
    (note,) = re.findall(r"A call is `\{(.*)\}`", OUTCOME_PAGE)
    model = ScriptedModel([reply(tool_use("t", "no_tool")), reply("x")])
    failed: Any = Agent(model=model, language="en").run_sync("go").to_json()["failed_calls"]
    assert re.findall(r'"(\w+)":', note) == list(failed[0])


def test_the_outcomes_page_has_the_types_it_says():
    outcome = finished().to_json()
    for cell, kind in FIELDS:
        for name in re.findall(r"`([\w.]+)`", cell):
            value: Any = outcome
            for part in name.split("."):
                value = value[part]
            assert any(isinstance(value, TYPES[one]) for one in kind.strip().split(" or ")), name


def test_the_outcomes_page_lists_exactly_the_stops():
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \| (\d+) \|$", OUTCOME_PAGE, re.MULTILINE)
    listed = {kind: name for name, kinds, _ in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert listed == STOP_CLASSES
    assert {name: int(code) for name, _, code in rows} == EXIT_CODES
    assert set(EXIT_CODES) == set(typing.get_args(StopClass))
    for kind, name in STOP_CLASSES.items():
        assert (Stop(kind).stop_class, Stop(kind).exit_code) == (name, EXIT_CODES[name])


def test_the_transitions_page_is_what_the_table_says():
    check = [sys.executable, str(ROOT / "scripts" / "transitions.py"), "--check"]
    done = subprocess.run(check, env=environment(), capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr


def test_rules_can_be_objects_and_an_approver_can_be_async():

    async def approve(question: Question) -> Answer:
        return Answer(False, reason=question.tool)

    @brida.tool
    def send() -> str:
        """Send."""
        raise AssertionError("must not run")

    model = ScriptedModel([reply(tool_use("t", "send")), reply("ok")])
    policy = Policy([Rule("send", "ask")])
    agent = Agent(model=model, tools=[send], policy=policy, approve=approve, language="en")
    outcome = asyncio.run(agent.run("go"))
    assert [note.tool for note in outcome.declined] == ["send"]
