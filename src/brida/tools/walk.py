"""Follows a path through directory descriptors, so that what it ends at is inside the root by construction.

Every name is looked up in the descriptor of the directory before it, and no system call follows a link:
links are read and resolved here. Inside the root the walk goes down by descriptors alone and up only to
a directory that it came through. Outside (``..`` above the root, an absolute path or link) nothing is
opened; the walk only finds out whether the way leads back to the root, and then starts from the root's
descriptor again. So nobody who swaps a directory for a link while we walk can lead us out.

Not seen: a second hard link to a file outside, which looks like any file of ours, and a directory that
is moved out of the root after we have opened it.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from brida.core.wording import Say
from brida.tools.replace import replace_file
from brida.tools.spelling import PathRefused, parts_of, refuse_unapproved, shown

_MAX_LINKS = 40  # as Linux does; a file that changes under us counts as one

_DIRECTORY = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_PATH", 0)
)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_to_read(root: Path, path: str, say: Say) -> int:
    """The descriptor of a regular file. Raises :class:`PathRefused`."""
    with walk(root, path, say) as place, os_errors(path, say):
        if place.info is None:
            raise PathRefused(say("there is no file {path}", path=shown(path)))
        check_kind(place.info, path, say)  # before it is opened, which may already do something to a device
        descriptor = os.open(place.name, _READ, dir_fd=place.directory)
        try:
            check_kind(os.fstat(descriptor), path, say)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def replace(root: Path, path: str, content: bytes, say: Say) -> bool:
    """Writes the file and the directories that are missing on its way; True where it replaced one."""
    with walk(root, path, say) as place, os_errors(path, say):
        if place.info is not None:
            check_kind(place.info, path, say)
        for name in place.missing:
            place.make(name)
        replace_file(place.name, content, place.info, place.directory)
        return place.info is not None


def names(root: Path, path: str, say: Say) -> list[str]:
    """All names inside the root that the path goes through, those in links included; as far as it leads."""
    visited = _Walk(root, path, say)
    try:
        visited.follow()
    except (PathRefused, OSError):
        pass
    finally:
        visited.close()
    return visited.touched


def check_kind(info: os.stat_result, path: str, say: Say) -> None:
    """Raises :class:`PathRefused` for anything but a regular file."""
    if stat.S_ISDIR(info.st_mode):
        raise PathRefused(say("{path} is a directory, not a file", path=shown(path)))
    if not stat.S_ISREG(info.st_mode):
        raise PathRefused(
            say("{path} is not a regular file but a device, a pipe or a socket", path=shown(path))
        )


@dataclass(slots=True)
class Place:
    """Where a path ends: ``name`` in ``directory`` below ``missing`` ones; ``info`` is None for no file."""

    directory: int
    name: str
    missing: tuple[str, ...]
    info: os.stat_result | None

    def make(self, name: str) -> None:
        """Goes down into the directory ``name``, which is made unless somebody just did."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=self.directory)
        below = os.open(name, _DIRECTORY, dir_fd=self.directory)
        os.close(self.directory)
        self.directory = below


@contextmanager
def walk(root: Path, path: str, say: Say) -> Iterator[Place]:
    """Where the path ends, with the descriptor open for the block. Raises :class:`PathRefused`."""
    way = _Walk(root, path, say)
    try:
        with os_errors(path, say):
            place = way.follow()
            refuse_unapproved(way.touched, path, say)
        way.directory = -1
        try:
            yield place
        finally:
            os.close(place.directory)
    finally:
        way.close()


@contextmanager
def os_errors(path: str, say: Say) -> Iterator[None]:
    """Turns an ``OSError`` within the block into :class:`PathRefused`, in words that a model can use."""
    try:
        yield
    except FileNotFoundError:
        raise PathRefused(say("there is no file {path}", path=shown(path))) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathRefused(say("{path} changed while it was opened", path=shown(path))) from None
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise PathRefused(say("{path} cannot be used: {reason}", path=shown(path), reason=reason)) from error


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


