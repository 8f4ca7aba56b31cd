"""Runs whose process has died or that wait for a person, in the process that has them next."""

from typing import Any

from brida.core.events import Answered, CallStarted, Edited, Event
from brida.core.policy import Policy
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, says

FREE = FakeTool("free", impact="high")
ASK1 = FakeTool("ask1", impact="high")
ASK2 = FakeTool("ask2", impact="high")
TOOLS = (FREE, ASK1, ASK2)
PARK: dict[str, Any] = {
    "on_ask": "park",
    "policy": Policy({"free": "allow", "ask1": "ask", "ask2": "ask"}),
}
BATCH: tuple[Any, ...] = (("a", "free", {}), ("b", "ask1", {"p": 1}), ("c", "ask2", {"p": 2}))


def crashed(run: Simulation, replies, kind: type[Event], *, number: int = 1) -> Simulation:
    """The run as it was when its process died just after the event of this kind, in a new process."""
    run.run(replies)
    return run.in_a_new_process(run.until(kind, number=number))


def during(*tools: FakeTool, **more: Any) -> Simulation:
    """A run whose process died in the middle of the first of its calls, one of each tool."""
    calls: list[Any] = [(f"c{n}", tool.name, {}) for n, tool in enumerate(tools)]
    return crashed(Simulation(tools, **more), [says(*calls), says("done")], CallStarted)


def parked(*calls, settings=None, questions: int = 2, **more: Any) -> Simulation:
    """A run with questions that waits for their answers, in a new process."""
    run = Simulation(TOOLS, settings=PARK | (settings or {}), **more)
    assert run.run([says(*(calls or BATCH))]) == Stop("waiting", {"questions": questions})
    return run.in_a_new_process()


def digest_of(run: Simulation, call_id: str) -> str:
    return run.state.calls[call_id].runs.digest


def answer(
    run: Simulation, call_id: str, allow: bool = True, *, reason: str = "", session: bool = False
) -> Simulation:
    """What another process writes for a run that waits; then one more reads it all."""
    run.learn(Answered(0, call_id, digest_of(run, call_id), allow, "person", reason, session))
    return run.in_a_new_process(after=0.0)


def edit(run: Simulation, call_id: str, arguments: dict[str, Any]) -> Simulation:
    run.learn(Edited(0, call_id, digest_of(run, call_id), arguments, "person"))
    return run.in_a_new_process(after=0.0)


def contents(run: Simulation) -> list[Any]:
    """What the model hears of each call."""
    return [result["content"] for result in run.results]


def names(run: Simulation) -> list[str]:
    """The tools that ran in this process."""
    return [name for name, _ in run.ran]
