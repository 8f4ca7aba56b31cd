"""Files inside the project directory, and no others.

A path is judged by where it leads, links included, dangling ones too, and not by how it is spelled:
``../project/a`` and absolute paths are fine where they end inside the root. Only regular files are opened.
On POSIX a swap between check and use does not help anybody (:mod:`brida.tools.walk`); elsewhere see
:mod:`brida.tools.portable`.

What cannot be told: a hard link inside the root to a file outside looks like any other file, so it can
be read. Writing never reaches the outside file, since a file is replaced, not written into.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from brida.core.wording import Say
from brida.tools import portable, walk
from brida.tools.folders import Folder, PortableFolder
from brida.tools.spelling import PathRefused, is_secret, parts_of, shown
from brida.tools.walk import Seen

__all__ = [
    "PathRefused",
    "delete_inside",
    "folder_of",
    "is_sensitive",
    "look_inside",
    "open_inside",
    "where_inside",
    "write_inside",
]


class _Way(Protocol):
    def open_to_read(self, root: Path, path: str, say: Say) -> int: ...
    def look(
        self, root: Path, path: str, say: Say, *, follow: bool = True
    ) -> AbstractContextManager[Seen]: ...
    def replace(self, root: Path, path: str, content: bytes, say: Say, basis: str | None = None) -> bool: ...
    def delete(self, root: Path, path: str, say: Say, basis: str | None = None) -> None: ...
    def where(self, root: Path, path: str, say: Say) -> tuple[tuple[str, ...], bool]: ...
    def names(self, root: Path, path: str, say: Say) -> list[str]: ...


def _way() -> _Way:
    return walk if os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") else portable


def open_inside(root: Path, path: str, *, say: Say) -> BinaryIO:
    """Opens the regular file that ``path`` leads to, to be read. Never blocks on a pipe or a device.

    Raises :class:`PathRefused`, whose message is for the model.
    """
    return os.fdopen(_way().open_to_read(root, path, say), "rb")


def look_inside(root: Path, path: str, *, say: Say, follow: bool = True) -> AbstractContextManager[Seen]:
    """For a block: the descriptor of the regular file that ``path`` leads to, None where there is none.

    With it the names that lead there from the root without a link. Without ``follow`` a link at the end is
    refused. Raises :class:`PathRefused` as the block is entered.
    """
    return _way().look(root, path, say, follow=follow)


def where_inside(root: Path, path: str, *, say: Say) -> tuple[tuple[str, ...], bool]:
    """The names that lead from the root to what ``path`` ends at, links followed; whether it is a directory.

    Raises :class:`PathRefused` where there is nothing, and where it may not be used.
    """
    return _way().where(root, path, say)


def folder_of(root: Path) -> Folder:
    """The root, to go down from. Raises ``OSError`` where it cannot be opened."""
    return Folder.of(root) if _way() is walk else PortableFolder.of(root)


def write_inside(root: Path, path: str, content: bytes, *, say: Say, basis: str | None = None) -> bool:
    """Makes ``content`` the file that ``path`` leads to, whole or not at all; True where it replaced one.

    Through a link the link's target is written. Directories that are missing on the way are made, inside
    the root, one by one; they stay where the file then cannot be written. The permission bits of an old
    file are kept; one that is protected against writing is refused. ``basis``: what an approval was based
    on (:mod:`brida.tools.basis`); where the file is no longer so just before the rename, nothing is written.
    Raises :class:`PathRefused`, and then an old file is as it was.
    """
    return _way().replace(root, path, content, say, basis)


def delete_inside(root: Path, path: str, *, say: Say, basis: str | None = None) -> None:
    """Removes the regular file that ``path`` leads to; a link at its end is refused, never followed.

    ``basis`` as for :func:`write_inside`. Raises :class:`PathRefused`, and then the file is as it was.
    """
    _way().delete(root, path, say, basis)


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
