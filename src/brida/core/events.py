"""What a run can learn: every event. ``codec`` turns them into JSON and back.

The journal of a run is the list of its events, in order. An event is a fact, never an order; each
carries ``at``, the time at which it was learned (seconds since the epoch), which is the only clock the
core has. A driver stamps it. Blocks of a reply are kept as they were received, unknown fields included.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from brida.core.encoding import Block
from brida.core.ledger import Left, Reserve
from brida.core.prices import Number, Prices
from brida.core.stops import Stop
from brida.core.usage import Usage

VERSION: Final = 2
"""Of a record: 2 knows what requests may cost, and runs that start others."""

Impact: TypeAlias = Literal["read", "idempotent", "high"]
Verdict: TypeAlias = Literal["allow", "denied", "unknown_tool", "invalid", "declined"]
CallOutcome: TypeAlias = Literal["ok", "failed", "unknown"]
Finding: TypeAlias = Literal["happened", "did_not_happen", "unclear", "unknown"]

ANSWER_TOOL: Final = "give_answer"
"""The tool that the harness itself provides where a run must give a structured answer."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool as the run knew it: what the model was shown, and what the author declared of it."""

    name: str
    definition: Mapping[str, object]
    impact: Impact = "high"
    polls: bool = False
    volatile: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply of the model, as received. ``usage`` is the server's own, None where it sent none."""

    content: tuple[Block, ...]
    stop_reason: str | None
    usage: Mapping[str, object] | None = None
    stop_sequence: str | None = None
    stop_details: Mapping[str, object] | None = None
    id: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name in ("stop_reason", "stop_sequence", "id", "model"):
            _check(name, getattr(self, name), str)
        for name in ("usage", "stop_details"):
            _check(name, getattr(self, name), Mapping)
        object.__setattr__(self, "content", tuple(self.content))
        if not all(isinstance(block, Mapping) for block in self.content):
            raise TypeError("content: expected blocks, each a mapping")


def _check(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__} or None, got {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an attempt brought no whole reply.

    ``again``: another attempt may help. ``retry_after``: seconds that the server asked to wait.
    ``usage``: what is known of the lost reply's counters. ``billed``: the server may have charged for it.
    """

    kind: str
    message: str
    again: bool = False
    retry_after: float | None = None
    usage: Mapping[str, object] | None = None
    billed: bool = False
    status: int | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if self.retry_after is not None and not 0 <= self.retry_after < float("inf"):
            raise ValueError(f"retry_after: expected seconds from 0, got {self.retry_after!r}")


@dataclass(frozen=True, slots=True)
class Question:
    """A call that a person must answer, exactly as it would run.

    ``raised``: the tool itself asks. ``asked``: what the model asked for, where a person has changed the
    arguments; ``problems``: what is wrong with the changed ones, which then cannot run. ``basis``: what
    the call would change, as it was when the question was put; an approval holds for that alone. A
    driver fills it, since it may take reading a file.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, object]
    digest: str
    impact: Impact
    rule: str
    raised: bool = False
    asked: Mapping[str, object] | None = None
    problems: tuple[str, ...] = ()
    basis: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The run began: what of the request stays fixed. ``messages`` is the history it goes on from.

    ``answer``: the form of the answer that the run must give, where its text alone will not do: a valid
    call of the tool :data:`ANSWER_TOOL`, or a text that fits a schema. ``settings``: what whoever made the
    agent needs to make it again; the core does not look at it. ``approval_ttl``: seconds after which an
    answer to a question is none any more where the run only then goes on, None for never. ``forked_from``:
    the run, and the number of its last event, whose events this one began with. ``prices``: what its model
    costs, None where nobody knows. ``cache``: whether the parts that stay the same are marked for the prompt
    cache. ``budgets``: the shared ones that its requests count in. ``parent``: the run that started it, for
    its call ``parent_call``; ``depth``: how many runs stand above it.
    """

    at: float
    run_id: str
    model: str
    max_tokens: int
    max_tokens_ceiling: int
    base_url: str | None = None
    system: str | None = None
    tools: tuple[Declaration, ...] = ()
    stop_sequences: tuple[str, ...] = ()
    extra: Mapping[str, object] | None = None
    messages: tuple[Mapping[str, object], ...] = ()
    language: str = "en"
    answer: Literal["tool", "text"] | None = None
    settings: Mapping[str, object] | None = None
    approval_ttl: float | None = None
    forked_from: str | None = None
    prices: Prices | None = None
    cache: bool = False
    budgets: tuple[str, ...] = ()
    parent: str | None = None
    parent_call: str | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """A person's text entered the run. ``steering``: while the run was at work."""

    at: float
    text: str
    steering: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt is about to leave: it seals the open user message. Recorded before the bytes go out.

    ``digest`` is that of the whole request. ``reserve``: the most that it can come to; None in records of
    versions that reserved nothing.
    """

    at: float
    attempt: int
    max_tokens: int
    digest: str
    reserve: Reserve | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A whole reply arrived."""

    at: float
    reply: Reply


