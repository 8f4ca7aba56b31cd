"""Directories to go down through, one name at a time; no link is ever followed.

As in :mod:`brida.tools.walk`, each is opened relative to the descriptor of the one above it.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["file", "directory", "link", "other"]

AT_ONCE: Final = 50_000
"""How many names of one directory are sorted together; a larger one comes in several sorted parts."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(slots=True)
class Folder:
    """An open directory. ``names`` lead to it from the root. Everything may raise ``OSError``."""

    names: tuple[str, ...]
    descriptor: int

    @classmethod
    def of(cls, root: Path) -> "Folder":
        """The root itself."""
        return cls((), os.open(os.path.realpath(root), _FOLDER))

    def close(self) -> None:
        """Closes the directory; once more does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def entries(self) -> Iterator[tuple[str, Kind]]:
        """What is in it, by name."""
        with os.scandir(self.descriptor) as found:
            yield from _sorted(found)

    def folder(self, name: str) -> "Folder":
        """The directory of that name in it."""
        return Folder((*self.names, name), os.open(name, _FOLDER, dir_fd=self.descriptor))

    def open(self, name: str) -> BinaryIO:
        """The regular file of that name in it, to be read, without a buffer."""
        _check(self.stat(name))  # before it is opened, which may already do something to a device
        return _regular(os.open(name, _FILE, dir_fd=self.descriptor))

    def stat(self, name: str) -> os.stat_result:
        """The facts of what has that name in it."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)


@dataclass(slots=True)
class PortableFolder(Folder):
    """A directory where nothing can be opened relative to another.

    As in :mod:`brida.tools.portable`, somebody who swaps directories fast enough may win: then names from
    outside are shown; of what a file outside holds, nothing unless it was swapped twice.
    """

    real: str

    @classmethod
    def of(cls, root: Path) -> "PortableFolder":
        """The root itself."""
        return cls((), -1, os.path.realpath(root))

    def entries(self) -> Iterator[tuple[str, Kind]]:
        """What is in it, by name."""
        with os.scandir(self._real(self.real)) as found:
            yield from _sorted(found)

    def folder(self, name: str) -> "PortableFolder":
        """The directory of that name in it."""
        return PortableFolder((*self.names, name), -1, self._real(os.path.join(self.real, name)))

    def open(self, name: str) -> BinaryIO:
        """The regular file of that name in it, to be read, without a buffer."""
        _check(self.stat(name))
        file = _regular(os.open(self._real(os.path.join(self.real, name)), _FILE))
        opened, there = os.fstat(file.fileno()), self.stat(name)
        if opened.st_ino == 0 or (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino):
            file.close()
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return file

    def stat(self, name: str) -> os.stat_result:
        """The facts of what has that name in it."""
        return os.lstat(os.path.join(self._real(self.real), name))

    @staticmethod
    def _real(path: str) -> str:
        if os.path.realpath(path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return path


def _sorted(found: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, Kind]]:
    while part := sorted((entry.name, _kind(entry)) for entry in islice(found, AT_ONCE)):
        yield from part


def _kind(entry: os.DirEntry[str]) -> Kind:
    with suppress(OSError):
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        if entry.is_file(follow_symlinks=False):
            return "file"
    return "other"


def _check(info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _regular(descriptor: int) -> BinaryIO:
    try:
        _check(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb", buffering=0)
