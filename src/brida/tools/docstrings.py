"""Reads what a docstring says of a function and of each of its parameters.

Three styles: Google (``Args:`` and an indented block), NumPy (``Parameters`` underlined) and Sphinx
(``:param name:``). What the model needs is kept: the text, and sections such as ``Returns``. Taken out
are the parameters, which go into the schema, and what only callers in Python need (``Raises``, types).
Any text is read without an error; what is not understood stays in the description.
"""

import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_PARAMETERS = {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments",
               "other parameters"}  # fmt: skip
_DROPPED = {"raises", "warns", "attributes", "see also", "references", "todo"}
_KEPT = {
    "returns",
    "return",
    "yields",
    "yield",
    "example",
    "examples",
    "note",
    "notes",
    "warning",
    "warnings",
}
_SECTIONS = _PARAMETERS | _DROPPED | _KEPT

_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)[ \t]*(?:\((?:[^()]|\([^()]*\))*\))?[ \t]*:(?:[ \t]+|$)(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*)[ \t]*(?::.*)?")
_SPHINX_FIELD = re.compile(r":(\w+)(?:[ \t]+([^:]*?))?[ \t]*:(?:[ \t]+|$)(.*)")
_SPHINX_PARAMETER = {"param", "parameter", "arg", "argument", "key", "keyword"}
_SPHINX_DROPPED = {"type", "rtype", "raises", "raise", "except", "exception", "meta", "var", "ivar", "cvar"}
_SPHINX_RETURN = {"return", "returns"}
_UNDERLINE = re.compile(r"-{3,}|={3,}")


@dataclass(frozen=True, slots=True)
class Docstring:
    """The text for the model, and the text of each parameter that has one."""

    description: str
    parameters: dict[str, str]


def read(text: str | None, names: Collection[str]) -> Docstring:
    """Reads ``text``; only the parameters in ``names`` count as parameters."""
    if not text:
        return Docstring("", {})
    lines = [line.rstrip() for line in inspect.cleandoc(text).splitlines()]
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        style, section, size = _heading(lines, at)
        if section in _PARAMETERS or section in _DROPPED:
            end = _end(lines, at + size, style)
            if section in _PARAMETERS:
                entries = (
                    _google(lines[at + 1 : end]) if style == "google" else _numpy(lines[at + size : end])
                )
                for name, part in entries:
                    found.setdefault(name, []).extend(part)
            at = end
        elif (field := _SPHINX_FIELD.fullmatch(lines[at])) is not None and _known_field(field[1]):
            end = _end(lines, at + 1, "google")
            _sphinx(field, lines[at + 1 : end], kept, found)
            at = end
        else:
            kept.append(lines[at])
            at += 1
    parameters = {name: _one_line(part) for name, part in found.items() if name in names}
    return Docstring(_paragraphs(kept), {name: part for name, part in parameters.items() if part})


def _heading(lines: list[str], at: int) -> tuple[str, str, int]:
    """The style, the section's name and the number of lines of the heading at ``at``; ("", "", 0) if none."""
    line = lines[at]
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if line.lower() in _SECTIONS and _UNDERLINE.fullmatch(following):
        return "numpy", line.lower(), 2
    if line.endswith(":") and line[:-1].lower() in _SECTIONS and (not following or following[0].isspace()):
        return "google", line[:-1].lower(), 1
    return "", "", 0


def _end(lines: list[str], at: int, style: str) -> int:
    """Where the block ends that begins at ``at``.

    Google and Sphinx: at the first line that is not indented. NumPy: at the next heading, or after a
    blank line at text that is neither an entry nor indented.
    """
    end = at
    while end < len(lines):
        line = lines[end]
        if style == "numpy":
            after_blank = end > at and not lines[end - 1]
            if _heading(lines, end)[0] == "numpy" or (
                after_blank and line and not line[0].isspace() and not _NUMPY_ENTRY.fullmatch(line)
            ):
                break
        elif line and not line[0].isspace():
            break
        end += 1
    return end


def _google(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    depth = min((_indent(line) for line in lines if line), default=0)
    name, part = "", list[str]()
    for line in lines:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == depth else None
        if entry is not None:
            if name:
                yield name, part
            name, part = entry[1], [entry[2]]
        else:
            part.append(line)
    if name:
        yield name, part


def _numpy(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    names, part = list[str](), list[str]()
    for line in lines:
        entry = _NUMPY_ENTRY.fullmatch(line) if line and not line[0].isspace() else None
        if entry is not None:
            for name in names:
                yield name, part
            names, part = [name.strip().lstrip("*") for name in entry[1].split(",")], []
        else:
            part.append(line)
    for name in names:
        yield name, part


def _known_field(field: str) -> bool:
    return field in _SPHINX_PARAMETER | _SPHINX_DROPPED | _SPHINX_RETURN


def _sphinx(field: re.Match[str], more: list[str], kept: list[str], found: dict[str, list[str]]) -> None:
    words = (field[2] or "").split()
    part = [field[3], *more]
    if field[1] in _SPHINX_PARAMETER and words:
        found.setdefault(words[-1].lstrip("*"), []).extend(part)
    elif field[1] in _SPHINX_RETURN and (text := _one_line(part)):
        kept.extend(["", f"Returns: {text}"])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _one_line(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _paragraphs(lines: list[str]) -> str:
    """The lines as they are, without more than one blank line in a row and none at the ends."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
