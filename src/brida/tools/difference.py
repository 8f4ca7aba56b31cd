"""What writing or deleting one file would change, as a unified diff for the person who is asked."""

import difflib
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.tools.basis import basis_of, state_of
from brida.tools.change import Change
from brida.tools.paths import look_inside
from brida.tools.text import is_binary, visible

DIFF_FILE: Final = 1 << 18
"""The largest file, in bytes, of which a diff is made."""

DIFF_LINES: Final = 400
"""The most lines of a diff that are shown."""

_COMPARED: Final = 2_000  # lines that are matched with each other, which can take quadratic time
_CONTEXT: Final = 3
_HUNK: Final = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def change_of_file(root: Path, path: str, after: bytes | None, say: Say) -> Change:
    """The change that makes ``after`` the file's bytes, or removes the file where it is None.

    The diff is of what was there when the basis was told. Raises :class:`PathRefused` where the file
    cannot be read: what nobody can see, nobody can approve.
    """
    with look_inside(root, path, say=say, follow=after is not None) as (descriptor, names):
        state = state_of(descriptor, say)
        before = None if descriptor is None else _beginning(descriptor)
    where = "/".join(names)

    def difference(say: Say) -> str:
        return _shown(where, before, after, say)

    return Change(basis_of(state, names, path), difference)


def _beginning(descriptor: int) -> bytes:
    """The whole file, or a bit more of it than a diff is made of."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    pieces, room = [], DIFF_FILE + 1
    while room and (piece := os.read(descriptor, room)):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _shown(where: str, before: bytes | None, after: bytes | None, say: Say) -> str:
    """The diff; a note instead where it would be no text or too much of it."""
    if before is None and after is None:
        return say("(there is no such file)")
    if before == after:
        return say("(nothing would change)")
    sides = [side for side in (before, after) if side is not None]
    if any(len(side) > DIFF_FILE for side in sides):
        return say("(no diff: a file larger than {most:,} bytes)", most=DIFF_FILE)
    if any(is_binary(side[:8_192]) for side in sides):
        return say("(no diff: binary data)")
    name = visible(where)
    lines = [
        f"--- {name}" if before is not None else f"--- {say('(no file)')}",
        f"+++ {name}" if after is not None else f"+++ {say('(no file)')}",
    ]
    every = _lines(_split(before or b""), _split(after or b""), say)
    lines += islice(every, DIFF_LINES)
    if left := sum(1 for _ in every):
        lines.append(say("... {lines:,} more lines of the diff", lines=left))
    return "\n".join(lines)


def _split(data: bytes) -> list[str]:
    """The lines with their ends; bytes that are not UTF-8 are written as escapes."""
    return re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "backslashreplace"))


def _lines(old: list[str], new: list[str], say: Say) -> Iterator[str]:
    """The lines of a unified diff after its first two, without line ends."""
    same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        same += 1
    tail = 0
    for one, other in zip(reversed(old[same:]), reversed(new[same:]), strict=False):
        if one != other:
            break
        tail += 1
    start, kept = max(0, same - _CONTEXT), max(0, tail - _CONTEXT)
    old, new = old[start : len(old) - kept], new[start : len(new) - kept]
    if max(len(old), len(new)) > _COMPARED:
        yield f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
        yield from _with_ends([*("-" + line for line in old), *("+" + line for line in new)], say)
        return
    found = islice(difflib.unified_diff(old, new, n=_CONTEXT), 2, None)
    yield from _with_ends(found, say, start)


def _with_ends(lines: Iterator[str] | list[str], say: Say, offset: int = 0) -> Iterator[str]:
    """Says where a line has no end, and moves the numbers of the hunks by the lines that were left off."""
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]) + offset, int(hunk[3]) + offset
            yield f"@@ -{old}{hunk[2] or ''} +{new}{hunk[4] or ''} @@"
        else:
            yield line.removesuffix("\n")
            if not line.endswith("\n"):
                yield "\\ " + say("the last line has no line end")
