# mypy: disable-error-code="index"
"""The examples that ask a model: run as a reader would run them, against the strict server."""

import importlib.util
import json
import subprocess
import sys
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from brida import ScriptedModel, reply, tool_use
from support.process import Ran, environment
from support.script import asks, says
from support.script import tool_use as call
from support.server import Server

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(example: str, *arguments: str, cwd: Path = ROOT, **env: str) -> Ran:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=50,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def load(example: str) -> ModuleType:
    """An example as a module, its main part not run."""
    name = f"example_{Path(example).stem}"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / example)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def heard(server: Server, request: int = -1) -> str:
    """What the tools told the model in that request."""
    return " ".join(str(block["content"]) for block in server.bodies[request]["messages"][-1]["content"])


# --- orders -----------------------------------------------------------------------------------------------

ORDER = "What is the status of order 4412?"


def test_an_order_is_looked_up(tmp_path):
    script = [asks(call("t", "lookup_order", {"number": 4412})), says("It is on its way.")]
    with Server(script, require_key=False) as server:
        ran = run("orders/look_up.py", ORDER, ANTHROPIC_BASE_URL=server.base_url)
        assert json.loads(heard(server)) == {
            "number": 4412,
            "status": "shipped",
            "placed": "2026-11-27",
            "items": ["saddle", "bridle"],
        }
        assert ORDER in str(server.bodies[0]["messages"])
    assert (ran.code, ran.out) == (0, "It is on its way.\n"), ran.err


def test_the_model_hears_that_there_is_no_such_order():
    script = [asks(call("t", "lookup_order", {"number": 7})), says("There is none.")]
    with Server(script, require_key=False) as server:
        ran = run("orders/look_up.py", ORDER, ANTHROPIC_BASE_URL=server.base_url)
        assert "there is no order 7; ask the customer" in heard(server)
    assert ran.code == 0


# --- a model on your own machine --------------------------------------------------------------------------


def test_a_local_server_is_asked_without_a_key(tmp_path):
    (tmp_path / "README.md").write_text("# A title\n")
    script = [asks(call("t", "read_file", {"path": "README.md"})), says("A title.")]
    with Server(script, require_key=False) as server:
        ran = run("local/ask.py", server.base_url, "mine.gguf", "Read README.md", cwd=tmp_path)
        assert {body["model"] for body in server.bodies} == {"mine.gguf"}
        assert [tool["name"] for tool in server.bodies[0]["tools"]] == ["get_time", "read_file"]
    assert (ran.code, ran.out) == (0, "A title.\n"), ran.err


# --- a valve of your own ----------------------------------------------------------------------------------

HOURS = load("valves/working_hours.py")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "now, lets_pass",
    [
        ("2026-12-01T08:00", True),
        ("2026-12-01T17:59:59", True),
        ("2026-12-01T18:00", False),
        ("2026-12-01T07:59:59", False),
        ("2026-12-05T12:00", False),
    ],
)
def test_the_valve_knows_its_hours(now, lets_pass):
    model = ScriptedModel([reply("so")])
    agent = HOURS.make_agent(model, HOURS.WorkingHours(now=lambda: at(now)))
    outcome = agent.run_sync("go")
    assert outcome.completed == lets_pass
    assert len(model.requests) == int(lets_pass)


def test_a_run_that_is_overtaken_by_the_evening_starts_no_further_call():
    clock = iter(["2026-12-01T17:59:00", "2026-12-01T18:00:01"])
    model = ScriptedModel([reply(tool_use("1", "get_time")), reply("so")])
    outcome = HOURS.make_agent(model, HOURS.WorkingHours(now=lambda: at(next(clock)))).run_sync("go")
    assert (outcome.stop.kind, outcome.stop.detail["reason"]) == ("stopped", "outside working hours")
    assert (len(model.requests), [note.tool for note in outcome.pending]) == (1, ["get_time"])


def test_the_program_says_why_it_stopped():
    with Server([says("so")], require_key=False) as server:
        ran = run("valves/working_hours.py", "go", ANTHROPIC_BASE_URL=server.base_url)
    assert ran.code == (0 if ran.out == "so\n" else 3), ran.err
    assert ("outside working hours" in ran.err) == (ran.code == 3)


# --- approval in a chat -----------------------------------------------------------------------------------


