"""Against a server that nobody here wrote: llama.cpp, with a model of 135 million parameters.

What it does otherwise than the API says, and what these tests hold: it asks for no key; a call begins
without ``input``, its ids have a form of their own; a stream ends with ``output_tokens`` alone; errors are
objects without an outer type; a context that is too small is an error of status 400; and its model knows
no tools until a template shows them. Nothing is random: the likeliest token is always taken.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, create_connection, create_server, socket
from urllib.parse import urlsplit

import pytest

from brida import Agent, Delta, Limits, Outcome
from brida.core.ceilings import input_bound
from brida.core.events import Said, Started
from brida.core.request import Request
from brida.core.state import fold
from brida.models.anthropic import AnthropicModel
from brida.tools.builtin import builtin_tools
from support.corpus import texts
from support.process import BRIDA, Ran, environment

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
QUESTION = "What time is it?"


@contextmanager
def serving(*arguments: str, log: Path) -> Iterator[str]:
    """The address of a server that is ready, and that is gone afterwards."""
    with (
        log.open("w") as err,
        subprocess.Popen(
            [sys.executable, str(HERE / "llama_server.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            address = process.stdout.readline().strip()  # printed once it is ready; "" where it died
            assert address, f"the server did not start:\n{log.read_text()[-2000:]}"
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Iterator[str]:
    """The server with the model's own template, which leaves tools out."""
    with serving(log=tmp_path_factory.mktemp("plain") / "log") as address:
        yield address


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory) -> Iterator[str]:
    """The server with a template that shows tools."""
    template = str(HERE / "tools_shown.jinja")
    with serving(template, log=tmp_path_factory.mktemp("tools") / "log") as address:
        yield address


class Relay:
    """Hands every byte on to the server and keeps what the client said."""

    def __init__(self, address: str) -> None:
        target = urlsplit(address)
        self._to = (target.hostname, target.port)
        self.said = bytearray()
        self._listener = create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = create_connection(self._to)
            for source, sink, kept in ((client, server, self.said), (server, client, bytearray())):
                threading.Thread(target=self._hand_on, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def _hand_on(source: socket, sink: socket, kept: bytearray) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                kept += piece
                sink.sendall(piece)
        for end in (source, sink):  # where one side is gone the other hears it at once
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)
        source.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def relay(with_tools) -> Iterator[Relay]:
    relay = Relay(with_tools)
    yield relay
    relay.close()


