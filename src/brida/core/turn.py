"""Where the loop stands, and the calls of one turn."""

from dataclasses import dataclass
from enum import Enum

from brida.core.events import Answered, CallFinished, Decided, Question
from brida.core.transitions import ModelCall


class Phase(Enum):
    """Where the loop stands."""

    READY = "the next request can be sent"
    IN_FLIGHT = "an attempt has left"
    TURN = "the calls of a reply wait for their decisions or their results"
    CHECK = "a reply that would complete the run waits to be checked"
    OVER = "nothing more will be sent"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the turn and what became of it so far.

    ``asked`` is what the model asked for; ``runs`` is what would run: the same, unless a person changed
    the arguments, ``edits`` times so far. ``died``: the process died while it was under way; then it is
    ``started`` still where it may not simply run again, and ``unclear`` where its tool cannot tell whether
    it took effect. ``waits_for``: the run that it started, where that waits for a person.
    """

    asked: ModelCall
    edited: ModelCall | None = None
    edits: int = 0
    question: Question | None = None
    answer: Answered | None = None
    decision: Decided | None = None
    started: bool = False
    waits_for: str | None = None
    died: bool = False
    unclear: bool = False
    finished: CallFinished | None = None

    @property
    def runs(self) -> ModelCall:
        """The call as it would run."""
        return self.edited or self.asked

    @property
    def allowed(self) -> bool:
        """Whether it has been decided that it may run."""
        return self.decision is not None and self.decision.verdict == "allow"

    @property
    def begun(self) -> bool:
        """Whether it may have had an effect."""
        return self.started or self.died

    @property
    def unknown(self) -> bool:
        """Whether it must be found out what became of it before anything else runs."""
        return self.died and self.started and self.finished is None

    def succeeded(self, tool: str) -> bool:
        """Whether it is a call of ``tool`` that did what it should."""
        return self.asked.tool == tool and self.finished is not None and self.finished.outcome == "ok"

    @property
    def done(self) -> bool:
        """Whether it has its result, by running or by not being allowed to."""
        return self.finished is not None or (self.decision is not None and not self.allowed)


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that is over, for the question of progress: neither order nor volatile results count."""

    calls: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str, str], ...]