class Chat:
    """A chat whose people answer as ``answers`` says, given what they were asked; None is silence."""

    def __init__(self, answers) -> None:
        self.asked: list[dict] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.respond(202, b"")

            def do_GET(self) -> None:
                (asked,) = [one for one in outer.asked if self.path == f"/answers/{one['id']}"]
                said = answers(asked)
                if said is None:
                    self.respond(204, b"")
                else:
                    status = said.pop("status", 200)
                    self.respond(status, json.dumps({"digest": asked["digest"], **said}).encode())

            def respond(self, status: int, body: bytes) -> None:
                self.send_response(status)
                if status != 204:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Chat":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


BY_CHAT = load("approvals/by_chat.py")


def refund_with(answers, url: str | None = None) -> tuple[str, list[dict]]:
    """What the model heard of its call, and what was asked in the chat."""
    model = ScriptedModel([reply(tool_use("t", "refund", {"order": 4412, "amount": 9.5})), reply("so")])
    with Chat(answers) as chat:
        BY_CHAT.make_agent(model, url or chat.url, seconds=1.5).run_sync("Refund order 4412")
    return str(model.requests[1]["messages"][-1]["content"][0]["content"]), chat.asked


def test_a_yes_in_the_chat_lets_the_call_run():
    script = [asks(call("t", "refund", {"order": 4412, "amount": 9.5})), says("So it is.")]
    with (
        Chat(lambda asked: {"allow": True, "by": "Ana"}) as chat,
        Server(script, require_key=False) as server,
    ):
        ran = run(
            "approvals/by_chat.py", "Refund order 4412", ANTHROPIC_BASE_URL=server.base_url, CHAT_URL=chat.url
        )
        assert heard(server) == "refunded 9.50 dollars for order 4412"
    assert (ran.code, ran.out) == (0, "So it is.\n"), ran.err
    assert chat.asked[0]["text"] == 'May refund run with {"order": 4412, "amount": 9.5}? (high impact)'


def test_a_no_in_the_chat_reaches_the_model_with_its_reason():
    told, _ = refund_with(lambda asked: {"allow": False, "reason": "ask her first"})
    assert "ask her first" in told


def test_silence_in_the_chat_is_a_no():
    told, _ = refund_with(lambda asked: None)
    assert "nobody answered within 1.5 seconds" in told


@pytest.mark.parametrize(
    "said",
    [
        {"allow": True, "digest": "of another call"},
        {"allow": True, "status": 500},
        {"allow": "true"},
        {"allow": 1},
        {},
    ],
    ids=str,
)
def test_what_is_no_clear_yes_to_this_call_is_a_no(said):
    told, _ = refund_with(lambda asked: dict(said))
    assert "refunded" not in told


def test_a_chat_that_is_down_is_a_no():
    told, asked = refund_with(lambda asked: {"allow": True}, url="http://127.0.0.1:9")
    assert "nobody could be asked: ConnectError" in told
    assert asked == []


# --- testing your own agent -------------------------------------------------------------------------------


def test_the_tests_of_the_example_pass():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/testing"],
        cwd=ROOT,
        env={**environment(), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


# --- clouds -----------------------------------------------------------------------------------------------

KEY = "sk-ant-canary-of-a-cloud"


def test_an_agent_on_bedrock_can_be_made():
    from anthropic import AsyncAnthropicBedrock

    client = AsyncAnthropicBedrock(aws_region="eu-west-1", aws_access_key="a", aws_secret_key=KEY)
    agent = load("clouds/bedrock.py").make_agent(client, "some.model-v1:0")
    assert agent.model.name == "some.model-v1:0"
    assert agent.model.base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"


def test_an_agent_on_vertex_can_be_made():
    from anthropic import AsyncAnthropicVertex

    client = AsyncAnthropicVertex(project_id="p", region="global", access_token=KEY)
    agent = load("clouds/vertex.py").make_agent(client, "some-model@1")
    assert agent.model.base_url == "https://aiplatform.googleapis.com/v1/"


@pytest.mark.parametrize("example", ["clouds/bedrock.py", "clouds/vertex.py"])
def test_what_is_not_run_says_so_at_the_top(example):
    assert "NOT RUN" in "".join((EXAMPLES / example).read_text().splitlines()[:4])


# --- all of them ------------------------------------------------------------------------------------------

PROGRAMS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


def test_every_example_is_in_the_docs():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [name for name in PROGRAMS if f"`examples/{name}`" not in page] == []


@pytest.mark.parametrize("example", PROGRAMS)
def test_an_example_is_short_and_says_how_it_is_run(example):
    source = (EXAMPLES / example).read_text(encoding="utf-8")
    top = source.split('"""')[1]
    assert len(source.splitlines()) <= 110
    assert f"python examples/{example}" in top or "__main__" not in source
