"""What a call would change, for the person who is asked: shown as a diff, and bound to what is there.

A tool that replaces something says so with ``@tool(changes=...)``. The person's answer then holds for what
was there when the question was put: the tool compares ``current_call().basis`` with what is there when it
writes, and refuses where it is something else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from brida.core.wording import Say
from brida.tools.text import clean, error_text, is_visible, short, text_of

ABSENT: Final = "absent"
"""The basis of a change where nothing is there yet."""

UNKNOWN: Final = "unknown: "
"""How a basis begins that could not be told; the reason follows. Nothing can be approved on it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one call would change.

    ``basis`` is a short text that differs whenever what the call would replace differs: ``absent``, or
    ``sha256:`` and the hash of the bytes that are there. ``difference(say)`` makes the diff.
    """

    basis: str
    difference: Callable[[Say], str] = field(repr=False)

    def diff(self, say: Say) -> str:
        """The change as a unified diff for a person, made when it is asked for. Never raises.

        Lines of it come from files and from the model: escape it before a terminal shows it. Only
        ``KeyboardInterrupt`` goes through.
        """
        try:
            text: object = self.difference(say)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return say("(what would change cannot be shown: {error})", error=short(error_text(error)))
        if not isinstance(text, str) or not is_visible(text):
            return say("(nothing would change)")
        return clean(text)


Changes: TypeAlias = Callable[[Mapping[str, object], Say], Change | None]


def unknown(reason: str) -> Change:
    """A change whose basis could not be told, and why."""
    plain = short(reason)
    return Change(UNKNOWN + plain, lambda _: plain)


def change_of(changes: Changes | None, arguments: Mapping[str, object], say: Say) -> Change | None:
    """What ``changes`` says of the call; None where the call replaces nothing that it knows of.

    Never raises: a check that fails gives a change on an unknown basis. Only ``KeyboardInterrupt`` goes
    through.
    """
    if changes is None:
        return None
    try:
        found: object = changes(arguments, say)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return unknown(text_of(error) or error_text(error))
    if found is None or (isinstance(found, Change) and found.basis and isinstance(found.basis, str)):
        return found
    return unknown(say("its own check gave no Change"))