@dataclass(frozen=True, slots=True)
class Lost:
    """The attempt brought no whole reply: what came is thrown away, what is known of its usage counts."""

    at: float
    fault: Fault


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait between two attempts is over. ``seconds`` is the wait that was asked for, without jitter."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TokensCounted:
    """A server counted the request that comes next, or could not: ``input_tokens`` is None then."""

    at: float
    input_tokens: int | None


@dataclass(frozen=True, slots=True)
class BudgetsRead:
    """What is left of the budgets that the run shares, and of what its parent may spend, was looked at."""

    at: float
    left: tuple[Left, ...]


@dataclass(frozen=True, slots=True)
class ChildSent:
    """A run that this one started is about to send an attempt, for which so much is reserved here."""

    at: float
    run_id: str
    tokens: int
    cost: Number | None = None


@dataclass(frozen=True, slots=True)
class ChildSettled:
    """What an attempt of a run that this one started came to. ``held``: what of its reserve stays counted."""

    at: float
    run_id: str
    usage: Usage
    cost: Number | None = None
    held_tokens: Number = 0
    held_cost: Number = 0


@dataclass(frozen=True, slots=True)
class CallWaits:
    """The run that a call started waits for a person: the call goes on when that has its answer."""

    at: float
    call_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn gate let a turn of calls pass; ``turn`` counts from 1."""

    at: float
    turn: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions were put to a person. The deadline's clock stands still until all are answered."""

    at: float
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A person's answer, bound to the digest of what was shown. ``session``: it holds for the tool."""

    at: float
    call_id: str
    digest: str
    allow: bool
    by: str
    reason: str = ""
    session: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """A person wrote other arguments in place of those shown, whose digest this is: they are put again."""

    at: float
    call_id: str
    digest: str
    arguments: Mapping[str, object]
    by: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What was settled for one call, by which rule or person; ``text`` is what the model hears of a no."""

    at: float
    call_id: str
    verdict: Verdict
    rule: str
    digest: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The intent to run a call. Recorded before its effect."""

    at: float
    call_id: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """What a call returned, as the model hears it: a text, or blocks where it is shown an image.

    ``unknown``: nobody knows whether its effect happened.
    """

    at: float
    call_id: str
    outcome: CallOutcome
    content: str | tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What became of a call that was under way when its process died, and who found out.

    ``happened``: its effect is there, and ``content`` is its result. ``did_not_happen``: the call may run.
    ``unclear``: its tool cannot tell, so a person must. ``unknown``: nobody can, and ``content`` says so.
    """

    at: float
    call_id: str
    found: Finding
    by: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer that the run must give was looked at. ``text``: what is wrong with it, where it is wrong."""

    at: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the run to end as ``stop`` says: a person, a parent, a hook that failed."""

    at: float
    stop: Stop


@dataclass(frozen=True, slots=True)
class Closure:
    """The text that closes a call which was still open when the run stopped."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Closing:
    """The run will end as ``stop`` says, and one more reply, without tools, is asked for with ``text``."""

    at: float
    stop: Stop
    closed: tuple[Closure, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run ended. ``closed`` answers every call that was still open, so that the history is whole.

    Where it only waits for a person, the calls stay open, and ``closed`` is what their results look like
    meanwhile.
    """

    at: float
    stop: Stop
    closed: tuple[Closure, ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that had stopped, or whose process had died, goes on. Whatever was under way is unknown now.

    ``afresh``: with a new text of a person, so that what is counted for one text (turns, requests, calls,
    pauses, seconds) begins again and a paused turn is left out. ``new_budget``: the tokens and the money
    too. ``prices``: what the model costs, where that was not known before.
    """

    at: float
    afresh: bool = False
    new_budget: bool = False
    prices: Prices | None = None


Event: TypeAlias = (
    Started
    | Said
    | Sent
    | TokensCounted
    | BudgetsRead
    | Received
    | Lost
    | Waited
    | TurnStarted
    | Asked
    | Answered
    | Edited
    | Decided
    | CallStarted
    | CallFinished
    | Reconciled
    | ChildSent
    | ChildSettled
    | CallWaits
    | Checked
    | StopRequested
    | Closing
    | Stopped
    | Resumed
)

KINDS: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in typing.get_args(Event)}
