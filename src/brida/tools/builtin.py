"""The tools that come with brida: the clock, and one file of the project directory at a time.

Those that look around are in :mod:`brida.tools.looking`.

Their descriptions are short and plain, since very small models read them too.
"""

import codecs
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, cast

from brida.core.wording import Say
from brida.tools.change import Change
from brida.tools.context import around_a_page, running_call, say_of_call, without_halves
from brida.tools.declare import AsksAnyway, Tool, tool
from brida.tools.difference import change_of_file
from brida.tools.image import IMAGE_LIMIT, Image
from brida.tools.images import MEDIA_TYPES, MediaType
from brida.tools.looking import looking_tools
from brida.tools.output import RESULT_LIMIT, ToolError, no_images
from brida.tools.paths import delete_inside, is_sensitive, open_inside, write_inside
from brida.tools.spelling import shown
from brida.tools.text import clean, head, is_binary, is_visible, media_type

READ_DEFAULT = 2_000
READ_MOST = 20_000
OFFSET_MOST = 10**12
_CHUNK = 1 << 16
_PROBE = 8_192  # bytes in which a NUL makes a file binary
_NOTES = 512  # bytes that are kept for what is said after the text


def builtin_tools(root: Path) -> dict[str, Tool]:
    """All of them by name; the files are those inside ``root``."""
    from pydantic import Field

    home = Path(os.path.abspath(root))

    def asks(arguments: Mapping[str, object], say: Say) -> str | None:
        path = arguments.get("path")
        return is_sensitive(home, path, say=say) if isinstance(path, str) else None

    @tool(impact="read", volatile=True)
    def get_time() -> str:
        """Get the current date and time."""
        return datetime.now().astimezone().isoformat(timespec="seconds")

    @tool(impact="read", asks_anyway=asks)
    def read_file(
        path: str,
        offset: Annotated[int, Field(ge=0, le=OFFSET_MOST)] = 0,
        limit: Annotated[int, Field(ge=1, le=READ_MOST)] = READ_DEFAULT,
    ) -> str | Image:
        """Read a text file or an image in the project directory.

        Args:
            path: Path of the file.
            offset: How many characters to skip.
            limit: How many characters to read.
        """
        return read_text(home, path, offset, limit)

    made = (get_time, read_file, *_changing_tools(home, asks), *looking_tools(home, asks))
    return {one.name: one for one in made}


def _changing_tools(home: Path, asks: AsksAnyway) -> tuple[Tool, ...]:
    def changes(arguments: Mapping[str, object], say: Say) -> Change | None:
        path, content = arguments.get("path"), arguments.get("content")
        if not isinstance(path, str):
            return None
        after = content.encode("utf-8", "replace") if isinstance(content, str) else None
        return change_of_file(home, path, after, say)

    @tool(impact="high", asks_anyway=asks, changes=changes)
    def write_file(path: str, content: str) -> str:
        """Write a text file in the project directory. A file that is there is replaced.

        Args:
            path: Path of the file.
            content: The whole new text of the file.
        """
        return write_text(home, path, content)

    @tool(impact="high", asks_anyway=asks, changes=changes)
    def delete_file(path: str) -> str:
        """Delete a file in the project directory. It deletes no directories and no links.

        Args:
            path: Path of the file.
        """
        return delete(home, path)

    return write_file, delete_file


def delete(root: Path, path: str) -> str:
    """Removes one regular file, never what a link leads to; says what became of it."""
    say = say_of_call()
    delete_inside(root, path, say=say, basis=_basis())
    return say("{path} is deleted", path=shown(path))


def _basis() -> str | None:
    call = running_call()
    return None if call is None else call.basis


def write_text(root: Path, path: str, content: str) -> str:
    """Writes the file whole or not at all, as UTF-8 with the line ends it has; says what became of it."""
    say = say_of_call()
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise ToolError(say("the content holds half of a surrogate pair, which is not valid text")) from None
    if write_inside(root, path, data, say=say, basis=_basis()):
        return say("{path} is replaced. Its size in bytes: {size:,}", path=shown(path), size=len(data))
    return say(
        "{path} is written. It is a new file. Its size in bytes: {size:,}", path=shown(path), size=len(data)
    )


