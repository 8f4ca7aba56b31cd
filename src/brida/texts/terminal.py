"""Hostile text made safe for a terminal.

What a model or a tool wrote may hold sequences that move the cursor, change the title, turn the
direction of writing or show nothing at all. Here every such character is shown as the escape that JSON
or Python would write for it, so that what a person reads is what is there.
"""

import unicodedata
from typing import Final

_SHOW_NOTHING: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u2d7f\u303f\u3164\uffa0\ufffc"
    "\U0001107f\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"
)
"""Characters that count as letters, marks or symbols and show nothing, or nothing of their own."""

_HIDING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

MARKS_IN_A_ROW: Final = 4
"""Combining marks that may stand on one letter; more would climb over the lines around it."""


def escape(text: str, *, multiline: bool = False) -> str:
    r"""The text with every character that is not plainly visible written as an escape.

    Escaped: control characters (with ``multiline`` the line feed passes), bidirectional and other format
    characters, zero-width and filler characters, variation selectors, spaces other than the ordinary
    one, private and unassigned code points, halves of surrogate pairs, and combining marks that do not
    stand on a letter of their script or are the fifth in a row. Letters of every script and emoji pass.
    With ``multiline`` the text is prose and may be a piece of a stream, so it may begin with marks, and
    what belongs to an emoji passes after a symbol or a digit: the choice of its picture, and its keycap.

    A backslash passes as it is, so ``\x1b`` may also be text that somebody wrote so. Where that must
    not be in doubt, escape JSON, as the approval prompt does: JSON doubles every backslash of a string.

    Not prevented: letters that look like others, and a terminal that sets right-to-left letters, with
    the digits and the punctuation between them, from right to left.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    base: str | None = None if multiline else ""  # what a mark would stand on; None where nobody knows
    marks = 0
    for character in text:
        passes = is_visible(character) or (character == "\n" and multiline)
        if _is_mark(character):
            marks += 1
            passes = passes and (base is None or _fits(character, base))
            passes = marks <= MARKS_IN_A_ROW and (passes or (multiline and _ends_emoji(character, base)))
        else:
            marks, base = 0, character
        if not passes:
            base = ""
        shown.append(character if passes else _escaped(character))
    return "".join(shown)


def is_visible(character: str) -> bool:
    """Whether a character shows itself and nothing else; a mark does so on a letter of its script."""
    if character.isascii():
        return character.isprintable()
    category = unicodedata.category(character)
    if category in _HIDING or category == "Zs" or character in _SHOW_NOTHING:
        return False
    return not (0xFE00 <= ord(character) <= 0xFE0F or 0xE0100 <= ord(character) <= 0xE01EF)


def _is_mark(character: str) -> bool:
    """Whether a character goes onto the one before it: a mark, or a vowel or final of spelt-out Hangul."""
    if character.isascii():
        return False
    jamo = "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"
    return jamo or unicodedata.category(character)[0] == "M"


def _fits(mark: str, base: str) -> bool:
    """Whether the base is a letter on which the mark can be seen: some scripts' marks vanish on others."""
    if unicodedata.category(base or " ")[0] != "L":
        return False
    script = unicodedata.name(mark, "").partition(" ")[0]
    return script in ("COMBINING", unicodedata.name(base, "").partition(" ")[0])


def _ends_emoji(mark: str, base: str | None) -> bool:
    """Whether a mark says only how the symbol before it is drawn; it shows nothing alone."""
    key = base is None or base in _KEYS
    if mark == "\u20e3":
        return key
    return mark in ("\ufe0e", "\ufe0f") and (key or unicodedata.category(base or " ") in ("So", "Sm"))


_KEYS: Final = frozenset("0123456789#*")


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def for_encoding(text: str, encoding: str) -> str:
    """The text with what ``encoding`` cannot hold written as escapes; an unknown one is taken as ASCII."""
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, ValueError):
        return text.encode("ascii", "backslashreplace").decode("ascii")


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` columns of an escaped line, a cut shown as ``...``, never within an escape.

    Every character takes one column and a wide one two, so that a line never runs over into the next,
    where it could pass for one of ours. For the trace alone: what a person approves is never shortened.
    """
    if _fitting(text, limit) == len(text):
        return text
    end = _fitting(text, limit - 3)
    start = end
    while (start := text.rfind("\\", max(0, end - _LONGEST_ESCAPE), start)) != -1:
        if start + _escape_length(text[start : start + 2]) > end:
            end = start
    return text[:end] + "..."[: max(0, limit)]


def rows(text: str, columns: int) -> list[str]:
    """An escaped line in pieces of at most so many columns: all of it, whatever the terminal would do.

    A piece never begins with a mark, which would be lost on the margin; a letter with its marks, or a
    wide one, makes a piece wider where ``columns`` are fewer than they take.
    """
    pieces, start = [], 0
    while start < len(text):
        most = start + max(1, _fitting(text[start : start + max(0, columns)], columns))
        end = next((at for at in range(most, start, -1) if not _begins_with_mark(text, at)), None)
        if end is None:
            end = next(at for at in range(most, len(text) + 1) if not _begins_with_mark(text, at))
        pieces.append(text[start:end])
        start = end
    return pieces or [""]


def _begins_with_mark(text: str, at: int) -> bool:
    return at < len(text) and _is_mark(text[at])


def _fitting(text: str, columns: int) -> int:
    """How many characters of a text fit into so many columns."""
    for index, character in enumerate(text):
        columns -= 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if columns < 0:
            return index
    return len(text)


_LONGEST_ESCAPE: Final = 10


def _escape_length(beginning: str) -> int:
    return {"\\x": 4, "\\u": 6, "\\U": _LONGEST_ESCAPE}.get(beginning, 2)
