"""The live trace: what a person sees of a run while it works."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

from brida.cli.money import WARNING, dollars
from brida.cli.screen import Screen
from brida.core.encoding import Block
from brida.core.events import (
    BudgetsRead,
    CallFinished,
    Closing,
    Decided,
    Edited,
    Event,
    Lost,
    Received,
    Reply,
    Sent,
)
from brida.core.prices import Number
from brida.core.transitions import Action, classify, look_up, text_of
from brida.models.base import Delta, Waiting
from brida.runtime.outcome import Outcome
from brida.texts.catalogue import N_, Catalogue
from brida.texts.endings import explain

RESULT_SHOWN: Final = 300
"""Characters of a result that the trace looks at; the line is cut to the width anyway."""

COUNTED_DOWN: Final = 3.0
"""Seconds of a wait from which on it is counted down."""

ARGUMENTS_SHOWN: Final = 2_000
"""Characters of a call's arguments that the trace looks at."""


class Trace:
    """Turns the events of a run into lines on stderr, and the model's text into stdout.

    On a terminal the text streams as it arrives; elsewhere the text of each reply is written once the
    reply is whole and kept, so that a pipe never holds half a reply that was thrown away. ``write``: where
    the lines go instead of stderr.
    """

    def __init__(
        self,
        screen: Screen,
        say: Catalogue,
        *,
        lines: bool,
        text: bool,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self._screen, self._say = screen, say
        self._write = write or partial(screen.line, cut=True)
        self._lines, self._text = lines, text
        self._replies = 0
        self._attempts = 0
        self._tools: dict[str, str] = {}
        self._written = self._paused = ""
        self._counting = False
        self._warned: set[str] = set()

    def __call__(self, what: Event | Delta | Waiting) -> None:
        """Shows one event or delta."""
        if not isinstance(what, Waiting):
            self._end_count_down()
        match what:
            case Waiting():
                self._count_down(what)
            case Delta(kind="text"):
                self._stream(what.text)
            case Sent():
                self._attempts = what.attempt
            case BudgetsRead():
                self._warn(what)
            case Received():
                self._received(what.reply)
            case Decided() if what.verdict != "allow":
                self._line(
                    self._say("{tool} did not run: {why}", tool=self.tool(what.call_id), why=what.text)
                )
            case Edited():
                self._edited(what)
            case CallFinished():
                self._finished(what)
            case Closing():
                self._line(self._say("a limit is reached: the model is asked what it found so far"))
            case Lost():
                self._lost(what)
            case _:
                pass

    def _warn(self, event: BudgetsRead) -> None:
        """Says once of each shared budget that most of it is used."""
        for one in event.left:
            if one.cost is None or one.limit is None or one.name in self._warned:
                continue
            if one.limit - one.cost >= WARNING * one.limit:
                self._warned.add(one.name)
                share = int(100 * (one.limit - one.cost) / one.limit)
                left = dollars(one.cost, self._say)
                text = N_("{share} % of the budget {name} is used, {left} left")
                self._line(self._say(text, share=share, name=one.name, left=left))

    def _count_down(self, waiting: Waiting) -> None:
        """The seconds that are left of a long wait, on a terminal in one line that is written over."""
        if not self._lines or (waiting.seconds < COUNTED_DOWN and not self._counting):
            return
        seconds = math.ceil(waiting.seconds)
        words = self._say("another attempt in {seconds} s ({fault})", seconds=seconds, fault=waiting.fault)
        if self._screen.err_is_terminal:
            self._screen.over(words)
        elif not self._counting:
            self._line(words)
        self._counting = True

    def _end_count_down(self) -> None:
        if self._counting and self._screen.err_is_terminal:
            self._screen.over("")
        self._counting = False

    def remember(self, events: Iterable[Event]) -> None:
        """Takes what a run did before it goes on: its replies are counted, its calls known by name."""
        for event in events:
            if isinstance(event, Received):
                kept = look_up(event.reply.stop_reason, classify(event.reply.content, self._tools)[0]).keep
                self._replies += 1
                if kept:
                    self._tools |= {call.id: call.tool for call in classify(event.reply.content, ())[1]}

    def end(self, outcome: Outcome[Any], *, tokens_before: int | None = None) -> None:
        """Shows how the run ended. ``tokens_before``: those of the session before it, where there is one."""
        if self._text and outcome.text and self._written != outcome.text and not self._screen.out_is_terminal:
            self._screen.out(outcome.text)
        self._screen.end_line()
        if outcome.stop.kind != "completed":
            self._screen.line(explain(self._say, outcome.stop.kind, outcome.stop.detail))
        if self._lines:
            self._screen.line("")
            self._screen.line(closing_line(outcome, self._say, tokens_before))

    # -- one event each

    def _stream(self, text: str) -> None:
        if self._text and self._screen.out_is_terminal:
            self._screen.out(text)

    def _received(self, reply: Reply) -> None:
        self._replies += 1
        kind, calls = classify(reply.content, self._tools)
        row = look_up(reply.stop_reason, kind)
        text = text_of(reply.content)
        if row.keep and text and self._text and not self._screen.out_is_terminal:
            self._screen.out(text if text.endswith("\n") else text + "\n")
            self._written = self._paused + text
        if row.keep:
            self._paused = self._paused + text if row.action is Action.RESUME else ""
            self._tools |= {call.id: call.tool for call in calls}
        self._screen.end_line()
        if row.action is Action.RUN_CALLS:
            for call in calls:
                arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
                self._line(
                    self._say("the model asks for {call}", call=f"{call.tool}({arguments[:ARGUMENTS_SHOWN]})")
                )
        elif row.action in (Action.REPEAT, Action.GROW):
            reason = reply.stop_reason
            self._line(
                self._say("the reply ({stop_reason}) is thrown away, nothing of it runs", stop_reason=reason)
            )
        elif row.action is Action.RESUME:
            self._line(self._say("the model pauses ({stop_reason})", stop_reason=reply.stop_reason))
        else:
            self._line(self._say("the model ends ({stop_reason})", stop_reason=reply.stop_reason))

    def _finished(self, event: CallFinished) -> None:
        tool = self.tool(event.call_id)
        content = event.content if isinstance(event.content, str) else self._blocks(event.content)
        shown = json.dumps(content[:RESULT_SHOWN], ensure_ascii=False)
        if event.outcome == "ok":
            self._line(self._say("{tool} returned {result}", tool=tool, result=shown))
        else:
            self._line(self._say("{tool} failed: {result}", tool=tool, result=shown))

    def _blocks(self, content: Sequence[Block]) -> str:
        """A result that is more than text."""
        image = self._say("(an image)")
        return " ".join(str(b.get("text")) if b.get("type") == "text" else image for b in content)

    def _edited(self, event: Edited) -> None:
        arguments = json.dumps(event.arguments, ensure_ascii=False, separators=(",", ":"))
        call = f"{self.tool(event.call_id)}({arguments[:ARGUMENTS_SHOWN]})"
        self._line(self._say("a person changes the call into {call}", call=call))

    def _lost(self, event: Lost) -> None:
        self._screen.end_line()
        fault = event.fault
        if fault.kind != "abandoned":
            self._line(
                self._say(
                    "attempt {attempt} failed: {kind}: {message}",
                    attempt=self._attempts,
                    kind=fault.kind,
                    message=fault.message,
                )
            )

    def tool(self, call_id: str) -> str:
        """The tool of a call that was shown; the id itself where it was not."""
        return self._tools.get(call_id, call_id)

    def _line(self, text: str) -> None:
        if self._lines:
            number = max(1, self._replies)
            self._write(self._say("[turn {number}] {text}", number=number, text=text))


def closing_line(outcome: Outcome[Any], say: Catalogue, tokens_before: int | None = None) -> str:
    """The last line of a run: turns, requests, tokens, money, seconds; in a session, its tokens besides."""
    turns = say.plural("{count} turn of tool calls", "{count} turns of tool calls", outcome.turns)
    requests = say.plural("over {count} model request", "over {count} model requests", outcome.requests)
    if outcome.closing_requests:
        requests = say("{requests} and a closing reply", requests=requests)
    total = outcome.usage.total
    used = total - (tokens_before or 0)
    tokens = say.plural("{number} token", "{number} tokens", used, number=say.number(used))
    if not outcome.usage.complete:
        tokens = say("{tokens} (estimated)", tokens=tokens)
    if tokens_before:
        tokens = say("{tokens}, {total} in this session", tokens=tokens, total=say.number(total))
    parts = [f"{turns} {requests}", tokens, *_money(outcome, say)]
    seconds = f"{say.decimal(outcome.seconds - outcome.seconds_waited, 1)} s"
    if outcome.seconds_waited >= 1:
        waited = say.decimal(outcome.seconds_waited, 1)
        seconds = say("{seconds}, and {waited} s of waiting", seconds=seconds, waited=waited)
    return " · ".join((*parts, seconds))


def _money(outcome: Outcome[Any], say: Catalogue) -> Iterator[str]:
    """What the session cost, and what of it the prompt cache took or saved; nothing where nobody knows."""
    if outcome.cost is None:
        return
    if outcome.cost == outcome.held_cost == 0 and outcome.base_url is None:
        yield say("no cost: the model runs here")
        return
    cost = dollars(outcome.cost, say)
    if outcome.held_cost:
        held = dollars(outcome.held_cost, say)
        cost = say("{cost}, and up to {held} that nobody could settle", cost=cost, held=held)
    yield cost
    usage = outcome.usage
    saved: Number = outcome.spending.saved or Decimal(0)
    written, read = usage.cache_creation_input_tokens, usage.cache_read_input_tokens
    if written or read:
        yield say(
            CACHE_SAVED if saved >= 0 else CACHE_COST,
            written=say.number(written),
            read=say.number(read),
            share=round(100 * outcome.cache_share),
            amount=dollars(max(saved, -saved), say),
        )


CACHE_SAVED: Final = N_(
    "cache: {written} tokens written, {read} read ({share} % of the input), {amount} saved"
)
CACHE_COST: Final = N_("cache: {written} tokens written, {read} read ({share} % of the input), {amount} lost")
