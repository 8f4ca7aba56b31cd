"""Writes a file whole or not at all: beside its target first, then renamed over it."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def replace_file(
    name: str,
    content: bytes,
    old: os.stat_result | None,
    directory: int | None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Makes ``content`` the file ``name`` in the directory with that descriptor (None: ``name`` is a path).

    ``old`` is the regular file that is there, if one is: its permission bits and, where allowed, its owner
    are kept; a new file gets 0666 without the umask. Set-user-ID bits, extended attributes and other hard
    links do not come along. Raises ``OSError`` and removes what it wrote; a kill in between can leave a
    file ``.*.brida-tmp`` behind, never half of ``name``.

    ``last_look`` is called when all is written and only the rename is left; what it raises goes through.
    With it and without ``old``, a file that appears at the very last moment is a ``FileExistsError``.
    """
    if old is not None and not is_writable(name, directory):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    fresh = os.path.join(os.path.dirname(name), f".{os.urandom(8).hex()}.brida-tmp")
    descriptor = os.open(fresh, _CREATE, 0o666, dir_fd=directory)
    try:
        try:
            _fill(descriptor, content)
            if old is not None:
                _keep(descriptor, old)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if last_look is not None:
            last_look()
        if last_look is None or old is not None or not _put_new(fresh, name, directory):
            os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise


def _put_new(fresh: str, name: str, directory: int | None) -> bool:
    """Gives the file its name unless there is one of that name; False where there are no hard links."""
    try:
        os.link(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        return False
    with contextlib.suppress(OSError):
        os.unlink(fresh, dir_fd=directory)
    return True


def is_writable(name: str, directory: int | None) -> bool:
    """Whether its bits let us write it. A rename or a removal would
    also take a file that its owner has protected against writing."""
    effective = os.access in os.supports_effective_ids
    return os.access(name, os.W_OK, dir_fd=directory, effective_ids=effective)


def _fill(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _keep(descriptor: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        new = os.fstat(descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
