"""The agent: a model, its tools, its limits and its policy, ready to be given a task."""

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from brida.approval.answers import Approver
from brida.arguments import (
    answer_fields,
    budgets_of,
    check_closing_reply,
    checked_extra,
    checked_model,
    checked_stop_sequence,
    checked_valves,
    journal_of,
    language_of,
    positive,
    prices_by_model,
    seconds_or_none,
    system_of,
    task_of,
    tools_by_name,
    tools_of_yes_to,
)
from brida.core.decisions import Env
from brida.core.definition import differences
from brida.core.events import ANSWER_TOOL, Declaration, Event, Started
from brida.core.history import History
from brida.core.limits import Limits
from brida.core.policy import Policy
from brida.core.prices import Prices
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.core.valves import REPLY_CEILING, GateName, Gates, Valve
from brida.core.wording import Say, outcome_unknown
from brida.errors import ConfigurationError, ResumeRefused
from brida.models.base import Delta, Model, Waiting, close_quietly
from brida.models.named import make_model
from brida.pricing import check_bounded, known_prices
from brida.runtime import loops
from brida.runtime.local import LocalRun
from brida.runtime.outcome import Outcome, T
from brida.runtime.parent import Parent
from brida.runtime.resumable import can_go_on_without_text, is_kept, left_in
from brida.runtime.work import Listener, Work
from brida.texts.catalogue import Catalogue
from brida.texts.masking import Mask
from brida.tools.declare import Tool

if TYPE_CHECKING:
    from brida.journal.base import Journal, Writer
    from brida.tools.answer import AnswerForm

