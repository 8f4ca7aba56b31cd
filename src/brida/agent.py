"""The agent: a model, its tools, its limits and its policy, ready to be given a task."""

import asyncio
import copy
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from brida.approval.answers import Approver
from brida.core.decisions import Env
from brida.core.encoding import encode
from brida.core.events import ANSWER_TOOL, Declaration, Event, Started
from brida.core.history import History
from brida.core.policy import Policy
from brida.core.request import RESERVED
from brida.core.state import State
from brida.core.valves import GATE_NAMES, REPLY_CEILING, GateName, Gates, Limits, Valve
from brida.core.wording import Say, outcome_unknown
from brida.errors import ConfigurationError
from brida.models.base import Delta, Model, close_quietly
from brida.runtime import loops
from brida.runtime.local import Listener, LocalRun, Work
from brida.runtime.outcome import Outcome, T
from brida.texts.catalogue import Catalogue, choose_language
from brida.tools.declare import Tool
from brida.tools.declare import tool as declare
from brida.tools.text import clean

if TYPE_CHECKING:
    from pydantic import BaseModel

    from brida.tools.answer import AnswerForm

_ARGUMENTS = (
    *("model", "system", "max_tokens", "stop_sequences", "extra", "limits"),
    *("policy", "approve", "yes_to", "valves", "language"),
)

Messages = Sequence[Mapping[str, object]]
"""A history in the form of the wire, such as ``outcome.messages``."""


