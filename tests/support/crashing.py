"""Runs that are killed: a process that forks one child after another, each of which dies where it is told.

``python -m support.crashing`` reads one JSON object a line, a :class:`Point` and a directory, and answers
with one: what was there when the child had been killed, and what a second child made of the run. A child
is a process of its own with its own journal connection; forking spares only the start of Python.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brida import Agent, current_call, tool
from brida.core.codec import encode_event
from brida.core.events import Event, Reply
from brida.core.replay import replay
from brida.core.request import Request
from brida.core.state import fold
from brida.journal.sqlite import SqliteJournal
from brida.runtime.outcome import Outcome
from brida.tools.reconcile import DID_NOT_HAPPEN, Happened, PastCall

IMPACTS = ("read", "idempotent", "high", "reconciled")
PLACES = ("alone", "batch")


@dataclass(frozen=True)
class Point:
    """Where a child dies: ``when`` is before or after the append number ``at``, or in the tool before or
    after its effect. ``impact`` is that of the tool, ``place`` whether it is the only call of its turn.
    """

    impact: str
    place: str
    when: str
    at: int = 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Journal(SqliteJournal):
    """A journal whose process dies at one of its appends."""

    point: Point | None = None

    def begin(self, run_id: str) -> Any:
        return Writer(super().begin(run_id), self.point)

    def hold(self, run_id: str, *, take_over: bool = False) -> Any:
        return Writer(super().hold(run_id, take_over=take_over), self.point)


class Writer:
    """Counts the appends, and dies before or after one of them."""

    def __init__(self, writer: Any, point: Point | None) -> None:
        self._writer, self._point, self._appends = writer, point, 0

    def append(self, events: Sequence[Event], state: Any, *, taken: Any = (), charge: Any = None) -> None:
        self._appends += 1
        here = self._point is not None and self._point.at == self._appends
        if here and self._point is not None and self._point.when == "before":
            die()
        self._writer.append(events, state, taken=taken, charge=charge)
        if here and self._point is not None and self._point.when == "after":
            die()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


class Model:
    """Asks for the calls, then ends. What it says follows from the request alone."""

    name, base_url, max_output_tokens = "scripted", None, None

    def __init__(self, place: str) -> None:
        self._place = place
        self.bodies: list[dict[str, Any]] = []

    async def complete(self, request: Request, on_delta: Any) -> Reply:
        body = request.as_dict()
        self.bodies.append(body)
        said = sum(message["role"] == "assistant" for message in body["messages"])  # type: ignore[attr-defined]
        usage = {"input_tokens": 10, "output_tokens": 5}
        if said:
            return Reply(({"type": "text", "text": "done"},), "end_turn", usage)
        names = ["act"] if self._place == "alone" else ["look", "act", "put", "look"]
        calls = [
            {"type": "tool_use", "id": f"c{n}", "name": name, "input": {"n": n}}
            for n, name in enumerate(names)
        ]
        return Reply(tuple(calls), "tool_use", usage)

    async def close(self) -> None:
        """There is nothing to free."""


def make_agent(point: Point, directory: Path, *, dies: bool) -> Agent:
    effects = directory / "effects"

    def effect(n: int) -> str:
        if dies and point.when == "in the tool, before":
            die()
        with effects.open("a") as file:
            file.write(f"act {n} {current_call().idempotency_key}\n")
        if dies and point.when == "in the tool, after":
            die()
        return f"acted {n}"

    def reconcile(call: PastCall) -> object:
        there = effects.exists() and call.idempotency_key in effects.read_text()
        return Happened(f"acted {call.arguments['n']}") if there else DID_NOT_HAPPEN

    impact: Any = "high" if point.impact == "reconciled" else point.impact
    options: Any = {"reconcile": reconcile} if point.impact == "reconciled" else {}

    @tool(impact=impact, name="act", **options)
    def act(n: int) -> str:
        return effect(n)

    @tool(impact="read")
    def look(n: int) -> str:
        return f"seen {n}"

    @tool(impact="idempotent")
    def put(n: int) -> str:
        with effects.open("a") as file:
            file.write(f"put {n} {current_call().idempotency_key}\n")
        return f"put {n}"

    journal = Journal(directory / "journal.db")
    journal.point = point if dies else None
    return Agent(
        model=Model(point.place),
        tools=[act, look, put],
        yes_to=["act", "put"],
        journal=journal,
        language="en",
    )


def in_child(work: Any) -> int:
    """How the child that did ``work`` ended: its exit code, below zero the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run_until_killed(point: Point, directory: Path) -> int:
    make_agent(point, directory, dies=True).run_sync("go")
    return 0


def resume(point: Point, directory: Path) -> int:
    agent = make_agent(point, directory, dies=False)
    known = SqliteJournal(directory / "journal.db").runs()
    text = None if known and known[0].task else "go"  # the task itself was not recorded
    if known and known[0].stop is not None:  # it had ended: there is nothing to resume
        events = tuple(record.event for record in records(SqliteJournal(directory / "journal.db")))
        outcome: Any = Outcome.of(fold(events), events)
    else:
        outcome = agent.resume_sync("-", text) if known else agent.run_sync("go")
    assert isinstance(agent.model, Model)
    made = {
        "stop": outcome.stop.kind,
        "messages": outcome.messages,
        "text": outcome.text,
        "bodies": agent.model.bodies,
        "complete": outcome.usage.complete,
    }
    (directory / "resumed.json").write_text(json.dumps(made))
    return 0


def effects_in(directory: Path) -> list[str]:
    path = directory / "effects"
    return path.read_text().splitlines() if path.exists() else []


def one(point: Point, directory: Path) -> dict[str, Any]:
    killed = in_child(lambda: run_until_killed(point, directory))
    journal = SqliteJournal(directory / "journal.db")
    found = {
        "killed": killed,
        "effects_then": effects_in(directory),
        "lines_then": [encode_event(record.event).decode() for record in records(journal)],
    }
    if killed == 0:
        return found
    found["resumed"] = in_child(lambda: resume(point, directory))
    events = [record.event for record in records(journal)]
    found |= json.loads((directory / "resumed.json").read_text())
    found |= {
        "effects": effects_in(directory),
        "events": [type(event).__name__ for event in events],
        "replays": replay(events).holds,
        "lines": [encode_event(event).decode() for event in events],
        "folded": fold(events).stop.kind,  # type: ignore[union-attr]
    }
    return found


def records(journal: SqliteJournal) -> Any:
    rows = journal.runs()
    return journal.read(rows[0].run_id) if rows else ()


def main() -> None:
    asyncio.set_event_loop_policy(None)
    for line in sys.stdin:
        asked = json.loads(line)
        directory = Path(asked.pop("directory"))
        directory.mkdir(parents=True)
        print(json.dumps(one(Point(**asked), directory)), flush=True)


class Crashes:
    """The process that forks the children: ``crashes.at(point, directory)``."""

    def __init__(self) -> None:
        tests = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join([tests, *(os.path.abspath(one) for one in sys.path if one)])
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "support.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def at(self, point: Point, directory: Path) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**asdict(point), "directory": str(directory)}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    main()