_ARGUMENTS = (
    *("model", "system", "max_tokens", "stop_sequences", "extra", "limits"),
    *("policy", "approve", "on_ask", "approval_ttl", "yes_to", "valves", "language", "journal", "secrets"),
    *("prices", "budgets", "cache"),
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
    such calls are declined; with ``on_ask="park"`` the run waits for an answer instead, and its process may
    end. ``approval_ttl``: seconds after which such an answer is none any more. ``yes_to``: tools whose
    questions are answered yes in advance. ``valves``: valves of your own, by gate. ``language``: of what the
    harness tells the model and a person, by default that of the locale. ``journal``: a path or a store that
    keeps every event, so that a run can be resumed; without it nothing is kept. ``secrets``: names of
    environment variables whose values no model, journal or log may hold; those that look secret by their
    names are among them anyway. ``prices``: what models cost, by name, where that is not known or not right.
    ``budgets``: names of budgets in the journal that the runs share with others. ``cache``: whether requests
    are marked for the prompt cache, where the model has one.

    A setting that makes no sense raises :class:`ConfigurationError` here, before anything runs. An
    agent holds no run: it can be used for many at once.
    """

    def __init__(  # noqa: PLR0913
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
        on_ask: Literal["decline", "park"] = "decline",
        approval_ttl: float | None = None,
        yes_to: Iterable[str] = (),
        valves: Mapping[GateName, Iterable[Valve]] | None = None,
        language: str | None = None,
        journal: "str | Path | Journal | None" = None,
        secrets: Iterable[str] = (),
        prices: Mapping[str, Prices] | None = None,
        budgets: Iterable[str] = (),
        cache: bool = True,
    ) -> None:
        self.say: Say = Catalogue.for_language(language_of(language))
        self.language = language_of(language)
        self.model = make_model(model, self.say) if isinstance(model, str) else checked_model(model)
        self.tools = tools_by_name(tools)
        self.system = system_of(system)
        self.max_tokens = positive("max_tokens", max_tokens)
        given = [stop_sequences] if isinstance(stop_sequences, str) else stop_sequences
        self.stop_sequences = tuple(checked_stop_sequence(text) for text in given)
        self.extra = checked_extra(extra or {})
        self.limits = limits or Limits()
        check_closing_reply(self.limits, self.extra)
        self.policy = policy or Policy()
        self.approve = approve
        if on_ask not in ("decline", "park"):
            raise ConfigurationError(f"on_ask: expected 'decline' or 'park', got {on_ask!r}")
        self.on_ask = on_ask
        self.approval_ttl = seconds_or_none("approval_ttl", approval_ttl)
        self.journal = journal_of(journal)
        self.secrets = (secrets,) if isinstance(secrets, str) else tuple(secrets)
        self.prices = prices_by_model(prices or {})
        self.budgets = budgets_of(budgets, self.journal)
        self.cache = cache
        self.settings: Mapping[str, object] | None = None
        """What the command line keeps of a run, to make the agent again."""
        self.yes_to = tools_of_yes_to(yes_to, self.tools)
        self.valves = checked_valves(valves or {})
        self._gates = Gates.of(self.limits, **self.valves)

    def replaced(self, **changes: Any) -> "Agent":
        """A new agent that differs in the given arguments of the constructor."""
        given = {name: getattr(self, name) for name in _ARGUMENTS}
        other = Agent(**{**given, "tools": tuple(self.tools.values()), **changes})
        other.settings = self.settings
        return other

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
        return cast("LocalRun[T]", self._begin(self._started(messages, form), task, form, listener))

    def start_child(self, task: str, run_id: str, parent: Parent, call_id: str) -> LocalRun[Any]:
        """Starts a run as ``call_id`` of ``parent``, or goes on with the one that this call started before.

        It spends what its parent has left, and stops when that stops. Raises as :meth:`start` and
        :meth:`resume` do. See :mod:`brida.delegating`.
        """
        if is_kept(self.journal, run_id):
            return self.resume(run_id, parent=parent)
        above = parent.state.started
        started = replace(
            self._started((), None, money=parent.room().cost is not None),
            run_id=run_id,
            parent=above.run_id,
            parent_call=call_id,
            depth=above.depth + 1,
        )
        return self._begin(started, task, None, None, parent)

    def _begin(
        self,
        started: Started,
        task: str,
        form: "AnswerForm[Any] | None",
        listener: Listener | None,
        parent: Parent | None = None,
    ) -> LocalRun[Any]:
        for name in self.budgets:
            cast("Journal", self.journal).budget(name)  # that there is none is told before anything runs
        writer = None if self.journal is None else self.journal.begin(started.run_id)
        with _released_if_it_fails(writer):
            return self._start(started, task_of(task), form, listener, writer=writer, parent=parent)

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
    ) -> AsyncGenerator[Event | Delta | Waiting | Outcome[T], None]:
        """The run as it happens: every event, deltas of the reply between them, the outcome last.

        Leaving the loop early cancels the run.
        """
        happened: asyncio.Queue[Event | Delta | Waiting | None] = asyncio.Queue()
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

    def resume(
        self,
        run_id: str,
        text: str | None = None,
        *,
        output: type[T] | None = None,
        stop: Stop | None = None,
        take_over: bool = False,
        listener: Listener | None = None,
        parent: Parent | None = None,
    ) -> LocalRun[T]:
        """Goes on with a run of the journal where it stood; awaiting the handle gives the outcome.

        ``run_id``: any unique beginning of it, or ``"-"`` for the last run. ``text``: what to do next, which
        a run that is complete needs: turns, requests, calls and seconds are then counted afresh. Without it
        all counts go on, so raise the limit that stopped the run. ``stop``: it ends so before anything is
        done, as to park it. ``take_over``: takes the run from a process that still holds it. ``parent``: the
        run that started it, without which such a run does not go on.

        Calls whose process died: ``read`` and ``idempotent`` ones run again with the same idempotency key;
        of any other its ``reconcile`` is asked, then a person, and where nobody can say, the model hears
        that the outcome is unknown. None is repeated in silence.

        Raises :class:`ConfigurationError` where there is no journal, or a text is missing;
        :class:`ResumeRefused` where the definition of the agent changed in a way that matters;
        :class:`JournalError` where the run is busy, unknown, damaged or of a newer version. Nothing has
        been recorded then.
        """
        if self.journal is None:
            raise ConfigurationError("journal: this agent keeps none; give it the path of one")
        writer = self.journal.hold(self.journal.find(run_id), take_over=take_over)
        with _released_if_it_fails(writer):
            events = tuple(record.event for record in self.journal.read(writer.run_id))
            form = None if output is None else _answer_form(output)
            _check_parent(cast("Started", events[0]), parent)
            said: str | None = None if text is None else task_of(text)
            taken: tuple[int, ...] = ()
            if said is None and not can_go_on_without_text(events):
                said, taken = left_in(writer)
            self._check_resumable(events, said, form)
            run = self._start(
                events, said, form, listener, writer=writer, stop=stop, taken=taken, parent=parent
            )
        return cast("LocalRun[T]", run)

    def resume_sync(
        self, run_id: str, text: str | None = None, *, output: type[T] | None = None, take_over: bool = False
    ) -> Outcome[T]:
        """As :meth:`resume`, from code that is not async."""
        return self._run_sync(partial(self.resume, run_id, text, output=output, take_over=take_over))

    def _check_resumable(
        self, events: tuple[Event, ...], text: str | None, form: "AnswerForm[Any] | None"
    ) -> None:
        state = fold(events)
        begun = state.started
        if (begun.answer is None) is not (form is None):
            wanted = "none" if begun.answer is None else "the one that the run began with"
            raise ConfigurationError(f"output: expected {wanted}")
        if set(self.budgets) - set(begun.budgets):
            began = ", ".join(begun.budgets) or "none"
            raise ConfigurationError(f"budgets: the run began with {began}, and a run keeps its budgets")
        if found := differences(begun, self._started((), form)):
            detail = {"differences": [{"what": one.what, "was": one.before, "is": one.now} for one in found]}
            refused = Stop("definition_changed", detail)
            ended = state.copy()
            ended.stop = refused
            raise ResumeRefused(refused, Outcome.of(ended, events))
        if text is None and not can_go_on_without_text(events):
            raise ConfigurationError("text: the run is complete; say what to do next")

    def as_tool(self, *, name: str, description: str) -> Tool:
        """This agent as a tool of another: see :func:`brida.delegating.delegate_tool`."""
        from brida.delegating import delegate_tool

        return delegate_tool(self, name=name, description=description)

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
        text: str | None,
        form: "AnswerForm[Any] | None",
        listener: Listener | None,
        *,
        new_budget: bool = False,
        writer: "Writer | None" = None,
        stop: Stop | None = None,
        taken: tuple[int, ...] = (),
        parent: Parent | None = None,
    ) -> LocalRun[Any]:
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
                stop=stop,
                finish=partial(self._finish, form),
                mask=Mask.of(os.environ, self.secrets),
                writer=writer,
                taken=taken,
                journal=self.journal,
                above=parent,
                prices=None if begins is started else self._priced(started, parent),
                maker=self,
            )
        )

    def _priced(self, started: Started, parent: Parent | None) -> Prices | None:
        """What the model of a run that goes on costs: as it began, or, where that was not known, now."""
        money = self.limits.cost is not None or started.budgets or (parent and parent.room().cost is not None)
        if started.prices is None or money:
            prices = started.prices or known_prices(self.model, self.prices)
            if money:
                check_bounded(self.model.name, prices, started.extra or {}, self.limits, self.say)
            return prices
        return None

    def _finish(self, form: "AnswerForm[Any] | None", outcome: Outcome[Any], state: State) -> Outcome[Any]:
        """The outcome with its structured answer, and a way to go on from it."""
        outcome = replace(outcome, _go_on=partial(self._go_on, form))
        if form is None or not outcome.completed:
            return outcome
        try:
            return replace(outcome, output=_value(form, state))
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
        start = partial(self._continue, events, task_of(text), form, listener, new_budget)
        return start() if way == "start" else self._run_sync(start)

    def _continue(
        self,
        events: tuple[Event, ...],
        text: str,
        form: "AnswerForm[Any] | None",
        listener: Listener | None,
        new_budget: bool,
    ) -> LocalRun[Any]:
        """Goes on from an outcome; where a journal keeps the run, only from its end."""
        if self.journal is None:
            return self._start(events, text, form, listener, new_budget=new_budget)
        writer = self.journal.hold(cast("Started", events[0]).run_id)
        with _released_if_it_fails(writer):
            if len(self.journal.read(writer.run_id)) != len(events):
                raise ConfigurationError("the run has gone on since: resume it, or fork it from here")
            return self._start(events, text, form, listener, new_budget=new_budget, writer=writer)

    def _started(self, messages: Messages, form: "AnswerForm[Any] | None", *, money: bool = False) -> Started:
        """``money``: whether whoever stands above has a limit of it."""
        prices = known_prices(self.model, self.prices)
        if money or self.limits.cost is not None or self.budgets:
            check_bounded(self.model.name, prices, self.extra, self.limits, self.say)
        ceiling = min(REPLY_CEILING, self.model.max_output_tokens or REPLY_CEILING)
        native = None if form is None else answer_fields(self.model, form.model, self.extra)
        tools = list(self.tools.values())
        if form is not None and native is None:
            if ANSWER_TOOL in self.tools:
                raise ConfigurationError(f"tools: {ANSWER_TOOL!r} is the name of the tool for the output")
            self._check_answer_tool()
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
            settings=self.settings,
            approval_ttl=self.approval_ttl,
            prices=prices,
            cache=self.cache and bool(getattr(self.model, "caches_prompts", False)),
            budgets=self.budgets,
        )

    def _check_answer_tool(self) -> None:
        """A policy under which the answer can never be given would have the model blamed for it."""
        tier, rule = self.policy.decide(ANSWER_TOOL, impact="read", declared=True)
        nobody = self.approve is None and self.on_ask == "decline" and ANSWER_TOOL not in self.yes_to
        if tier == "deny" or (tier == "ask" and nobody):
            raise ConfigurationError(
                f"policy: {rule} keeps the model from giving its answer with {ANSWER_TOOL!r}; allow that tool"
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
            on_ask="park" if self.on_ask == "park" else "decline" if self.approve is None else "ask",
            yes_to=self.yes_to,
            check_answer=None if form is None else form.problems_of_text,
            counts_tokens=callable(getattr(self.model, "count_tokens", None)),
        )


def _answer_form(output: type[Any]) -> "AnswerForm[Any]":
    from brida.tools.answer import AnswerForm

    return AnswerForm(output)


def _check_parent(started: Started, parent: Parent | None) -> None:
    """A run that another started goes on within that one, whose limits it spends."""
    if started.parent is not None and (parent is None or parent.id != started.parent):
        raise ConfigurationError(f"run_id: run {started.run_id} belongs to run {started.parent}: resume that")


@contextmanager
def _released_if_it_fails(writer: "Writer | None") -> Iterator[None]:
    """Nobody is left holding a run that did not begin."""
    try:
        yield
    except BaseException:
        if writer is not None:
            writer.release()
        raise


def _value(form: "AnswerForm[Any]", state: State) -> object:
    """The structured answer of a run that completed."""
    for text in state.answer_texts[:-1]:
        with suppress(ValueError):
            return form.value(state.answer, text)
    return form.value(state.answer, state.answer_texts[-1])
