"""The answer to a question, and the callables that give one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from brida.core.events import Question


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says to one call.

    ``allow``: it may run, once. ``session``: further calls of this tool may too, in this run and its
    continuations; it never covers a call for which the tool itself asks. ``reason``: what the model
    hears with a no. ``by``: who answered, for the record.
    """

    allow: bool
    reason: str = ""
    session: bool = False
    by: str = "a person"


Approver: TypeAlias = Callable[[Question], "Answer | bool | Awaitable[Answer | bool]"]
"""Gives the answer to a question; sync or async. A plain True or False will do. A sync one runs in a thread
of its own. One that raises, or gives anything else, ends the run as a configuration error: never an allow."""


def checked(said: object) -> Answer:
    """The answer that an approver gave; raises ``TypeError`` where it is none."""
    if isinstance(said, bool):
        return Answer(said)
    if not isinstance(said, Answer):
        raise TypeError(f"an approver answers with an Answer, True or False, not {type(said).__name__}")
    flags: tuple[object, ...] = (said.allow, said.session)
    texts: tuple[object, ...] = (said.reason, said.by)
    if not all(isinstance(flag, bool) for flag in flags) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"an Answer holds allow and session as bool, reason and by as str, got {said!r}")
    return said