class Agent:
    """A model with tools, and the reins that a person keeps.

    ``model``: a name for the Anthropic Messages API, ``"embedded"``, or any :class:`Model`. ``tools``:
    functions made with :func:`brida.tool` (plain functions are taken as undeclared tools). ``system``:
    the system prompt. ``max_tokens``: size of a reply, in tokens; it grows after a truncation.
    ``extra``: further fields of the request body. ``limits``, ``policy``: see :class:`Limits` and
    :class:`Policy`. ``approve``: answers what the policy asks; where it is None nobody is there, and
    such calls are declined. ``yes_to``: tools whose questions are answered yes in advance. ``valves``:
    valves of your own, by gate. ``language``: of what the harness tells the model and a person, by
    default that of the locale.

    A setting that makes no sense raises :class:`ConfigurationError` here, before anything runs. An
    agent holds no run: it can be used for many at once.
    """

    def __init__(
        self,
        *,
        model: str | Model,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system: str | None = None,
        max_tokens: int = 4096,
        stop_sequences: Sequence[str] = (),
        extra: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        approve: Approver | None = None,
        yes_to: Iterable[str] = (),
        valves: Mapping[GateName, Iterable[Valve]] | None = None,
        language: str | None = None,
    ) -> None:
        self.say: Say = Catalogue.for_language(_language(language))
        self.language = _language(language)
        self.model = make_model(model, self.say) if isinstance(model, str) else _model(model)
        self.tools = _by_name(tools)
        self.system = _system(system)
        self.max_tokens = _positive("max_tokens", max_tokens)
        given = [stop_sequences] if isinstance(stop_sequences, str) else stop_sequences
        self.stop_sequences = tuple(_stop_sequence(text) for text in given)
        self.extra = _extra(extra or {})
        self.limits = limits or Limits()
        self.policy = policy or Policy()
        self.approve = approve
        self.yes_to = _yes_to(yes_to, self.tools)
        self.valves = _valves(valves or {})
        self._gates = Gates.of(self.limits, **self.valves)

    def replaced(self, **changes: Any) -> "Agent":
        """A new agent that differs in the given arguments of the constructor."""
        given = {name: getattr(self, name) for name in _ARGUMENTS}
        return Agent(**{**given, "tools": tuple(self.tools.values()), **changes})

    def start(
        self,
        task: str,
        *,
        messages: Messages = (),
        output: type[T] | None = None,
        listener: Listener | None = None,
    ) -> LocalRun[T]:
        """Starts a run in the running event loop and gives its handle; awaiting it gives the outcome.

        ``messages``: the history to go on from. ``output``: a pydantic model that the answer must fit;
        :attr:`Outcome.output` is one then. ``listener`` is called with every event and delta.
        """
        form = None if output is None else _answer_form(output)
        return cast("LocalRun[T]", self._start(self._started(messages, form), task, form, listener))

    async def run(self, task: str, *, messages: Messages = (), output: type[T] | None = None) -> Outcome[T]:
        """Runs the task to its end. Cancelling it stops the run at once, records, then raises.

        The connections of the model stay open for the next run in this loop: ``await agent.model.close()``
        frees them.
        """
        return await self.start(task, messages=messages, output=output)

    def run_sync(self, task: str, *, messages: Messages = (), output: type[T] | None = None) -> Outcome[T]:
        """Runs the task from code that is not async; within a running event loop, in a thread of its own."""
        return self._run_sync(partial(self.start, task, messages=messages, output=output))

    async def stream(
        self, task: str, *, messages: Messages = (), output: type[T] | None = None
    ) -> AsyncGenerator[Event | Delta | Outcome[T], None]:
        """The run as it happens: every event, deltas of the reply between them, the outcome last.

        Leaving the loop early cancels the run.
        """
        happened: asyncio.Queue[Event | Delta | None] = asyncio.Queue()
        run = self.start(task, messages=messages, output=output, listener=happened.put_nowait)
        waiting = asyncio.ensure_future(run)
        waiting.add_done_callback(lambda _: happened.put_nowait(None))
        try:
            while (item := await happened.get()) is not None:
                yield item
            yield await waiting
        finally:
            run.cancel()
            await asyncio.wait([waiting])

    def _run_sync(self, start: Callable[[], LocalRun[T]]) -> Outcome[T]:
        async def main() -> Outcome[T]:
            try:
                return await start()
            finally:
                await close_quietly(self.model)

        return loops.run(main)

    def _start(
        self,
        begins: Started | tuple[Event, ...],
        task: str,
        form: "AnswerForm[Any] | None",
        listener: Listener | None,
        *,
        new_budget: bool = False,
    ) -> LocalRun[Any]:
        text = _text("task", task)
        if not text.strip():
            raise ConfigurationError("task: expected a text that says what to do, got a blank one")
        started = begins if isinstance(begins, Started) else cast("Started", begins[0])
        tools = self.tools
        if form is not None and started.answer == "tool":
            tools = {**tools, ANSWER_TOOL: form.tool(self.say)}
        return LocalRun(
            Work(
                begins,
                text,
                self._env(tools, form),
                self.model,
                tools,
                approve=self.approve,
                listener=listener,
                new_budget=new_budget,
                finish=partial(self._finish, form),
            )
        )

    def _finish(self, form: "AnswerForm[Any] | None", outcome: Outcome[Any], state: State) -> Outcome[Any]:
        """The outcome with its structured answer, and a way to go on from it."""
        outcome = replace(outcome, _go_on=partial(self._go_on, form))
        if form is None or not outcome.completed:
            return outcome
        try:
            return replace(outcome, output=form.value(state.answer, state.text))
        except Exception as error:  # a validator of the caller's that said otherwise before
            raise ConfigurationError(f"output: {type(error).__name__}: {error}", outcome=outcome) from error

    def _go_on(
        self,
        form: "AnswerForm[Any] | None",
        way: Literal["start", "run_sync"],
        events: tuple[Event, ...],
        text: str,
        new_budget: bool,
        listener: Listener | None,
    ) -> "LocalRun[Any] | Outcome[Any]":
        start = partial(self._start, events, text, form, listener, new_budget=new_budget)
        return start() if way == "start" else self._run_sync(start)

    def _started(self, messages: Messages, form: "AnswerForm[Any] | None") -> Started:
        ceiling = min(REPLY_CEILING, self.model.max_output_tokens or REPLY_CEILING)
        native = None if form is None else _answer_fields(self.model, form.model, self.extra)
        tools = list(self.tools.values())
        if form is not None and native is None:
            if ANSWER_TOOL in self.tools:
                raise ConfigurationError(f"tools: {ANSWER_TOOL!r} is the name of the tool for the output")
            tools.append(form.tool(self.say))
        return Started(
            at=0.0,
            run_id=uuid.uuid4().hex,
            model=self.model.name,
            base_url=self.model.base_url,
            max_tokens=self.max_tokens,
            max_tokens_ceiling=max(self.max_tokens, ceiling),
            system=self.system,
            tools=tuple(Declaration(t.name, t.definition, t.impact, t.polls, t.volatile) for t in tools),
            stop_sequences=self.stop_sequences,
            extra=native or self.extra,
            messages=tuple(self._closed(messages)),
            language=self.language,
            answer=None if form is None else "tool" if native is None else "text",
        )

    def _closed(self, messages: Messages) -> list[dict[str, object]]:
        """The history with its open calls answered: the API takes no other."""
        try:
            history = History(messages)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigurationError(f"messages: {error}") from error
        for call_id in history.open_calls:
            history.add_result(call_id, outcome_unknown(self.say), is_error=True)
        return history.closed_messages()

    def _env(self, tools: Mapping[str, Tool], form: "AnswerForm[Any] | None") -> Env:
        return Env(
            limits=self.limits,
            tools=tools,
            policy=self.policy,
            gates=self._gates,
            say=self.say,
            on_ask="decline" if self.approve is None else "ask",
            yes_to=self.yes_to,
            check_answer=None if form is None else form.problems_of_text,
        )