@dataclass(slots=True)
class _Walk:
    """One walk. ``directory``: the descriptor where we are, inside; ``_outside``: our real path, outside."""

    root: Path
    path: str
    say: Say
    touched: list[str] = field(default_factory=list)
    directory: int = -1
    _root: int = -1
    _above: list[tuple[int, int]] = field(default_factory=list)  # the directories between the root and here
    _missing: list[str] = field(default_factory=list)
    _queue: deque[str] = field(default_factory=deque)
    _outside: str | None = None
    _changes: int = 0

    def follow(self) -> Place:
        self._queue.extend(parts_of(self.path, self.say))
        self._root = os.open(os.path.realpath(self.root), _DIRECTORY)
        self._enter()
        if os.path.isabs(self.path):
            self._leave("/")
        part = ""
        while self._queue:
            part = self._queue.popleft()
            if self._outside is not None:
                self._step_outside(part)
            elif part == "..":
                self._up()
            elif part not in ("", "."):
                leaf = self._down(part)
                if leaf is not None:
                    return Place(self.directory, part, (), leaf)
        if self._outside is not None:
            raise self._refused_outside()
        if not self._missing or part in ("", ".", ".."):
            raise PathRefused(self.say("{path} is a directory, not a file", path=shown(self.path)))
        return Place(self.directory, self._missing[-1], tuple(self._missing[:-1]), None)

    def close(self) -> None:
        for descriptor in (self.directory, self._root):
            if descriptor >= 0:
                os.close(descriptor)
        self.directory = self._root = -1

    def _down(self, part: str) -> os.stat_result | None:
        """Goes on to ``part``; gives its facts where it is neither a directory nor a link, so the end."""
        self.touched.append(part)
        if self._missing:  # below nothing there are no links
            self._missing.append(part)
            return None
        try:
            info = os.stat(part, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            self._missing.append(part)
            return None
        try:
            if stat.S_ISLNK(info.st_mode):
                self._expand(os.readlink(part, dir_fd=self.directory))
            elif stat.S_ISDIR(info.st_mode):
                below = os.open(part, _DIRECTORY, dir_fd=self.directory)
                self._above.append(_identity(os.fstat(self.directory)))
                self._move(below)
            elif self._queue:
                raise PathRefused(self.say("{path} leads through a file", path=shown(self.path)))
            else:
                return info
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EINVAL):
                raise
            self._count_change()  # it was swapped between the two calls: look again
            self._queue.appendleft(part)
        return None

    def _up(self) -> None:
        if self._missing:
            self._missing.pop()
        elif self._above:
            parent = os.open("..", _DIRECTORY, dir_fd=self.directory)
            self._move(parent)
            if _identity(os.fstat(parent)) != self._above.pop():
                raise PathRefused(self.say("{path} changed while it was opened", path=shown(self.path)))
        else:
            self._leave(os.path.dirname(os.path.realpath(self.root)))

    def _expand(self, target: str) -> None:
        self._count_change()
        self._queue.extendleft(reversed(target.split("/")))
        if target.startswith("/"):
            self._leave("/")

    def _count_change(self) -> None:
        self._changes += 1
        if self._changes > _MAX_LINKS:
            raise PathRefused(self.say("{path} leads through too many links", path=shown(self.path)))

    def _step_outside(self, part: str) -> None:
        """Only looks: nothing outside is opened, and what is missing there is not told from what is not."""
        assert self._outside is not None
        if part in ("", "."):
            return
        if part == "..":
            self._leave(os.path.dirname(self._outside))
            return
        here = os.path.join(self._outside, part)
        try:
            info = os.lstat(here)
            target = os.readlink(here) if stat.S_ISLNK(info.st_mode) else None
        except OSError:
            raise self._refused_outside() from None
        if target is not None:
            self._expand(target)
        elif stat.S_ISDIR(info.st_mode):
            self._leave(here)
        else:
            raise self._refused_outside()

    def _leave(self, where: str) -> None:
        """Goes to a directory by its real path; it may be the root itself."""
        try:
            arrived = _identity(os.lstat(where)) == _identity(os.fstat(self._root))
        except OSError:
            raise self._refused_outside() from None
        if arrived:
            self._enter()
        else:
            self._outside = where

    def _enter(self) -> None:
        self._outside = None
        self._above.clear()
        self._move(os.open(".", _DIRECTORY, dir_fd=self._root))

    def _move(self, directory: int) -> None:
        if self.directory >= 0:
            os.close(self.directory)
        self.directory = directory

    def _refused_outside(self) -> PathRefused:
        return PathRefused(self.say("path {path} is outside the project directory", path=shown(self.path)))
