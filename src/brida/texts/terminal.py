"""Hostile text made safe for a terminal.

What a model or a tool wrote may hold sequences that move the cursor, change the title, turn the
direction of writing or show nothing at all. Here every such character is shown as the escape that JSON
or Python would write for it, so that what a person reads is what is there.
"""

import unicodedata
from typing import Final

_INVISIBLE_LETTERS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
"""Characters that count as letters, marks or symbols and show nothing."""

_HIDING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

MARKS_IN_A_ROW: Final = 4
"""Combining marks that may stand on one letter; more would climb over the lines around it."""


def escape(text: str, *, multiline: bool = False) -> str:
    r"""The text with every character that is not plainly visible written as an escape.

    Escaped: control characters (with ``multiline`` the line feed passes), bidirectional and other format
    characters, zero-width and filler characters, variation selectors, spaces other than the ordinary
    one, private and unassigned code points, halves of surrogate pairs, and combining marks after the
    fourth in a row. Letters of every script and emoji pass.

    A backslash passes as it is, so ``\x1b`` may also be text that somebody wrote so. Where that must
    not be in doubt, escape JSON, as the approval prompt does: JSON doubles every backslash of a string.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if (character == "\n" and multiline) or (is_visible(character) and marks <= MARKS_IN_A_ROW):
            shown.append(character)
        else:
            shown.append(_escaped(character))
    return "".join(shown)


def is_visible(character: str) -> bool:
    """Whether a character shows itself and nothing else."""
    if character.isascii():
        return character.isprintable()
    category = unicodedata.category(character)
    if category in _HIDING or category == "Zs" or character in _INVISIBLE_LETTERS:
        return False
    return not (0xFE00 <= ord(character) <= 0xFE0F or 0xE0100 <= ord(character) <= 0xE01EF)


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def for_encoding(text: str, encoding: str) -> str:
    """The text with what ``encoding`` cannot hold written as escapes; an unknown encoding is taken as ASCII."""
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, UnicodeError):
        return text.encode("ascii", "backslashreplace").decode("ascii")


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters of an escaped line, a cut shown as ``...``, never within an escape.

    For the trace alone: what a person approves is never shortened.
    """
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - 3)]
    start = kept.rfind("\\")
    if start != -1 and len(kept) - start < _escape_length(text[start : start + 2]):
        kept = kept[:start]
    return kept + "..."


def _escape_length(beginning: str) -> int:
    return {"\\x": 4, "\\u": 6, "\\U": 10}.get(beginning, 2)
