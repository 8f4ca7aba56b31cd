"""The answer to a question, and the callables that give one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from brida.core.encoding import encode
from brida.core.events import Question


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says to one call.

    ``allow``: it may run, once. ``session``: further calls of this tool may too, in this run and its
    continuations; it never covers a call for which the tool itself asks. ``reason``: what the model
    hears with a no. ``by``: who answered, for the record. ``arguments``: other arguments, in place of those
    shown: they are validated, decided and put to the person again, and run once these are allowed.
    """

    allow: bool
    reason: str = ""
    session: bool = False
    by: str = "a person"
    arguments: Mapping[str, object] | None = None


Approver: TypeAlias = Callable[[Question], "Answer | bool | Awaitable[Answer | bool]"]
"""Gives the answer to a question; sync or async. A plain True or False will do. A sync one runs in a thread
of its own. One that raises, or gives anything else, ends the run as a configuration error: never an allow."""


@runtime_checkable
class Overview(Protocol):
    """An approver that wants to see all open questions of a turn before the first of them is put."""

    def announce(self, questions: Sequence[Question]) -> None:
        """Shows them. Each is still put on its own, and has its own answer."""
        ...


@dataclass(frozen=True, slots=True)
class WhatHappened:
    """What a person knows of a call that was under way when its process died.

    ``happened``: its effect is there, ``result`` is what the model hears. ``did_not_happen``: it runs now.
    ``unknown``: the model hears that nobody knows. ``stop``: the run ends.
    """

    found: Literal["happened", "did_not_happen", "unknown", "stop"]
    result: str = ""
    by: str = "a person"


@runtime_checkable
class Witness(Protocol):
    """An approver that can also be asked what became of a call whose process died."""

    def what_happened(self, call: Question) -> "WhatHappened | Awaitable[WhatHappened]":
        """What a person knows of ``call``; sync or async."""
        ...


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
    if said.arguments is not None:
        if not isinstance(said.arguments, Mapping):
            kind = type(said.arguments).__name__
            raise TypeError(f"an Answer holds arguments as a mapping, not {kind}")
        try:
            encode(dict(said.arguments))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments of an Answer are values that JSON has: {error}") from error
    return said
