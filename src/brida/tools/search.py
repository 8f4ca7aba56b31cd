"""Lines that hold a text, found in many files without holding any of them.

A literal is looked for in bytes. A regular expression goes through RE2 alone, whose time is linear in the
text: Python's ``re`` can be made to run for years by an expression that a model writes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

from brida.core.wording import Say
from brida.tools.context import around_a_page, running_call, without_halves
from brida.tools.output import ToolError
from brida.tools.scan import Entry, Scan
from brida.tools.text import is_binary, short, visible

SEARCH_LINES: Final = 100
"""The most lines that one search gives."""

LINE_SHOWN: Final = 200
"""The most bytes of a line that are shown; of a longer one, those around what was found."""

PATTERN_MOST: Final = 1_000
"""The most characters of a text that is looked for."""

_CHUNK: Final = 1 << 18
_PROBE: Final = 8_192
_LONGEST_LINE: Final = 1 << 20  # a longer one is looked at in pieces that overlap
_OVERLAP: Final = 8_192
_BEFORE: Final = 60  # bytes that are shown before what was found


class Finder(Protocol):
    """Where lines hold what is looked for: number of the line in the block, its start, its end, the find."""

    def __call__(self, block: bytes) -> Iterator[tuple[int, int, int, int]]: ...


@dataclass(slots=True)
class Found:
    """What one search gives. ``more``: it was ended before it had seen all."""

    lines: list[str] = field(default_factory=list)
    more: bool = False


def search(scan: Scan, fits: Callable[[Entry], bool], finder: Finder, room: int, say: Say) -> Found:
    """The lines ``path:number: text`` of the files that fit, at most ``room`` bytes of them.

    Raises :class:`ToolError` where the call was cancelled.
    """
    found = Found()
    with closing(scan.entries(below=True)) as entries:
        for entry in entries:
            if entry.kind == "link":
                scan.left.links += 1
            if entry.kind != "file" or not fits(entry):
                continue
            for number, text in _hits(entry, scan, finder, say):
                line = f"{visible(entry.path)}:{number}: {text}"
                room -= len(line.encode()) + 1
                if room < 0 or len(found.lines) == SEARCH_LINES:
                    found.more = True
                    return found
                found.lines.append(line)
    return found


def _hits(entry: Entry, scan: Scan, finder: Finder, say: Say) -> Iterator[tuple[int, str]]:
    """The lines of one file, each once, by number."""
    try:
        with entry.folder.open(entry.names[-1]) as file:
            start = file.read(_PROBE)
            if is_binary(start):
                scan.left.binary += 1
                return
            shown = 0
            for first, block in _blocks(start, file, say):
                for number, begin, end, at in finder(block):
                    if first + number > shown:
                        shown = first + number
                        yield shown, _around(block, begin, end, at)
    except OSError:
        scan.left.unreadable += 1


def _blocks(data: bytes, file: BinaryIO, say: Say) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines, each with the number of its first; no more than it has now."""
    call = running_call()
    number, rest = 1, b""
    room = os.fstat(file.fileno()).st_size - len(data)
    while data:
        if call is not None and call.cancelled.is_set():
            raise ToolError(say("the call was cancelled"))
        block = rest + data
        end = block.rfind(b"\n") + 1
        if end:
            yield number, block[:end]
            number += block.count(b"\n")
            rest = block[end:]
        elif len(block) > _LONGEST_LINE:
            yield number, block
            rest = block[-_OVERLAP:]
        else:
            rest = block
        data = file.read(min(_CHUNK, room)) if room > 0 else b""
        room -= len(data)
    if rest:
        yield number, rest


def _around(block: bytes, begin: int, end: int, at: int) -> str:
    """The line, or what is around the find; cut between characters."""
    end -= block[end - 1 : end] == b"\r" and end > begin
    first, last = begin, end
    if end - begin > LINE_SHOWN:
        first = max(begin, min(at - _BEFORE, end - LINE_SHOWN))
        last = min(end, first + LINE_SHOWN)
        while begin < first < last and block[first] & 0xC0 == 0x80:
            first += 1
        while first < last < end and block[last] & 0xC0 == 0x80:
            last -= 1
    text = block[first:last].decode("utf-8", "replace")
    if last - first < end - begin:
        room = 4 * around_a_page()  # bytes of so many characters
        before = block[max(begin, first - room) : first].decode("utf-8", "replace")
        text = without_halves(before, text, block[last : min(end, last + room)].decode("utf-8", "replace"))
    text = "\t".join(map(visible, text.split("\t")))
    return ("…" if first > begin else "") + text + ("…" if last < end else "")


def finder_of(text: str, *, regex: bool, ignore_case: bool, say: Say) -> Finder:
    """What finds ``text``. Raises :class:`ToolError` where it cannot be looked for."""
    if not text:
        raise ToolError(say("the text to look for is empty"))
    if len(text) > PATTERN_MOST:
        raise ToolError(
            say("the text to look for has {length:,} characters, and may have {most:,}",
                length=len(text), most=PATTERN_MOST)
        )  # fmt: skip
    try:
        literal = text.encode()
    except UnicodeEncodeError:
        raise ToolError(say("the text to look for is not valid text")) from None
    if regex:
        return _by_line(_expression(text, ignore_case, say))
    if "\n" in text:
        raise ToolError(say("the text to look for holds a line end, and each line is looked at alone"))
    if not ignore_case:
        return _Literal(literal)
    return _Folded(text.casefold())


@dataclass(frozen=True, slots=True)
class _Literal:
    text: bytes

    def __call__(self, block: bytes) -> Iterator[tuple[int, int, int, int]]:
        number = counted = 0
        at = block.find(self.text)
        while at >= 0:
            begin = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            number += block.count(b"\n", counted, begin)
            counted = begin
            yield number, begin, end, at
            at = block.find(self.text, end)


@dataclass(frozen=True, slots=True)
class _Folded:
    """Without regard to the case of letters, as Unicode folds them."""

    text: str

    def __call__(self, block: bytes) -> Iterator[tuple[int, int, int, int]]:
        if self.text in block.decode("utf-8", "replace").casefold():
            yield from _by_line(self._find)(block)

    def _find(self, line: bytes) -> int:
        text = line.decode("utf-8", "replace")
        at = text.casefold().find(self.text)
        return at if at < 0 else len(text[:at].encode())  # folding may move it: near enough to be shown


def _by_line(find: Callable[[bytes], int]) -> Finder:
    def finder(block: bytes) -> Iterator[tuple[int, int, int, int]]:
        begin = 0
        for number, line in enumerate(block.split(b"\n")):
            end = begin + len(line)
            if begin < len(block) and (at := find(line.removesuffix(b"\r"))) >= 0:
                yield number, begin, end, begin + min(at, len(line))
            begin = end + 1

    return finder


def _reason(error: Exception) -> str:
    told: object = error.args[0] if error.args else error
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


def _expression(text: str, ignore_case: bool, say: Say) -> Callable[[bytes], int]:
    try:
        import re2
    except ImportError:
        raise ToolError(
            say("regular expressions are not available here; look for a plain text, with regex=false")
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        expression = re2.compile(text, options)
    except re2.error as error:
        raise ToolError(
            say("{text} is not a regular expression of RE2: {reason}",
                text=short(text), reason=short(_reason(error)))
        ) from None  # fmt: skip

    def find(line: bytes) -> int:
        hit = expression.search(line)
        return -1 if hit is None else int(hit.start())

    return find
