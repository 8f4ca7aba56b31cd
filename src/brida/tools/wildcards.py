"""Names and paths that fit a pattern: ``*``, ``?``, ``[a-z]``, and ``**`` for any number of directories.

No regular expression is made of a pattern: one with many stars would freeze the process. Here the time is
at most the length of the name times that of the pattern. The rules are those of git's wildmatch.
"""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

_Item = TypeVar("_Item")
_Token = TypeVar("_Token")

_ALTERNATIVES: Final = 32
_CHOICE: Final = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")

Fits: TypeAlias = Callable[[str], bool]

_CLASSES: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": " \t\n\v\f\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


@dataclass(frozen=True, slots=True)
class _OneOf:
    """The characters of a bracket."""

    negated: bool
    ranges: tuple[tuple[str, str], ...]
    classes: str

    def __call__(self, character: str) -> bool:
        inside = character in self.classes or any(low <= character <= high for low, high in self.ranges)
        return inside is not self.negated


def _any(_: str) -> bool:
    return True


def alternatives(pattern: str) -> list[str]:
    """The patterns that ``*.{py,md}`` stands for, as models write it; at most 32, else the pattern itself."""
    waiting, found = [pattern], []
    while waiting:
        one = waiting.pop(0)
        choice = _CHOICE.search(one)
        if choice is None:
            found.append(one)
        else:
            waiting += [one[: choice.start()] + text + one[choice.end() :] for text in choice[1].split(",")]
        if len(waiting) + len(found) > _ALTERNATIVES:
            return [pattern]
    return found


def name_fits(pattern: str) -> Fits:
    """Whether a name without a slash fits. A pattern that is none, such as ``[a``, fits nothing."""
    parts = _parse(pattern)
    if parts is None:
        return lambda _: False
    if all(isinstance(token, str) for part in parts for token in part):
        texts = ["".join(map(str, part)) for part in parts]
        if len(texts) == 1:
            return texts[0].__eq__
        if len(texts) == 2:  # the usual ones, made fast
            return partial(_between, *texts)
    return partial(_fits, [[_as_test(token) for token in part] for part in parts])


def _between(start: str, end: str, name: str) -> bool:
    return name.endswith(end) and name.startswith(start) and len(name) >= len(start) + len(end)


def _as_test(token: str | Fits) -> Fits:
    return token.__eq__ if isinstance(token, str) else token


def path_fits(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Whether a path, as its names, fits a pattern with slashes. ``a/**`` is everything below ``a``."""
    parts: list[list[Fits]] = [[]]
    *above, last = _names(pattern)
    for name in above:
        if _is_any_number(name):
            parts.append([])
        else:
            parts[-1].append(name_fits(name))
    if _is_any_number(last):
        parts.append([_any])
    else:
        parts[-1].append(name_fits(last))
    return partial(_fits, parts)


def _is_any_number(name: str) -> bool:
    return len(name) > 1 and not name.strip("*")


def _names(pattern: str) -> list[str]:
    """What stands between the slashes, but for those in brackets; a backslash before a slash says nothing."""
    names, begin, at = [], 0, 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[" and (bracket := _bracket(pattern, end)):
            end = bracket[1]
        elif pattern[at] == "\\" and pattern[end : end + 1] != "/":
            end += 1
        elif pattern[at] in "/\\":
            names.append(pattern[begin:at])
            end += pattern[at] == "\\"
            begin = end
        at = end
    return [*names, pattern[begin:]]


def _fits(parts: Sequence[Sequence[Callable[[_Item], bool]]], items: Sequence[_Item]) -> bool:
    """Whether the items are the parts in order, with anything between one part and the next."""
    first, last = parts[0], parts[-1]
    end = len(items) - len(last)
    if len(parts) == 1:
        return end == 0 and _fits_at(first, items, 0)
    if end < len(first) or not _fits_at(last, items, end) or not _fits_at(first, items, 0):
        return False
    at = len(first)
    for part in parts[1:-1]:
        while at + len(part) <= end and not _fits_at(part, items, at):
            at += 1
        at += len(part)
        if at > end:
            return False
    return True


def _fits_at(part: Sequence[Callable[[_Item], bool]], items: Sequence[_Item], at: int) -> bool:
    return all(fits(items[at + offset]) for offset, fits in enumerate(part))


def _parse(pattern: str) -> list[list[str | Fits]] | None:
    """What stands between the stars: characters, and tests of one character."""
    parts: list[list[str | Fits]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            parts.append([])
        elif character == "?":
            parts[-1].append(_any)
        elif character == "[":
            bracket = _bracket(pattern, at)
            if bracket is None:
                return None
            test, at = bracket
            parts[-1].append(test)
        elif character == "\\":
            if at == len(pattern):
                return None
            parts[-1].append(pattern[at])
            at += 1
        else:
            parts[-1].append(character)
    return parts


def _bracket(pattern: str, at: int) -> tuple[_OneOf, int] | None:
    """The test of the bracket that was opened before ``at``, and where it ends; None where it does not."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[tuple[str, str]] = []
    classes, first = "", True
    while at < len(pattern):
        if pattern[at] == "]" and not first:
            return _OneOf(negated, tuple(ranges), classes), at + 1
        first = False
        named = pattern.find(":]", at + 2) if pattern.startswith("[:", at) else -1
        if named >= 0:
            name = pattern[at + 2 : named]
            if name not in _CLASSES:
                return None
            classes += _CLASSES[name]
            at = named + 2
            continue
        low, at = _literal(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _literal(pattern, at + 1)
        ranges += [(low, low), (low, high)]  # the first counts even where the range runs backwards
    return None


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """One character of a bracket, with or without a backslash before it, and what follows it."""
    if pattern[at] == "\\":
        at += 1
    return pattern[at : at + 1], at + 1
