"""What is wrong with the arguments of a call, one text per field, in the words of the person's language.

The texts go back to the model, so each names the field, what it should be, and what came. No more than
200 characters of any value are repeated, and nothing that the arguments hold makes this raise.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from brida.core.wording import Say
from brida.tools.text import error_text, short, text_of, type_name

if TYPE_CHECKING:
    from brida.tools.schema import Arguments

MAX_DEPTH = 100
"""How deep arguments may nest; deeper than any tool needs, and less than a JSON reader bears."""

_MAX_PROBLEMS = 20
_ECHO = 120  # characters of a value
_NAME = 80  # characters of a field's path
_MAX_BITS = 4_096  # of an integer
_MAX_VALUES = 200_000

Path = tuple[object, ...]


def problems_of(taken: "Arguments", arguments: object, say: Say) -> tuple[str, ...]:
    """What keeps ``arguments`` from being those of the tool; empty where nothing does."""
    try:
        return _problems(taken, arguments, say)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a validator of the tool's author may raise anything
        return (say("the arguments cannot be checked: {error}", error=short(error_text(error))),)


def _problems(taken: "Arguments", arguments: object, say: Say) -> tuple[str, ...]:
    from pydantic import ValidationError

    if not isinstance(arguments, Mapping):
        return (say("the arguments should be an object, got {value}", value=_echo(arguments)),)
    unsendable = tuple(_unsendable(arguments, say))
    if unsendable:
        return _bounded(unsendable, say)
    try:
        taken.validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return _bounded(_texts(taken, arguments, found, say), say)
    return ()


def _bounded(texts: tuple[str, ...], say: Say) -> tuple[str, ...]:
    if len(texts) <= _MAX_PROBLEMS:
        return texts
    return (*texts[:_MAX_PROBLEMS], say("there are {more:,} problems more", more=len(texts) - _MAX_PROBLEMS))


def _unsendable(arguments: Mapping[str, object], say: Say) -> Iterator[str]:
    """What JSON text cannot carry: half surrogate pairs, NaN, enormous integers, objects of Python."""
    waiting: list[tuple[Path, object]] = [((), arguments)]
    seen = 0
    while waiting:
        path, value = waiting.pop()
        seen += 1
        if len(path) > MAX_DEPTH:
            yield say("{field}: is nested too deep", field=_name(path))
            return
        if seen > _MAX_VALUES:
            yield say("the arguments hold too many values")
            return
        if isinstance(value, Mapping):
            for key, inner in reversed(list(value.items())):
                if isinstance(key, str) and not _broken(key):
                    waiting.append(((*path, key), inner))
                else:
                    yield say("{field}: this name is not valid text", field=_name((*path, key)))
        elif isinstance(value, list | tuple):
            waiting.extend(((*path, number), inner) for number, inner in reversed(list(enumerate(value))))
        elif (problem := _not_json(value, path, say)) is not None:
            yield problem


def _not_json(value: object, path: Path, say: Say) -> str | None:
    field = _name(path)
    if isinstance(value, str):
        if _broken(value):
            return say("{field}: holds half of a surrogate pair, which is not valid text", field=field)
    elif isinstance(value, float):
        if not math.isfinite(value):
            return say("{field}: should be a finite number, got {value}", field=field, value=value)
    elif isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            return say("{field}: the number is too large", field=field)
    elif value is not None:
        return say("{field}: is not JSON but {type}", field=field, type=short(type_name(value), _NAME))
    return None


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _texts(
    taken: "Arguments", arguments: Mapping[str, object], found: list[Any], say: Say
) -> tuple[str, ...]:
    """One text per field; what the members of a union each say of it becomes one sentence."""
    by_field: dict[Path, list[str]] = {}
    whole: dict[Path, str] = {}
    for error in found[: 10 * _MAX_PROBLEMS]:
        path, value, there = _locate(arguments, error["loc"], error["type"] == "missing")
        if error["type"] == "missing":
            whole[path] = say("{field}: is missing", field=_name(path))
        elif error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            whole[path] = _unknown(taken, path, say)
        else:
            texts = by_field.setdefault(path, [])
            if (text := _should(error, say)) not in texts:
                texts.append(text)
            if not there:
                whole[path] = say("{field}: {problem}", field=_name(path), problem=text)
            else:
                whole[path] = say(
                    "{field}: {problem}, got {value}",
                    field=_name(path),
                    problem=short(say(" or ").join(texts), 400),
                    value=_echo(value),
                )
    return tuple(whole.values())


def _unknown(taken: "Arguments", path: Path, say: Say) -> str:
    if len(path) > 1:
        return say("{field}: there is no such field", field=_name(path))
    names = ", ".join(taken.names.values())
    if not names:
        return say("{field}: there is no such parameter; there are none at all", field=_name(path))
    return say(
        "{field}: there is no such parameter; there are: {names}", field=_name(path), names=short(names)
    )


def _locate(arguments: object, loc: tuple[int | str, ...], missing: bool) -> tuple[Path, object, bool]:
    """The part of pydantic's location that is in the arguments, and the value there.

    The rest names members of unions and validators, which mean nothing to a model.
    """
    path: list[object] = []
    value = arguments
    for number, part in enumerate(loc):
        in_list = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
        if in_list or (isinstance(value, Mapping) and part in value):
            value = value[part]  # type: ignore[index]
        elif missing and number == len(loc) - 1:
            return (*path, part), None, False
        else:
            continue
        path.append(part)
    return tuple(path), value, True


def _should(error: Any, say: Say) -> str:
    """What the value should have been: in our words, or in pydantic's where we have none."""
    facts = {name: short(text_of(fact) or "") for name, fact in (error.get("ctx") or {}).items()}
    for kinds, text in _TEXTS.items():
        if error["type"] in kinds:
            return text(say, facts)
    return short(text_of(error.get("msg")) or error["type"])


