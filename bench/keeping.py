"""What the journal costs: an append, a turn on the disk, and going on with a long run."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from brida import Agent, Limits, tool
from brida.core.events import CallFinished, Event, Received, Reply, Said, Started
from brida.core.request import Request
from brida.core.state import State, fold
from brida.journal.sqlite import SqliteJournal

WARM_UP: Final = 3
TURN: Final = 10_000
"""Characters that the result of each turn has."""

ROWS: Final[dict[str, str]] = {
    "append, with fsync, p50": "ms",
    "append, with fsync, p95": "ms",
    "append, without, p50": "ms",
    "append, without, p95": "ms",
    "a turn with a journal": "ms",
    "the same without": "ms",
    "the file, a turn of 10,000 characters": "KiB",
    "resume of a long run": "ms",
}
"""The figures and their units."""

RESUME: Final = "resume of a long run"
SIZE_RATIO: Final = "the file / what was said"


class Model:
    """Asks for one call a turn, so many turns, then ends. Nothing is sent anywhere."""

    name, base_url, max_output_tokens = "scripted", None, None

    def __init__(self, turns: int) -> None:
        self._turns, self._asked = turns, 0

    async def complete(self, _request: Request, _on_delta: Any) -> Reply:
        self._asked += 1
        usage = {"input_tokens": 10, "output_tokens": 5}
        if self._asked > self._turns:
            return Reply(({"type": "text", "text": "done"},), "end_turn", usage)
        call = {"type": "tool_use", "id": f"c{self._asked}", "name": "say", "input": {"n": self._asked}}
        return Reply((call,), "tool_use", usage)

    async def close(self) -> None:
        """There is nothing to free."""


def keeping(turns: int, appends: int) -> dict[str, float]:
    """All figures, by the names of ``ROWS``; ``turns`` is the length of the long run."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return {
            **_appends(place / "appends.db", appends),
            **_turns(place / "run.db", turns),
        }


def _appends(path: Path, count: int) -> dict[str, float]:
    started = Started(0.0, "bench", "m", 1, 1)
    state, writer = State(started), SqliteJournal(path).begin("bench")
    writer.append((started,), state)
    taken: dict[str, float] = {}
    kinds: dict[str, Event] = {
        "with fsync": Said(0.0, "x" * 500),
        "without": Received(0.0, Reply(({"type": "text", "text": "x" * 500},), "end_turn")),
    }
    for name, event in kinds.items():
        times = []
        for _ in range(count):
            before = time.perf_counter()
            writer.append((event,), state)
            times.append((time.perf_counter() - before) * 1000)
        times.sort()
        taken[f"append, {name}, p50"] = statistics.median(times)
        taken[f"append, {name}, p95"] = times[int(len(times) * 0.95)]
    writer.release()
    return taken


def _turns(path: Path, turns: int) -> dict[str, float]:
    _timed(_agent(WARM_UP, None))
    without, _ = _timed(_agent(turns, None))
    with_journal, outcome = _timed(_agent(turns, path))
    events: Sequence[Event] = outcome.events
    said = sum(len(event.content) for event in events if isinstance(event, CallFinished))
    journal = SqliteJournal(path)
    before = time.perf_counter()
    fold(record.event for record in journal.read(outcome.run_id))
    resumed = (time.perf_counter() - before) * 1000
    size = path.stat().st_size
    return {
        "a turn with a journal": with_journal / turns,
        "the same without": without / turns,
        "the file, a turn of 10,000 characters": size / turns / 1024,
        "resume of a long run": resumed,
        SIZE_RATIO: size / said,
    }


def _agent(turns: int, path: Path | None) -> Agent:
    @tool(impact="read")
    def say(n: int) -> str:
        return (f"{n} and so on, " * (TURN // 10))[:TURN]

    limits = Limits(
        max_turns=turns + 1, max_requests=turns + 9, max_calls=None, max_tokens_total=None, no_progress=False
    )
    return Agent(model=Model(turns), tools=[say], limits=limits, journal=path, language="en")


def _timed(agent: Agent) -> tuple[float, Any]:
    before = time.perf_counter()
    outcome = asyncio.run(agent.run("go"))
    taken = (time.perf_counter() - before) * 1000
    if not outcome.completed:
        raise RuntimeError(f"expected a run that completes, got {outcome.stop}")
    return taken, outcome
