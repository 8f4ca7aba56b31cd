"""Runs that start runs: an agent as a tool of another.

What a call of such a tool starts is a run like any other, with limits, a policy and a journal of its own,
inside those of its parent: it spends what that has left, its policy can only be narrower, and it stops when
that stops. Its calls pass the gates themselves, so the tool itself only reads.

The id of such a run follows from the call that started it. So a parent that goes on after its process died
calls again, and goes on with the run that is there.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from brida.core.events import Event
from brida.core.run import seconds_left
from brida.core.state import fold
from brida.core.wording import Say
from brida.errors import ConfigurationError, JournalError, ResumeRefused
from brida.runtime.calls import RunWaits
from brida.runtime.outcome import Outcome
from brida.runtime.parent import Parent, running_run
from brida.runtime.resumable import can_go_on_without_text, is_kept
from brida.texts.catalogue import N_
from brida.texts.endings import explain
from brida.tools.context import current_call
from brida.tools.declare import Tool, tool
from brida.tools.output import ToolError

if TYPE_CHECKING:
    from brida.agent import Agent

NAME: Final = "delegate"
TIMEOUT: Final = 24 * 3_600.0
"""Seconds that a call may take; the limits of both runs end it before."""


def delegate_tool(
    agent: "Agent | None" = None,
    *,
    name: str = NAME,
    description: str | None = None,
    timeout: float = TIMEOUT,
) -> Tool:
    """A tool that gives a task to an agent, in a run of its own.

    ``agent``: who gets it; where it is None, another run of the agent that calls. The model hears the text
    that it ends with; of a run that a valve stopped, which one, and what it had so far, as an error. Where it
    waits for a person, so does the run that called it.
    """

    async def delegate(task: str) -> str:
        """Give a task to another agent that works on its own and reports back.

        It sees nothing of this conversation: say in the task all that it needs to know.

        Args:
            task: What to do, whole.
        """
        return await _delegated(agent, task)

    delegate.delegates = True  # type: ignore[attr-defined]
    declare: Callable[..., Tool] = tool(
        impact="read", volatile=False, timeout=timeout, name=name, description=description
    )
    return declare(delegate)


async def _delegated(agent: "Agent | None", task: str) -> str:
    parent, call = running_run(), current_call()
    if parent is None or parent.work.maker is None:
        raise ToolError(call.say("{tool} works only within a run of an agent", tool=call.tool))
    caller = cast("Agent", parent.work.maker)
    limits, depth = parent.work.env.limits, parent.state.started.depth + 1
    if depth > limits.max_depth:
        words = N_("runs may start others {depth} deep only, and this one stands there: do it yourself")
        raise ToolError(call.say(words, depth=limits.max_depth))
    run_id = child_id(parent.id, call.call_id)
    try:
        before = _kept(caller, run_id)
        outcome = _ended(before)
        if outcome is None:
            worked_before = fold(before).elapsed if before else 0.0
            last = depth == limits.max_depth
            child = _within(agent or caller, caller, parent, last=last, worked_before=worked_before)
            outcome = await parent.outcome_of(child.start_child(task, run_id, parent, call.call_id))
    except (ConfigurationError, JournalError, ResumeRefused) as error:
        raise ToolError(call.say("the run could not be started: {why}", why=error)) from error
    if outcome.stop.kind == "waiting":
        raise RunWaits(run_id)
    return _report(outcome, call.say)


def child_id(run_id: str, call_id: str) -> str:
    """The id of the run that this call starts."""
    return hashlib.sha256(f"{run_id}/{call_id}".encode()).hexdigest()[:32]


def _kept(caller: "Agent", run_id: str) -> tuple[Event, ...]:
    """The events of the run that this call started before; none where there is none."""
    if caller.journal is None or not is_kept(caller.journal, run_id):
        return ()
    return tuple(record.event for record in caller.journal.read(run_id))


def _ended(events: tuple[Event, ...]) -> Outcome[Any] | None:
    """How the run ended that began so; None where there is none, or where it may go on."""
    if not events:
        return None
    state, outside = fold(events), ("waiting", "interrupted", "journal_error")
    stopped_from_outside = state.stop is None or state.stop.kind in outside
    if state.stop is not None and state.stop.detail.get("of") == "parent":
        stopped_from_outside = True  # its parent may have more by now
    if stopped_from_outside and can_go_on_without_text(events):
        return None
    return Outcome.of(state, events)


def _report(outcome: Outcome[Any], say: Say) -> str:
    """What the model hears of the run."""
    if outcome.stop.stop_class == "finished":
        return outcome.text
    why = explain(say, outcome.stop.kind, outcome.stop.detail)
    if not outcome.text:
        raise ToolError(say("The agent stopped before it was done, with nothing to show: {why}", why=why))
    words = N_("The agent stopped before it was done: {why}. What it had so far:\n{text}")
    raise ToolError(say(words, why=why, text=outcome.text))


def _within(agent: "Agent", caller: "Agent", parent: Parent, *, last: bool, worked_before: float) -> "Agent":
    """The agent as it may run below ``parent``: with its journal and its person, and no freedom that has not.

    ``last``: no run stands below its own, so it has no tool that would start one. ``worked_before``: seconds
    that its run has worked already, for which its parent's clock has run too.
    """
    above = parent.work.env.limits
    left = seconds_left(parent.state, above)
    left = None if left is None else left + worked_before
    deadlines = [one for one in (agent.limits.deadline, left) if one is not None]
    deadline = max(0.001, min(deadlines)) if deadlines else None
    depth = min(agent.limits.max_depth, above.max_depth)
    server_tools = agent.limits.server_tools and above.server_tools
    own = (one for one in agent.tools.values() if not (last and getattr(one.function, "delegates", False)))
    tools = {one.name: one for one in own}
    return agent.replaced(
        tools=tuple(tools.values()),
        limits=replace(agent.limits, deadline=deadline, max_depth=depth, server_tools=server_tools),
        policy=agent.policy.within(parent.work.env.policy),
        approve=agent.approve or caller.approve,
        on_ask="park" if "park" in (agent.on_ask, caller.on_ask) else "decline",
        yes_to=agent.yes_to & caller.yes_to & tools.keys(),
        journal=caller.journal,
        budgets=dict.fromkeys((*parent.state.started.budgets, *agent.budgets)),
        prices={**caller.prices, **agent.prices},
        secrets=dict.fromkeys((*caller.secrets, *agent.secrets)),
        language=caller.language,
    )
