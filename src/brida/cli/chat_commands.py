"""What can be typed in a conversation beside messages: the commands that begin with a slash."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from brida.agent import Agent
from brida.cli.transcript import save
from brida.core.policy import TIERS
from brida.core.state import State, fold
from brida.runtime.local import LocalRun
from brida.runtime.outcome import Outcome
from brida.runtime.work import Listener
from brida.texts.catalogue import N_, Catalogue


@dataclass(slots=True)
class Conversation:
    """An agent and the session with it so far. ``new_budget``: the next message begins a new one;
    ``recorded``: the run of the journal that the first message goes on with.
    """

    agent: Agent
    say: Catalogue
    outcome: Outcome[Any] | None = None
    new_budget: bool = False
    recorded: str | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the session so far."""
        return 0 if self.outcome is None else self.outcome.usage.total

    @property
    def state(self) -> State | None:
        """What the session knows; None before the first message."""
        return None if self.outcome is None else fold(self.outcome.events)

    def start(self, text: str, listener: Listener) -> LocalRun[Any]:
        """The run of the next message."""
        new_budget, self.new_budget = self.new_budget, False
        if self.outcome is None and self.recorded is not None:
            run_id, self.recorded = self.recorded, None
            return self.agent.resume(run_id, text, listener=listener)
        if self.outcome is None:
            return self.agent.start(text, listener=listener)
        return self.outcome.continue_(text, new_budget=new_budget, listener=listener)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does, giving the lines to show, and what a person reads of it."""

    help: str
    do: Callable[[Conversation, str], Iterator[str]]


def _help(talk: Conversation, _rest: str) -> Iterator[str]:
    for word, command in COMMANDS.items():
        yield f"{word:10}{talk.say(command.help)}"
    yield f"{'/end':10}{talk.say('ends the conversation, as Ctrl-D does')}"


def _limits(talk: Conversation, rest: str) -> Iterator[str]:
    if rest == "reset":
        talk.new_budget = True
        yield talk.say("the token budget begins again with the next message")
        return
    if rest:
        yield talk.say("/limits takes nothing, or reset")
        return
    limits, state, off = talk.agent.limits, talk.state, talk.say("off")
    used: dict[str, float] = {}
    if state is not None:
        used = {"max_turns": state.turns, "max_requests": state.requests, "max_calls": state.calls_seen}
        used |= {"max_tokens_total": state.tokens_used, "deadline": round(state.elapsed, 1)}
        used |= {} if state.ledger.cost is None else {"max_cost": float(state.ledger.cost.spent)}
    for name in limits.__slots__:
        value = limits.requests if name == "max_requests" else getattr(limits, name)
        shown = off if value in (None, False) else talk.say("on") if value is True else f"{value}"
        part = talk.say("used: {used}", used=used[name]) if name in used else ""
        yield f"{name:22}{shown:>10}  {part}".rstrip()


def _tools(talk: Conversation, _rest: str) -> Iterator[str]:
    if not talk.agent.tools:
        yield talk.say("there are no tools")
    for tool in talk.agent.tools.values():
        tier, rule = talk.agent.policy.decide(tool.name, impact=tool.impact, declared=tool.impact_declared)
        first = tool.description.partition("\n")[0]
        facts = talk.say("impact: {impact}; rule: {rule}", impact=tool.impact, rule=rule)
        yield f"{tool.name:16}{tier:7}{facts}"
        yield f"{'':16}{first}"


def _policy(talk: Conversation, _rest: str) -> Iterator[str]:
    for tier in TIERS:
        for rule in talk.agent.policy.rules:
            if rule.tier == tier:
                yield str(rule)
    yield talk.say(
        "what no rule names: allow where it only reads, else {tier}", tier=talk.agent.policy.default
    )
    for name in sorted(talk.agent.yes_to):
        yield talk.say("answered yes in advance: {tool}", tool=name)
    for name in sorted(talk.state.session_allows if talk.state else ()):
        yield talk.say("allowed this session: {tool}", tool=name)


def _save(talk: Conversation, rest: str) -> Iterator[str]:
    if talk.outcome is None:
        yield talk.say("nothing has been said yet")
        return
    if not rest:
        yield talk.say("/save FILE writes the conversation: Markdown, or JSON where the name ends with .json")
        return
    path = Path(rest).expanduser()
    try:
        save(path, talk.outcome.messages, talk.say)
    except FileExistsError:
        yield talk.say("{path} is there already: choose another name", path=path)
    except (OSError, ValueError) as error:
        yield talk.say("{path} cannot be written: {why}", path=path, why=error)
    else:
        yield talk.say("written: {path}", path=path)


COMMANDS: Final[Mapping[str, Command]] = {
    "/help": Command(N_("lists the commands"), _help),
    "/limits": Command(
        N_("shows the limits and what is used; /limits reset renews the token budget"), _limits
    ),
    "/tools": Command(N_("lists the tools, and what happens where the model asks for them"), _tools),
    "/policy": Command(N_("lists the rules"), _policy),
    "/save": Command(N_("writes the conversation into a file: /save notes.md, or notes.json"), _save),
}
