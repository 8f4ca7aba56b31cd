"""The call gate: what is settled for one call, by which rule or person, before any call of its turn runs.

Asked in order: deny by name, known tool, schema, policy, approval; the first that settles it. What a
person has changed is decided and shown again, and nothing said in advance answers for it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, Protocol

from brida.core import wording
from brida.core.encoding import encode
from brida.core.events import Decided, Impact, Question, Verdict
from brida.core.limits import Limits
from brida.core.policy import Policy
from brida.core.state import State
from brida.core.stops import Stop
from brida.core.turn import Call
from brida.core.valves import Gates
from brida.core.wording import Say

MOST_EDITS: Final = 20
"""How often a person may change the arguments of one call before it counts as declined."""


class Tool(Protocol):
    """What the core asks of a tool: what it can do, and what it says of a call's arguments."""

    @property
    def impact(self) -> Impact: ...
    @property
    def impact_declared(self) -> bool: ...
    def problems(self, arguments: Mapping[str, object], say: Say) -> tuple[str, ...]:
        """What is wrong with the arguments, one text a field; empty where nothing is."""
        ...

    def asks_anyway(self, arguments: Mapping[str, object], say: Say) -> str | None:
        """Why this call needs a person's answer whatever the rules allow; None where it does not."""
        ...

    @property
    def reconciles(self) -> bool:
        """Whether it can find out what became of a call whose process died."""
        ...


@dataclass(frozen=True, slots=True)
class Env:
    """What the decisions of a run are made with. Nothing of it is in the state.

    ``on_ask``: whether somebody is there to answer; where nobody is, what needs an answer is declined, or
    the run waits for it.
    ``yes_to``: tools whose questions are answered yes in advance; never against a deny rule.
    ``check_answer``: what is wrong with a text that must be a structured answer. ``counts_tokens``: whether
    the server can count the tokens of a request.
    """

    limits: Limits
    tools: Mapping[str, Tool] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    gates: Gates = field(default_factory=lambda: Gates.of(Limits()))
    say: Say = wording.english
    on_ask: Literal["ask", "decline", "park"] = "ask"
    yes_to: frozenset[str] = frozenset()
    check_answer: Callable[[str, Say], tuple[str, ...]] | None = None
    counts_tokens: bool = False


def decide(call: Call, state: State, env: Env) -> Decided | Question | Stop:
    """What settles the call; a question where a person must; a stop where its tool's own checks fail."""
    asked = call.runs
    if rule := env.policy.denies(asked.tool):
        return _decided(state, call, "denied", rule, wording.denied(env.say, asked.tool))
    if (tool := env.tools.get(asked.tool)) is None:
        text = wording.unknown_tool(env.say, asked.tool, env.tools)
        return _decided(state, call, "unknown_tool", "known tools", text)
    if call.question is not None and call.answer is None:
        return _put_before(call, call.question, state, env, tool)
    try:
        return _by_rules(call, state, env, tool)
    except Exception as error:
        facts = {"where": f"tool {asked.tool}", "error": f"{type(error).__name__}: {error}"}
        return Stop("configuration_error", facts)


def _put_before(call: Call, question: Question, state: State, env: Env, tool: Tool) -> Decided | Question:
    """A question that a person has seen is not made again, but a rule may forbid its call by now."""
    tier, rule = env.policy.decide(question.tool, impact=tool.impact, declared=tool.impact_declared)
    if tier == "deny":
        return _decided(state, call, "denied", rule, wording.denied(env.say, question.tool))
    return _approval(call, state, env, raised=question.raised) or question


def _by_rules(call: Call, state: State, env: Env, tool: Tool) -> Decided | Question:
    """What the schema, the policy or an answer says; a question where none of them says anything."""
    asked, changed = call.runs, call.edited is not None
    problems = tool.problems(asked.arguments, env.say)
    if problems and (not changed or (call.answer is not None and call.answer.allow)):
        return _decided(state, call, "invalid", "schema", wording.invalid(env.say, asked.tool, problems))
    raised = None if problems else tool.asks_anyway(asked.arguments, env.say)
    tier, rule = env.policy.decide(asked.tool, impact=tool.impact, declared=tool.impact_declared)
    if tier == "deny":
        return _decided(state, call, "denied", rule, wording.denied(env.say, asked.tool))
    if tier == "allow" and raised is None and call.answer is None and not changed:
        return _decided(state, call, "allow", rule)
    return _approval(call, state, env, raised=raised is not None) or Question(
        asked.id,
        asked.tool,
        _copy(asked.arguments),
        asked.digest,
        tool.impact,
        raised or rule,
        raised is not None,
        _copy(call.asked.arguments) if changed else None,
        problems,
    )


def _approval(call: Call, state: State, env: Env, *, raised: bool) -> Decided | None:
    """What answers a question: an answer to this very call, one given in advance, or that nobody is there."""
    tool, answer, decided = call.asked.tool, call.answer, partial(_decided, state, call)
    if answer is not None and answer.allow:
        return decided("allow", f"answered by {answer.by}")
    if answer is not None:
        text = wording.declined(env.say, tool, answer.reason)
        return decided("declined", f"answered by {answer.by}", text)
    if call.edits >= MOST_EDITS:
        return decided("declined", "changed too often", wording.changed_too_often(env.say, tool))
    if tool in env.yes_to and not call.edits:
        return decided("allow", f"--yes-to {tool}")
    if tool in state.session_allows and not raised and not call.edits:
        return decided("allow", "allowed this session")
    if env.on_ask == "decline":
        return decided("declined", "nobody there", wording.nobody_there(env.say, tool))
    return None


def _decided(state: State, call: Call, verdict: Verdict, rule: str, text: str = "") -> Decided:
    return Decided(state.at, call.asked.id, verdict, rule, call.runs.digest, text)


def _copy(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """What is shown is a copy: whoever is asked cannot change what runs."""
    copied: Mapping[str, object] = json.loads(encode(arguments))
    return copied
