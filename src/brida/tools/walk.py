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
from functools import partial
from pathlib import Path
from typing import TypeAlias

from brida.core.wording import Say
from brida.tools.basis import basis_of, changed, refuse_changed, state_of
from brida.tools.replace import is_writable, replace_file
from brida.tools.spelling import PathRefused, parts_of, refuse_unapproved, shown

Seen: TypeAlias = tuple[int | None, tuple[str, ...]]

_MAX_LINKS = 40  # as Linux does; a file that changes under us counts as one

_DIRECTORY = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_PATH", 0)
)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_to_read(root: Path, path: str, say: Say) -> int:
    """The descriptor of a regular file. Raises :class:`PathRefused`."""
    with look(root, path, say) as (descriptor, _):
        if descriptor is None:
            raise PathRefused(say("there is no file {path}", path=shown(path)))
        return os.dup(descriptor)


@contextmanager
def look(root: Path, path: str, say: Say, *, follow: bool = True) -> Iterator[Seen]:
    """The descriptor of the regular file, None where there is none, and the names where the path ends.

    Without ``follow`` a link at the end is refused. Raises :class:`PathRefused`.
    """
    with walk(root, path, say, follow=follow) as place, os_errors(path, say):
        descriptor = _open(place, path, say)
        try:
            yield descriptor, place.names
        finally:
            if descriptor is not None:
                os.close(descriptor)


def replace(root: Path, path: str, content: bytes, say: Say, basis: str | None = None) -> bool:
    """Writes the file and the directories that are missing on its way; True where it replaced one."""
    with walk(root, path, say) as place, os_errors(path, say):
        if place.info is not None:
            check_kind(place.info, path, say)
        last_look = partial(refuse_changed, basis, partial(_basis, place, path, say), path, say)
        last_look()  # before directories are made, and again when only the rename is left
        for name in place.missing:
            place.make(name)
        try:
            replace_file(
                place.name, content, place.info, place.directory, last_look if basis is not None else None
            )
        except FileExistsError:
            raise changed(path, say) from None
        return place.info is not None


def delete(root: Path, path: str, say: Say, basis: str | None = None) -> None:
    """Removes a regular file; a link is refused, and so is a file that is protected against writing."""
    with walk(root, path, say, follow=False) as place, os_errors(path, say):
        if place.info is None:
            raise PathRefused(say("there is no file {path}", path=shown(path)))
        check_kind(place.info, path, say)
        if not is_writable(place.name, place.directory):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        refuse_changed(basis, partial(_basis, place, path, say), path, say)
        os.unlink(place.name, dir_fd=place.directory)


def _open(place: "Place", path: str, say: Say) -> int | None:
    """A descriptor of the regular file at the end of the walk, as it is now; None where there is none."""
    if place.missing:
        return None
    try:
        info = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        check_kind(info, path, say)  # before it is opened, which may already do something to a device
        descriptor = os.open(place.name, _READ, dir_fd=place.directory)
    except FileNotFoundError:
        return None
    try:
        check_kind(os.fstat(descriptor), path, say)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _basis(place: "Place", path: str, say: Say) -> str:
    descriptor = _open(place, path, say)
    try:
        return basis_of(state_of(descriptor, say), place.names, path)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def where(root: Path, path: str, say: Say) -> tuple[tuple[str, ...], bool]:
    """The names that lead from the root to what the path ends at, and whether that is a directory.

    Raises :class:`PathRefused` where there is nothing, and where it may not be used.
    """
    way = _Walk(root, path, say)
    try:
        with os_errors(path, say):
            place = way.find()
            refuse_unapproved(way.touched, path, say)
        if place is not None and place.info is None:
            raise PathRefused(say("there is no file or directory {path}", path=shown(path)))
        return (way.names, True) if place is None else (place.names, False)
    finally:
        way.close()


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
    """Where a path ends: ``name`` in ``directory`` below ``missing`` ones; ``info`` is None for no file.

    ``names`` lead there from the root without a link.
    """

    directory: int
    name: str
    missing: tuple[str, ...]
    info: os.stat_result | None
    names: tuple[str, ...]

    def make(self, name: str) -> None:
        """Goes down into the directory ``name``, which is made unless somebody just did."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=self.directory)
        below = os.open(name, _DIRECTORY, dir_fd=self.directory)
        os.close(self.directory)
        self.directory = below
        self.missing = self.missing[1:]


@contextmanager
def walk(root: Path, path: str, say: Say, *, follow: bool = True) -> Iterator[Place]:
    """Where the path ends, with the descriptor open for the block. Raises :class:`PathRefused`."""
    way = _Walk(root, path, say, follow)
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
    to_target: bool = True
    touched: list[str] = field(default_factory=list)
    directory: int = -1
    _root: int = -1
    _above: list[tuple[int, int]] = field(default_factory=list)  # the directories between the root and here
    _names: list[str] = field(default_factory=list)  # and what they are called, with here
    _missing: list[str] = field(default_factory=list)
    _queue: deque[str] = field(default_factory=deque)
    _outside: str | None = None
    _changes: int = 0

    def follow(self) -> Place:
        place = self.find()
        if place is None:
            raise PathRefused(self.say("{path} is a directory, not a file", path=shown(self.path)))
        return place

    def find(self) -> Place | None:
        """Where the path ends; None for a directory, which ``directory`` then is."""
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
                    return Place(self.directory, part, (), leaf, (*self._names, part))
        if self._outside is not None:
            raise self._refused_outside()
        if not self._missing:
            return None
        if part in ("", ".", ".."):
            raise PathRefused(self.say("{path} is a directory, not a file", path=shown(self.path)))
        names = (*self._names, *self._missing)
        return Place(self.directory, self._missing[-1], tuple(self._missing[:-1]), None, names)

    @property
    def names(self) -> tuple[str, ...]:
        """What leads from the root to the directory where we are."""
        return tuple(self._names)

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
                if not self._queue and not self.to_target:
                    raise PathRefused(self.say("{path} is a link, not a file", path=shown(self.path)))
                self._expand(os.readlink(part, dir_fd=self.directory))
            elif stat.S_ISDIR(info.st_mode):
                below = os.open(part, _DIRECTORY, dir_fd=self.directory)
                self._above.append(_identity(os.fstat(self.directory)))
                self._names.append(part)
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
            self._names.pop()
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
        self._names.clear()
        self._move(os.open(".", _DIRECTORY, dir_fd=self._root))

    def _move(self, directory: int) -> None:
        if self.directory >= 0:
            os.close(self.directory)
        self.directory = directory

    def _refused_outside(self) -> PathRefused:
        return PathRefused(self.say("path {path} is outside the project directory", path=shown(self.path)))