def make_model(name: str, say: Say) -> Model:
    """The model that a name stands for: ``"embedded"``, or one behind the Messages API."""
    if name == "embedded":
        from brida.models.embedded import EmbeddedModel

        return EmbeddedModel(say)
    from brida.models.anthropic import AnthropicModel

    return AnthropicModel(name)


def _answer_form(output: type[Any]) -> "AnswerForm[Any]":
    from brida.tools.answer import AnswerForm

    return AnswerForm(output)


def _answer_fields(
    model: Model, output: "type[BaseModel]", extra: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The fields of a request that hold the model itself to a schema; None where it cannot be held."""
    hold = getattr(model, "answer_fields", None)
    return None if hold is None else cast("Mapping[str, object] | None", hold(output, extra))


def _language(language: str | None) -> str:
    try:
        return choose_language(language, os.environ)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _model(model: Model) -> Model:
    if not callable(getattr(model, "complete", None)):
        raise ConfigurationError(f"model: expected a name or a Model, got {type(model).__name__}")
    return model


def _by_name(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for given in [tools] if callable(tools) else tools:
        made = given if isinstance(given, Tool) else declare(given)
        if made.name in named:
            raise ConfigurationError(f"tools: two tools are named {made.name!r}; names must be unique")
        named[made.name] = made
    return named


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}: expected a text, got {type(value).__name__}")
    return clean(value)


def _yes_to(names: Iterable[str], tools: Mapping[str, Tool]) -> frozenset[str]:
    wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in tools]
    if unknown:
        known = ", ".join(tools) or "none"
        raise ConfigurationError(f"yes_to: there is no tool named {unknown[0]!r}; the tools are {known}")
    return frozenset(wanted)


def _system(system: str | None) -> str | None:
    """The system prompt; a blank one is none, since the API refuses it."""
    text = "" if system is None else _text("system", system)
    return text if text.strip() else None


def _stop_sequence(text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"stop_sequences: expected texts that are not blank, got {text!r}")
    return text


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name}: expected a whole number of at least 1, got {value!r}")
    return value


def _extra(extra: Mapping[str, object]) -> Mapping[str, object]:
    taken = sorted(set(extra) & set(RESERVED))
    if taken:
        raise ConfigurationError(f"extra: {taken[0]!r} is set by brida itself; use the argument of that name")
    try:
        encode(dict(extra))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"extra: expected values that JSON has: {error}") from error
    return copy.deepcopy(dict(extra))


def _valves(valves: Mapping[GateName, Iterable[Valve]]) -> dict[GateName, tuple[Valve, ...]]:
    given = {name: (extra,) if callable(extra) else tuple(extra) for name, extra in valves.items()}
    for name, extra in given.items():
        if name not in GATE_NAMES:
            raise ConfigurationError(f"valves: {name!r} is no gate; the gates are {', '.join(GATE_NAMES)}")
        if not all(callable(valve) for valve in extra):
            raise ConfigurationError(f"valves[{name!r}]: expected callables")
    return given
