"""Where a file lies: on a disk of this machine, or behind a network."""

from pathlib import Path, PurePosixPath
from typing import Final

NETWORKED: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs"),
        *("lustre", "afs", "beegfs", "gpfs", "ocfs2", "gfs2", "fuse.s3fs", "fuse.rclone", "ncpfs", "davfs"),
    )
)
"""Types of file systems that several machines may use at once."""

MOUNTS: Final = Path("/proc/self/mountinfo")


def is_networked(path: Path) -> bool:
    """Whether ``path`` lies on a network file system, as far as this system says."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return type_of_file_system(str(path.resolve()), mounts) in NETWORKED


def type_of_file_system(path: str, mounts: str) -> str | None:
    """The type of the file system that ``path`` lies on, by the text of ``/proc/self/mountinfo``."""
    best, found = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _plain(fields[4])
        length = len(PurePosixPath(point).parts)
        if PurePosixPath(path).is_relative_to(point) and length >= best:  # a later mount hides an earlier
            best, found = length, after.split()[0]
    return found


def _plain(field: str) -> str:
    for code in ("\\040", "\\011", "\\012", "\\134"):
        field = field.replace(code, chr(int(code[1:], 8)))
    return field
