"""The embedded model with its real engine: what it chooses, alone and at once, and that it stays at home."""

import sys

import pytest

from support.process import BRIDA, run_at

TASKS = {
    "en": "Read the first line of README.md, then tell me what time it is",
    "es": "Lee la primera línea de README.md, y luego dime qué hora es",
    "pt": "Leia a primeira linha do README.md, e então me diga que horas são",
}
HEADS = {
    "en": "The embedded model writes no prose",
    "es": "El modelo integrado no redacta",
    "pt": "O modelo embutido não redige",
}
TWO_TOOLS = ("--tools", "none", "--tools", "get_time", "--tools", "read_file")

# The engine pins a thread of its own to one core and spins: where that core is busy, an answer that takes
# a third of a second takes ten.
patient = pytest.mark.timeout(600)


@patient
@pytest.mark.parametrize("language", TASKS)
def test_the_default_task_calls_both_tools_and_ends(project, tmp_path_factory, language):
    home = tmp_path_factory.mktemp("home")
    task = (*TWO_TOOLS, "--lang", language, "--json", TASKS[language])
    ran = run_at(*BRIDA, "run", "--no-journal", "--model", "embedded", *task, cwd=project, home=home)
    outcome = ran.object
    assert (ran.code, outcome["stop"]["kind"]) == (0, "completed"), ran
    assert (outcome["turns"], outcome["requests"], outcome["failed_calls"]) == (1, 2, [])
    assert outcome["text"].startswith(HEADS[language])
    assert "- read_file: # A title ..." in outcome["text"]
    assert "- get_time: 20" in outcome["text"]
    assert outcome["usage"]["complete"] is False
    assert list(home.iterdir()) == []


WATCHED = """
import asyncio, json, os, sys, threading

NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request")
seen = []
sys.addaudithook(lambda name, arguments: seen.append(name) if name in NETWORK else None)

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == "needle":
            names = ("NEEDLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_OFFLINE")
            seen.append({key: os.environ.get(key) for key in names})
        return None

sys.meta_path.insert(0, AtImport())

from brida import Agent, tool

@tool(impact="read", volatile=True)
def get_time() -> str:
    "Get the current date and time."
    return "2026-12-01T10:00:00+00:00"

@tool(impact="read")
def read_file(path: str) -> str:
    "Read a text file in the project directory."
    return f"content of {path}"

TASKS = ["What time is it?", "Read the file README.md", "Read the file notes.txt"]
agent = Agent(model="embedded", tools=[get_time, read_file], language="en")

def facts(outcome):
    blocks = [block for message in outcome.messages for block in message["content"]]
    calls = [[b["id"], b["name"], b["input"]] for b in blocks if b["type"] == "tool_use"]
    return [outcome.stop.kind, outcome.text, calls]

async def together():
    return await asyncio.gather(*(agent.run(task) for task in TASKS))

alone = [facts(agent.run_sync(task)) for task in TASKS]
gathered = [facts(outcome) for outcome in asyncio.run(together())]
threaded = [None] * len(TASKS)
def work(index):
    threaded[index] = facts(agent.run_sync(TASKS[index]))
threads = [threading.Thread(target=work, args=(index,)) for index in range(len(TASKS))]
for thread in threads: thread.start()
for thread in threads: thread.join()
first = agent.run_sync(TASKS[0])
second = agent.run_sync(TASKS[1], messages=first.messages)
print(json.dumps({"alone": alone, "gathered": gathered, "threaded": threaded, "seen": seen,
                  "continued": [facts(second), second.messages[: len(first.messages)] == first.messages]}))
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """One process that runs the same tasks one by one, at once in one event loop, at once in threads."""
    home, cwd = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("cwd")
    ran = run_at(sys.executable, "-c", WATCHED, cwd=cwd, home=home)
    assert ran.code == 0, ran.err
    return {**ran.object, "left": [*home.iterdir(), *cwd.iterdir()], "err": ran.err}


@patient
@pytest.mark.long
def test_runs_at_once_neither_hang_nor_mix(watched):
    kinds = [kind for kind, _, _ in watched["alone"]]
    called = [[(name, arguments) for _, name, arguments in calls] for _, _, calls in watched["alone"]]
    assert kinds == ["completed"] * 3
    assert called[0] == [("get_time", {})]
    assert called[1] == [("read_file", {"path": "README.md"})]
    assert called[2] == [("read_file", {"path": "notes.txt"})]
    assert watched["gathered"] == watched["alone"]  # ids included: they follow from the history alone
    assert watched["threaded"] == watched["alone"]


@patient
@pytest.mark.long
def test_a_run_goes_on_from_its_messages(watched):
    (kind, text, calls), kept = watched["continued"]
    assert (kind, kept) == ("completed", True)
    assert [name for _, name, _ in calls] == ["get_time", "read_file"]
    assert "2026" not in text  # results from before the new task are not told again
    assert len({call_id for call_id, _, _ in calls}) == 2


@patient
@pytest.mark.long
def test_nothing_leaves_the_machine_and_nothing_is_written(watched):
    assert watched["seen"] == [{"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}]
    assert watched["left"] == []
    assert "telemetry" not in watched["err"]
