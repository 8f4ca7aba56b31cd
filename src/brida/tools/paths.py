"""Files inside the project directory, and no others.

A path is judged by where it leads, links included, dangling ones too, and not by how it is spelled:
``../project/a`` and absolute paths are fine where they end inside the root. Only regular files are opened.
On POSIX a swap between check and use does not help anybody (:mod:`brida.tools.walk`); elsewhere see
:mod:`brida.tools.portable`.

What cannot be told: a hard link inside the root to a file outside looks like any other file, so it can
be read. Writing never reaches the outside file, since a file is replaced, not written into.
"""

import os
from pathlib import Path
from typing import BinaryIO, Protocol

from brida.core.wording import Say
from brida.tools import portable, walk
from brida.tools.spelling import PathRefused, is_secret, parts_of, shown

__all__ = ["PathRefused", "is_sensitive", "open_inside", "write_inside"]


class _Way(Protocol):
    def open_to_read(self, root: Path, path: str, say: Say) -> int: ...
    def replace(self, root: Path, path: str, content: bytes, say: Say) -> bool: ...
    def names(self, root: Path, path: str, say: Say) -> list[str]: ...


def _way() -> _Way:
    return walk if os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") else portable


def open_inside(root: Path, path: str, *, say: Say) -> BinaryIO:
    """Opens the regular file that ``path`` leads to, to be read. Never blocks on a pipe or a device.

    Raises :class:`PathRefused`, whose message is for the model.
    """
    return os.fdopen(_way().open_to_read(root, path, say), "rb")


def write_inside(root: Path, path: str, content: bytes, *, say: Say) -> bool:
    """Makes ``content`` the file that ``path`` leads to, whole or not at all; True where it replaced one.

    Through a link the link's target is written. Directories that are missing on the way are made, inside
    the root, one by one; they stay where the file then cannot be written. The permission bits of an old
    file are kept; one that is protected against writing is refused. Raises :class:`PathRefused`, and then
    an old file is as it was.
    """
    return _way().replace(root, path, content, say)


def is_sensitive(root: Path, path: str, *, say: Say) -> str | None:
    """Why a person is asked before the file is even read: a name on its way may mean secrets. Else None.

    The names that it is spelled with inside the root count, those in links, and those where it ends; so
    does a link with a harmless name to such a file. Never raises.
    """
    try:
        spelled = [] if os.path.isabs(path) else parts_of(path, say)
        found = _way().names(root, path, say) or parts_of(path, say)
    except (PathRefused, OSError, TypeError, ValueError):
        return None  # no path at all: opening it will say so
    for name in (*spelled, *found):
        if is_secret(name):
            return say("{path} may hold secrets: {name}", path=shown(path), name=shown(name))
    return None