def read_text(root: Path, path: str, offset: int, limit: int) -> str | Image:
    """Up to ``limit`` characters after the first ``offset``, and how to go on where there are more.

    An image is itself where the model can be shown it; any other binary file gives a note. Bytes that are
    not UTF-8 in a text become U+FFFD, one each. The file is read in pieces and no further than needed, and
    the result fits the limit of the call.
    """
    say = say_of_call()
    if not 0 <= offset <= OFFSET_MOST:
        raise ToolError(
            say("offset should be from 0 to {most:,}, got {value}", most=OFFSET_MOST, value=offset)
        )
    if not 1 <= limit <= READ_MOST:
        raise ToolError(say("limit should be from 1 to {most:,}, got {value}", most=READ_MOST, value=limit))
    with open_inside(root, path, say=say) as file:
        start = file.read(_PROBE)
        if not start:
            return say("(the file {path} is empty)", path=shown(path))
        if is_binary(start):
            return _binary(start, file, path, say)
        pieces, around = _decoded(start, file, say), around_a_page()
        before = min(offset, around)
        skipped, rest = _skip(pieces, offset - before)
        while len(rest) <= before + limit + around and (piece := next(pieces, "")):
            rest += piece
        length = skipped + len(rest)
        if offset and length <= offset:
            return say(
                "(the file {path} has no more than {length:,} characters)", path=shown(path), length=length
            )
    return _page(rest[:before], rest[before:], offset, limit, say)


def _binary(start: bytes, file: BinaryIO, path: str, say: Say) -> str | Image:
    """The image, or a note that says what the file is and, of an image, why it is not shown."""
    size = os.fstat(file.fileno()).st_size
    kind = media_type(start) or "application/octet-stream"
    if kind not in MEDIA_TYPES:
        return say(
            "(the file {path} is not text but binary data: {size:,} bytes, {kind})",
            path=shown(path),
            size=size,
            kind=kind,
        )
    reason = no_images(say)
    if reason is None:
        image = Image(start + file.read(IMAGE_LIMIT + 1 - len(start)), cast("MediaType", kind))
        reason = image.fault(say)
        if reason is None:
            return image
    return say(
        "(the file {path} is an image: {size:,} bytes, {kind}; it is not shown: {reason})",
        path=shown(path),
        size=size,
        kind=kind,
        reason=reason,
    )


def _page(before: str, text: str, offset: int, limit: int, say: Say) -> str:
    """The first ``limit`` characters of ``text``, which begins at ``offset``; fewer where they do not fit."""
    call = running_call()
    room = (call.result_limit if call and call.result_limit else RESULT_LIMIT) - _NOTES
    page = head(text[:limit], max(room, 4))
    if not is_visible(page):
        page = say("(nothing but white space)")
        taken = min(limit, len(text))
    else:
        taken = len(page)
        page = without_halves(clean(before), page, clean(text[taken : taken + around_a_page()]))
    notes = []
    if any("\udc80" <= character <= "\udcff" for character in text[:taken]):
        notes.append(say("[some bytes are not UTF-8 and are shown as {mark}]", mark="\ufffd"))
    if taken < len(text):
        following = offset + taken
        notes.append(
            say(
                "[{shown:,} characters shown; there are more: go on with offset={next}]",
                shown=taken,
                next=following,
            )
        )
    if notes and not page.endswith("\n"):
        page += "\n"
    return clean(page + "\n".join(notes))


def _decoded(start: bytes, file: BinaryIO, say: Say) -> Iterator[str]:
    """The text in pieces, none empty; a byte that is not UTF-8 is half a surrogate pair. No mark of order."""
    call = running_call()
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
    data = start
    while data:
        if call is not None and call.cancelled.is_set():
            raise ToolError(say("the call was cancelled"))
        if text := decoder.decode(data):
            yield text
        data = file.read(_CHUNK)
    if text := decoder.decode(b"", final=True):
        yield text


def _skip(pieces: Iterator[str], offset: int) -> tuple[int, str]:
    """How many characters could be skipped, and what is left of the piece that the last of them was in."""
    skipped = 0
    for piece in pieces:
        if skipped + len(piece) > offset:
            return offset, piece[offset - skipped :]
        skipped += len(piece)
    return skipped, ""