def ask(task: str, address: str, *flags: str, cwd: Path) -> Ran:
    """``brida`` as a process, without any key, against that server."""
    done = subprocess.run(
        [*BRIDA, "--base-url", address, "--model", "smollm2", *flags, task],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=environment(HOME=str(cwd)),
        timeout=600,
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ran.err
    return ran


def whole(ran: Ran) -> dict:
    """The outcome of a run that ended by itself, with a text and whole usage."""
    outcome = ran.object
    assert (ran.code, outcome["stop"]["kind"]) == (0, "completed"), outcome
    assert outcome["text"].strip()
    assert outcome["usage"]["complete"] is True
    assert outcome["usage"]["output_tokens"] > 0
    assert outcome["usage"]["input_tokens"] + outcome["usage"]["cache_read_input_tokens"] > 0
    assert (outcome["model"], outcome["requests"]) == ("smollm2", outcome["turns"] + 1)
    return outcome


def test_a_question_is_answered_without_tools_and_without_a_key(plain, tmp_path):
    outcome = whole(ask(QUESTION, plain, "--json", "--tools", "none", cwd=tmp_path))
    assert outcome["turns"] == 0


def test_tools_that_the_template_leaves_out_do_no_harm(plain, tmp_path):
    assert whole(ask(QUESTION, plain, "--json", cwd=tmp_path))["turns"] == 0


def test_the_text_is_on_stdout_and_the_same_every_time(plain, tmp_path):
    ran = [ask("Say hello.", plain, "--tools", "none", cwd=tmp_path) for _ in range(2)]
    assert ran[0].code == 0
    assert ran[0].out.strip()
    assert ran[0].out == ran[1].out


def test_a_system_prompt_and_a_stop_sequence_reach_the_model(plain, tmp_path):
    system = ("--system", "You only ever answer with numbers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.")
    free = whole(ask("Count to ten.", plain, "--json", "--tools", "none", *system, cwd=tmp_path))
    word = next(word for word in free["text"].split()[1:] if word.isalnum())
    flags = ("--json", "--tools", "none", "--stop-sequence", word)
    ran = ask("Count to ten.", plain, *flags, *system, cwd=tmp_path)
    assert ran.code == 0
    assert ran.object["stop"]["kind"] in ("stop_sequence", "completed")  # the server may not name it
    assert free["text"].startswith(ran.object["text"])
    assert word not in ran.object["text"]


def test_the_model_calls_a_tool_and_answers_with_its_result(relay, tmp_path):
    ran = ask(QUESTION, relay.address, "--json", "--tools", "none", "--tools", "get_time", cwd=tmp_path)
    outcome = whole(ran)
    assert (outcome["turns"], outcome["requests"], outcome["failed_calls"]) == (1, 2, [])
    (returned,) = [line for line in ran.err.splitlines() if "get_time returned" in line]
    assert returned.split('"')[1][:10] in outcome["text"]  # the date that the tool gave
    parts = bytes(relay.said).split(b"POST /v1/messages")[1:]
    bodies = [json.loads(part.partition(b"\r\n\r\n")[2]) for part in parts]
    assert [body["stream"] for body in bodies] == [True, True]
    assert [body["model"] for body in bodies] == ["smollm2", "smollm2"]
    call, result = bodies[1]["messages"][1]["content"], bodies[1]["messages"][2]["content"]
    assert call == [{"type": "tool_use", "id": call[0]["id"], "name": "get_time", "input": {}}]
    assert [block["tool_use_id"] for block in result] == [call[0]["id"]]


def test_events_tell_the_run_line_by_line(with_tools, tmp_path):
    ran = ask(QUESTION, with_tools, "--events", "--tools", "none", "--tools", "get_time", cwd=tmp_path)
    events = [json.loads(line) for line in ran.out.splitlines()]
    kinds = [event["kind"] for event in events]
    assert ran.code == 0
    assert (kinds[0], kinds[-1], kinds.count("Received")) == ("Started", "Stopped", 2)
    assert [event["outcome"] for event in events if event["kind"] == "CallFinished"] == ["ok"]
    assert [event["reply"]["stop_reason"] for event in events if event["kind"] == "Received"] == [
        "tool_use",
        "end_turn",
    ]


def test_with_every_tool_of_ours_the_run_ends_as_documented(with_tools, tmp_path):
    (tmp_path / "README.md").write_text("# A title\n\nA text.\n")
    task = "Read the first line of README.md, then tell me what time it is"
    limits = ["--max-tokens", "64", "--deadline", "300"]
    ran = ask(task, with_tools, "--json", "--no-journal", *limits, cwd=tmp_path)
    outcome = ran.object
    assert outcome["stop"]["class"] in ("finished", "stopped")  # so small a model may walk in place
    assert ran.code == {"finished": 0, "stopped": 3}[outcome["stop"]["class"]]
    assert outcome["text"].strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md"]  # nobody allowed a write


def test_a_cut_reply_is_asked_for_again_with_more_room(plain, tmp_path):
    outcome = ask(QUESTION, plain, "--json", "--tools", "none", "--max-tokens", "4", cwd=tmp_path).object
    assert outcome["stop"]["kind"] == "completed"
    assert outcome["requests"] > 1
    assert outcome["usage"]["output_tokens"] > 4


def test_a_cut_reply_ends_at_the_limit_of_requests(plain, tmp_path):
    flags = ("--json", "--tools", "none", "--max-tokens", "4", "--max-requests", "2")
    ran = ask(QUESTION, plain, *flags, cwd=tmp_path)
    assert (ran.code, ran.object["stop"]["kind"]) == (3, "max_requests")
    assert ran.object["stop"]["detail"] == {"limit": 2, "used": 2}
    assert ran.object["text"].strip()


def test_a_context_that_is_too_small_is_told_in_the_servers_words(plain, tmp_path):
    ran = ask("word " * 9000, plain, "--json", "--tools", "none", cwd=tmp_path)
    assert (ran.code, ran.object["stop"]["kind"], ran.object["requests"]) == (5, "model_error", 1)
    assert "exceeds the available context size" in json.dumps(ran.object["stop"]["detail"])


def test_a_server_that_is_gone_is_a_model_error(tmp_path):
    with create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    ran = ask(QUESTION, address, "--json", "--deadline", "1", cwd=tmp_path)
    assert ran.code in (3, 5)
    assert ran.object["stop"]["kind"] in ("deadline", "model_error")


# --- in Python, where fields of the body can be given -----------------------------------------------------


def agent_of(address: str, *, stream: bool = True, **settings) -> Agent:
    model = AnthropicModel("smollm2", base_url=address, stream=stream)
    return Agent(model=model, tools=[builtin_tools(Path.cwd())["get_time"]], language="en", **settings)


@pytest.fixture
def no_key(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_a_model_that_is_made_to_call_for_ever_ends_at_a_valve(with_tools, no_key):
    limits = Limits(max_requests=4)
    extra = {"tool_choice": {"type": "any"}}
    outcome = agent_of(with_tools, extra=extra, max_tokens=64, limits=limits).run_sync(QUESTION)
    assert outcome.stop.kind in ("no_progress", "max_requests")
    assert (outcome.stop.exit_code, outcome.turns) == (3, 1)


def test_replies_are_the_same_with_and_without_streaming(with_tools, no_key):
    limits = Limits(max_turns=0)
    runs = [agent_of(with_tools, stream=on, limits=limits).run_sync(QUESTION) for on in (True, False)]
    for outcome in runs:
        assert (outcome.stop.kind, [note.tool for note in outcome.pending]) == ("max_turns", ["get_time"])
        assert outcome.usage.complete
    assert len({outcome.usage.total for outcome in runs}) == 1


def test_text_arrives_in_pieces_before_the_reply_is_whole(plain, no_key):
    async def main() -> list[object]:
        agent = agent_of(plain)
        try:
            return [item async for item in agent.stream(QUESTION)]
        finally:
            await agent.model.close()

    seen = asyncio.run(main())
    pieces = [item.text for item in seen if isinstance(item, Delta)]
    outcome = seen[-1]
    assert isinstance(outcome, Outcome)
    assert len(pieces) > 3
    assert "".join(pieces) == outcome.text


def test_a_run_goes_on_from_its_messages(with_tools, no_key):
    agent = agent_of(with_tools)
    first = agent.run_sync(QUESTION)
    second = agent.run_sync("Tell me the time.", messages=first.messages)
    assert (first.stop.kind, second.stop.kind) == ("completed", "completed")
    assert second.text.strip()
    assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.timeout(600)
def test_no_text_has_more_tokens_than_its_bound(plain):
    """The server's own tokenizer, on more than 200 texts in ten languages, code and base64."""

    async def counts() -> list[tuple[int, int]]:
        model = AnthropicModel("m", base_url=plain)
        found = []
        for text in texts():
            started = Started(0.0, "r", "m", 100, 100)
            state = fold([started, Said(0.0, text)])
            request = Request(state.head, 100, state.history.encoded())
            counted = await model.count_tokens(request)
            assert counted is not None
            found.append((counted, input_bound(state, state.head)))
        await model.close()
        return found

    found = asyncio.run(counts())
    assert len(found) >= 200
    assert all(counted <= bound for counted, bound in found)
    assert max(counted / (bound - 1_024) for counted, bound in found) > 0.2, "the bound says something"
