"""Arguments as a person edits them: the text that an editor shows, and the values that were typed.

What comes of it is only proposed: the run checks it, decides it and puts it to the person again.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NoReturn

from brida.core.wording import Say
from brida.texts.terminal import escape, is_visible

_INSTRUCTION: Final = re.compile(r"(?i)\b(vim?[<=>]?\d*|ex|local variables):|-\*-")
"""What vi and Emacs take for instructions where it stands in a file: a model's text gives them none."""


class NotEdited(Exception):
    """Nothing came of an edit. The text says why, to a person, and is not escaped."""


def as_text(arguments: Mapping[str, object]) -> str:
    """The arguments as JSON for an editor: what does not show itself, or instructs the editor, as escapes."""
    text = json.dumps(dict(arguments), ensure_ascii=False, indent=2)
    text = "".join(
        character if character == "\n" or is_visible(character) else json.dumps(character)[1:-1]
        for character in text
    )
    return _INSTRUCTION.sub(lambda found: f"{found[1]}\\u003a" if found[1] else "-\\u002a-", text) + "\n"


def from_text(text: str, say: Say) -> dict[str, object]:
    """The arguments that an edited text holds; raises :class:`NotEdited` where it holds none."""
    try:
        value = _parse(text)
    except json.JSONDecodeError as error:
        raise NotEdited(
            say(
                "this is not JSON: {error}, in line {line}, column {column}",
                error=error.msg,
                line=error.lineno,
                column=error.colno,
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise NotEdited(say("this is not JSON: {error}", error=error)) from error
    if not isinstance(value, dict):
        raise NotEdited(
            say("the arguments are one JSON object, in braces: {example}", example='{"name": "value"}')
        )
    return value


def value_of(typed: str, before: object) -> object:
    """The value that was typed in a line: JSON, else the text as it is.

    In place of a text only JSON's own text, in quotes, is JSON: ``5`` typed for a name stays a text.
    """
    try:
        value = _parse(typed)
    except (ValueError, RecursionError):
        return typed
    return typed if isinstance(before, str) and not isinstance(value, str) else value


def shown(reason: object) -> str:
    """A reason on one line, safe for a terminal, without the half of it that would fill the screen."""
    text = escape(str(reason))
    return text if len(text) <= 500 else f"{text[:500]}..."


def _parse(text: str) -> object:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value of JSON")
