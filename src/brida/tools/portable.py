"""The way of :mod:`brida.tools.walk` where the system opens nothing relative to a directory (Windows).

A path is resolved, judged and opened, and then it is looked up again: what was opened must be the file
that is there, and the path must still resolve to itself. Where that cannot be told, the file is refused.
Between the looks somebody who swaps directories fast enough may win; the walk is used wherever it works.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from brida.core.wording import Say
from brida.tools.basis import basis_of, changed, refuse_changed, state_of
from brida.tools.replace import is_writable, replace_file
from brida.tools.spelling import PathRefused, parts_of, refuse_unapproved, shown
from brida.tools.walk import Seen, check_kind, os_errors

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def open_to_read(root: Path, path: str, say: Say) -> int:
    """The descriptor of a regular file. Raises :class:`PathRefused`."""
    with look(root, path, say) as (descriptor, _):
        if descriptor is None:
            raise PathRefused(say("there is no file {path}", path=shown(path)))
        return os.dup(descriptor)


@contextlib.contextmanager
def look(root: Path, path: str, say: Say, *, follow: bool = True) -> Iterator[Seen]:
    """The descriptor of the regular file, None where there is none, and the names where the path ends.

    Without ``follow`` a link at the end is refused. Raises :class:`PathRefused`.
    """
    real = _resolve(root, path, say, follow=follow)
    refuse_unapproved(names(root, path, say), path, say)
    with os_errors(path, say):
        descriptor = _open(real, path, say)
        try:
            yield descriptor, _below(root, real)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def replace(root: Path, path: str, content: bytes, say: Say, basis: str | None = None) -> bool:
    """Writes the file and the directories that are missing on its way; True where it replaced one."""
    real = _resolve(root, path, say)
    if path.replace(os.sep, "/").rsplit("/", 1)[-1] in ("", ".", ".."):
        raise PathRefused(say("{path} is a directory, not a file", path=shown(path)))
    refuse_unapproved(names(root, path, say), path, say)
    with os_errors(path, say):
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = os.lstat(real)
            check_kind(old, path, say)
        last_look = partial(refuse_changed, basis, partial(_basis, root, real, path, say), path, say)
        last_look()
        os.makedirs(os.path.dirname(real), exist_ok=True)
        if os.path.realpath(os.path.dirname(real)) != os.path.dirname(real):
            raise PathRefused(say("{path} changed while it was opened", path=shown(path)))
        try:
            replace_file(real, content, old, None, last_look if basis is not None else None)
        except FileExistsError:
            raise changed(path, say) from None
        return old is not None


def delete(root: Path, path: str, say: Say, basis: str | None = None) -> None:
    """Removes a regular file; a link is refused, and so is a file that is protected against writing."""
    real = _resolve(root, path, say, follow=False)
    refuse_unapproved(names(root, path, say), path, say)
    with os_errors(path, say):
        check_kind(os.lstat(real), path, say)
        if not is_writable(real, None):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        refuse_changed(basis, partial(_basis, root, real, path, say), path, say)
        os.unlink(real)


def _open(real: str, path: str, say: Say) -> int | None:
    """A descriptor of the regular file there, as it is now; None where there is none."""
    try:
        check_kind(os.lstat(real), path, say)
        descriptor = os.open(real, _READ)
    except FileNotFoundError:
        return None
    try:
        opened = os.fstat(descriptor)
        check_kind(opened, path, say)
        _check_unchanged(real, opened, path, say)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _basis(root: Path, real: str, path: str, say: Say) -> str:
    descriptor = _open(real, path, say)
    try:
        return basis_of(state_of(descriptor, say), _below(root, real), path)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _below(root: Path, real: str) -> tuple[str, ...]:
    return tuple(os.path.relpath(real, os.path.realpath(root)).split(os.sep))


def where(root: Path, path: str, say: Say) -> tuple[tuple[str, ...], bool]:
    """The names that lead from the root to what the path ends at, and whether that is a directory.

    Raises :class:`PathRefused` where there is nothing, and where it may not be used.
    """
    real = _resolve(root, path, say)
    refuse_unapproved(names(root, path, say), path, say)
    if not os.path.lexists(real):
        raise PathRefused(say("there is no file or directory {path}", path=shown(path)))
    return tuple(name for name in _below(root, real) if name != "."), os.path.isdir(real)


def names(root: Path, path: str, say: Say) -> list[str]:
    """The names below the root where the path ends, and those below it that it is spelled with."""
    inside = os.path.realpath(root)
    try:
        real = _resolve(root, path, say)
    except PathRefused:
        return []
    spelled = os.path.join(inside, path)
    return [*os.path.relpath(spelled, inside).split(os.sep), *os.path.relpath(real, inside).split(os.sep)]


def _resolve(root: Path, path: str, say: Say, *, follow: bool = True) -> str:
    """The real path inside; without ``follow`` a link at its end is refused."""
    parts = parts_of(path, say)
    inside = os.path.realpath(root)
    outside = PathRefused(say("path {path} is outside the project directory", path=shown(path)))
    if os.name == "nt" and any(":" in part for part in parts[1:]):  # a stream of a file
        raise outside
    try:
        real = os.path.realpath(os.path.join(inside, path))
        shared = os.path.commonpath([os.path.normcase(inside), os.path.normcase(real)])
    except (ValueError, OSError):  # on another drive
        raise outside from None
    if shared != os.path.normcase(inside):
        raise outside
    if not follow and os.path.islink(os.path.normpath(os.path.join(inside, path))):
        raise PathRefused(say("{path} is a link, not a file", path=shown(path)))
    return real


def _check_unchanged(real: str, opened: os.stat_result, path: str, say: Say) -> None:
    there = os.lstat(real)
    same = (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino) and opened.st_ino != 0
    if not same or not stat.S_ISREG(there.st_mode) or os.path.realpath(real) != real:
        raise PathRefused(say("{path} changed while it was opened", path=shown(path)))
