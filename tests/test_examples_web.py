"""The example of a web endpoint: a real server, a real client, one that hangs up too."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.process import environment
from support.script import Item, Slow, asks, says, tool_use
from support.server import Server

APP = Path(__file__).parent.parent / "examples" / "web" / "app.py"


class Web:
    """The example as a process, on a port that was free."""

    def __init__(self, model: Server) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(APP), "0"],
            env=environment(ANTHROPIC_BASE_URL=model.base_url),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: list[str] = []
        self._listening = threading.Event()
        self.port = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._listening.wait(30), self.log

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                self._listening.set()
        self._listening.set()

    @contextmanager
    def ask(self, task: str) -> Iterator[http.client.HTTPResponse]:
        """The answer to a task; leaving the block hangs up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/answer?task={quote(task)}")
        with closing(connection), connection.getresponse() as response:
            yield response

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        assert not [line for line in self.log if "Traceback" in line], "".join(self.log)


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """The events of a response, as they arrive."""
    name = ""
    for line in response:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def test_the_text_arrives_while_the_run_goes_on_and_the_outcome_last():
    more = threading.Event()
    script: list[Item] = [
        asks(tool_use("t", "get_time"), words="Let me look."),
        Slow(says("It is noon."), more),
    ]
    with Server(script, require_key=False) as model, Web(model) as web:
        with web.ask("What time is it?") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            arriving = events(response)
            begun = ""
            while begun != "Let me look.":
                begun += next(arriving)[1]
            more.set()
            *texts, (name, outcome) = arriving
        assert "".join(text for kind, text in texts if kind == "text") == "It is noon."
        assert name == "outcome"
        assert (outcome["text"], outcome["stop"]["kind"], outcome["turns"]) == ("It is noon.", "completed", 1)


def test_a_client_that_hangs_up_ends_its_request_to_the_model_and_no_other():
    def script(number: int, body: dict):
        slow = "for ever" in str(body["messages"])
        if slow and number == 0:
            return asks(tool_use("t", "get_time"), words="I begin.")
        return Slow(says("never"), threading.Event()) if slow else says("Hello.")

    with Server(script, require_key=False) as model, Web(model) as web:
        with web.ask("go on for ever") as response:
            assert next(events(response))[0] == "text"
            model.wait_for_requests(2)
        model.wait_for_disconnects(1)
        with web.ask("hello") as other:
            *_, (name, outcome) = events(other)
        assert (name, outcome["text"]) == ("outcome", "Hello.")
        assert len(model.bodies) == 3


def test_runs_at_once_do_not_mix():
    both = threading.Barrier(2, timeout=20)

    def script(number: int, body: dict):
        return says(body["messages"][0]["content"][0]["text"].upper())

    with Server(script, require_key=False) as model, Web(model) as web:
        found: dict[str, str] = {}

        def ask(task: str) -> None:
            both.wait()
            with web.ask(task) as response:
                *_, (_, outcome) = events(response)
            found[task] = outcome["text"]

        threads = [threading.Thread(target=ask, args=(task,)) for task in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {"one": "ONE", "two": "TWO"}


@pytest.mark.parametrize("task", ["", " \n"])
def test_a_blank_task_is_refused_before_anything_runs(task):
    with Server([], require_key=False) as model, Web(model) as web:
        with web.ask(task) as response:
            assert response.status == 422
        assert model.requests == []