_TEXTS: dict[tuple[str, ...], Callable[[Say, Mapping[str, str]], str]] = {
    ("int_type", "int_parsing", "int_from_float"): lambda say, _: say("should be an integer"),
    ("float_type", "float_parsing", "decimal_type"): lambda say, _: say("should be a number"),
    ("finite_number",): lambda say, _: say("should be a finite number"),
    ("string_type", "path_type"): lambda say, _: say("should be a text"),
    ("bool_type", "bool_parsing"): lambda say, _: say("should be true or false"),
    ("value_error", "assertion_error"): lambda _, facts: facts["error"],
    ("none_required",): lambda say, _: say("should be null"),
    ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"): lambda say, _: say(
        "should be a list"
    ),
    ("dict_type", "model_type", "dataclass_type", "model_attributes_type", "mapping_type"): lambda say, _: (
        say("should be an object")
    ),
    (
        "date_type",
        "date_parsing",
        "date_from_datetime_parsing",
        "date_from_datetime_inexact",
    ): lambda say, _: say("should be a date like 2026-08-26"),
    ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"): lambda say, _: say(
        "should be a date and time like 2026-08-26T10:42:07+08:00"
    ),
    ("time_type", "time_parsing"): lambda say, _: say("should be a time like 10:42:07"),
    ("literal_error", "enum"): lambda say, facts: say(
        "should be one of {choices}", choices=facts["expected"]
    ),
    ("greater_than_equal",): lambda say, facts: say("should be at least {bound}", bound=facts["ge"]),
    ("greater_than",): lambda say, facts: say("should be greater than {bound}", bound=facts["gt"]),
    ("less_than_equal",): lambda say, facts: say("should be at most {bound}", bound=facts["le"]),
    ("less_than",): lambda say, facts: say("should be less than {bound}", bound=facts["lt"]),
    ("string_too_short",): lambda say, facts: say(
        "should have at least {bound} characters", bound=facts["min_length"]
    ),
    ("string_too_long",): lambda say, facts: say(
        "should have at most {bound} characters", bound=facts["max_length"]
    ),
    ("string_pattern_mismatch",): lambda say, facts: say(
        "should match the pattern {pattern}", pattern=facts["pattern"]
    ),
    ("too_short",): lambda say, facts: say("should have at least {bound} items", bound=facts["min_length"]),
    ("too_long",): lambda say, facts: say("should have at most {bound} items", bound=facts["max_length"]),
}
"""Kinds of pydantic's errors and what is said of them."""


def _name(path: Path) -> str:
    """``filters[0].name``, cut: the model may have made a name up that is very long."""
    text = ""
    for part in path[:20]:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + short(text_of(part) or "?", _NAME)
    return short(text, 2 * _NAME)


def _echo(value: object) -> str:
    """The JSON of ``value``, cut. Written in pieces, so that a large value is not written out."""
    text = ""
    try:
        if isinstance(value, str):
            text = json.dumps(value[: _ECHO + 1], ensure_ascii=False)
        else:
            for piece in json.JSONEncoder(ensure_ascii=False).iterencode(_outline(value)):
                text += piece[: _ECHO + 1]
                if len(text) > _ECHO:
                    break
    except (TypeError, ValueError, RecursionError):
        return type_name(value)
    return short(text, _ECHO)


def _outline(value: object) -> object:
    """A large list or object reduced to its first members, so that writing it stays cheap."""
    if isinstance(value, Mapping):
        return {str(key)[:_ECHO]: value[key] for key, _ in zip(value, range(_ECHO), strict=False)}
    return value
