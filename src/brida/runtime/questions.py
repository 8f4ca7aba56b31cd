"""Putting questions to a person: what may run, and what became of a call whose process died."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

from brida.approval.answers import Answer, Approver, Overview, WhatHappened, Witness, checked
from brida.core import wording
from brida.core.encoding import digest, encode
from brida.core.events import Answered, Asked, Edited, Question, Reconciled
from brida.core.run import Ask
from brida.core.turn import Call
from brida.core.wording import Say
from brida.runtime.calls import call_hook
from brida.tools.change import unknown as unknown_change
from brida.tools.declare import Tool
from brida.tools.text import clean

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one run, and the approver that answers them.

    What an approver raises is raised here, ``KeyboardInterrupt`` included; what it says and is no answer
    raises ``TypeError``.
    """

    approve: Approver | None
    tools: dict[str, Tool]
    say: Say
    now: Clock

    async def bound(self, step: Ask) -> Ask:
        """The questions, each bound to what its call would change; a thread looks at that."""
        questions = cast("tuple[Question, ...]", await call_hook(self._with_bases, step.questions))
        fresh = {question.call_id for asked in step.events for question in asked.questions}
        return Ask(questions, (Asked(self.now(), tuple(q for q in questions if q.call_id in fresh)),))

    def unbound(self, step: Ask) -> Ask:
        """The questions where nobody could say in time what their calls would change: no tool of ours
        writes on that.
        """
        late = unknown_change(self.say("it took too long")).basis
        questions = tuple(q if q.problems or q.basis else replace(q, basis=late) for q in step.questions)
        fresh = {question.call_id for asked in step.events for question in asked.questions}
        return Ask(questions, (Asked(self.now(), tuple(q for q in questions if q.call_id in fresh)),))

    def _with_bases(self, questions: Iterable[Question]) -> tuple[Question, ...]:
        return tuple(self._with_basis(question) for question in questions)

    def _with_basis(self, question: Question) -> Question:
        if question.problems or question.basis is not None:
            return question
        change = self.tools[question.tool].change(question.arguments, self.say)
        return question if change is None else replace(question, basis=change.basis)

    def announce(self, step: Ask) -> None:
        """Shows all of a turn's questions before the first, where the approver wants that."""
        if step.events and len(step.questions) > 1 and isinstance(self.approve, Overview):
            self.approve.announce(step.questions)

    async def answer(self, question: Question) -> Answered | Edited:
        """What a person says to the question, as an event. Arguments that are those shown change nothing."""
        if self.approve is None:
            raise TypeError("there is nobody to ask")
        return answered(question, checked(await call_hook(self.approve, question)), self.now())

    async def what_happened(self, call: Call) -> Reconciled | None:
        """What a person knows of a call whose process died; None where the run must end.

        An approver that cannot be asked that is nobody: its yes to a question would be a yes to a repeat.
        """
        if not isinstance(self.approve, Witness):
            return unknown(call, self.now(), self.say)
        said: object = await call_hook(self.approve.what_happened, lost_call(call))
        if not isinstance(said, WhatHappened):
            raise TypeError(f"a witness answers with WhatHappened, not {type(said).__name__}")
        if said.found == "stop":
            return None
        if said.found == "unknown":
            return unknown(call, self.now(), self.say, by=clean(said.by))
        return Reconciled(self.now(), call.asked.id, said.found, clean(said.by), clean(said.result))


def answered(question: Question, said: Answer, at: float) -> Answered | Edited:
    """The event that an answer to ``question`` is."""
    by, arguments = clean(said.by), said.arguments
    if said.allow and arguments is not None:
        arguments = json.loads(encode(dict(arguments)))
        if digest(question.tool, arguments) != question.digest:
            return Edited(at, question.call_id, question.digest, arguments, by)
    reason = clean(said.reason)
    return Answered(at, question.call_id, question.digest, said.allow, by, reason, said.session)


def unknown(call: Call, at: float, say: Say, *, by: str = "nobody there") -> Reconciled:
    """That nobody can say what became of the call."""
    return Reconciled(at, call.asked.id, "unknown", by, wording.outcome_unknown(say))


def lost_call(call: Call) -> Question:
    """The call whose process died, as a person is shown it."""
    runs, shown = call.runs, json.loads(encode(call.runs.arguments))
    return Question(runs.id, runs.tool, shown, runs.digest, "high", "outcome unknown")
