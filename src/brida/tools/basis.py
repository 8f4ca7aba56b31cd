"""What an approved change was based on, and whether it still is so: one file's bytes, in a short text."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Final

from brida.core.wording import Say
from brida.tools.change import ABSENT, UNKNOWN
from brida.tools.context import running_call
from brida.tools.output import ToolError
from brida.tools.spelling import PathRefused, shown

HASHED: Final = 1 << 30
"""The largest file that is hashed, in bytes; of a larger one the size, the times and the inode must do."""

_PIECE: Final = 1 << 20


def state_of(descriptor: int | None, say: Say) -> str:
    """The file behind a descriptor, read from its beginning in pieces; ``absent`` where there is none.

    Raises ``OSError`` where it cannot be read, :class:`ToolError` where the call was cancelled.
    """
    if descriptor is None:
        return ABSENT
    info = os.fstat(descriptor)
    if info.st_size > HASHED:
        return f"stat:{info.st_size}-{info.st_mtime_ns}-{info.st_ctime_ns}-{info.st_ino}"
    call, read, place = running_call(), hashlib.sha256(), 0
    os.lseek(descriptor, 0, os.SEEK_SET)
    while piece := os.read(descriptor, _PIECE):
        if call is not None and call.cancelled.is_set():
            raise ToolError(say("the call was cancelled"))
        read.update(piece)
        place += len(piece)
        if place > HASHED:
            raise PathRefused(say("it grows while it is read"))
    return f"sha256:{read.hexdigest()}"


def basis_of(state: str, names: Sequence[str], path: str) -> str:
    """``state``, and where the path ends where that is not where it says: a link may be turned elsewhere."""
    spelled = [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]
    if spelled == list(names) and not os.path.isabs(path):
        return state
    return f"{state} in {'/'.join(names).encode('utf-8', 'backslashreplace').decode()}"


def refuse_changed(approved: str | None, now: Callable[[], str], path: str, say: Say) -> None:
    """Raises :class:`PathRefused` where a person approved the change of something else, or unseen.

    ``now()`` is asked only where there was an approval.
    """
    if approved is None:
        return
    if approved.startswith(UNKNOWN):
        raise PathRefused(
            say(
                "what {path} holds could not be told when it was approved, so nothing was done: {reason}",
                path=shown(path),
                reason=approved.removeprefix(UNKNOWN),
            )
        )
    if now() != approved:
        raise changed(path, say)


def changed(path: str, say: Say) -> PathRefused:
    """What is said where a file is no longer what a person saw."""
    return PathRefused(say("{path} changed since it was approved; nothing was written", path=shown(path)))
