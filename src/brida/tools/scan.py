"""Going through the files of the project directory, with a count of what was left out and why."""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.tools.context import running_call
from brida.tools.folders import Folder, Kind
from brida.tools.ignored import IGNORE_FILE, IGNORE_MOST, Ignored
from brida.tools.output import ToolError
from brida.tools.paths import PathRefused, folder_of, where_inside
from brida.tools.spelling import is_secret, shown

DEEPEST: Final = 40
"""How many directories below each other are gone into; each keeps two descriptors open."""


@dataclass(slots=True)
class LeftOut:
    """How many of each kind were left out; what is in a directory that was left out is not counted."""

    ignored: int = 0
    secret: int = 0
    binary: int = 0
    links: int = 0
    outside: int = 0
    special: int = 0
    unreadable: int = 0
    deep: int = 0

    def said(self, say: Say) -> str:
        """``[left out: 12 ignored, 2 binary]``; nothing where nothing was."""
        kinds = (
            (self.ignored, say("{count:,} ignored", count=self.ignored)),
            (self.binary, say("{count:,} binary", count=self.binary)),
            (self.secret, say("{count:,} that may hold secrets", count=self.secret)),
            (self.links, say("{count:,} behind a link", count=self.links)),
            (self.outside, say("{count:,} outside the project directory", count=self.outside)),
            (self.special, say("{count:,} neither file nor directory", count=self.special)),
            (self.unreadable, say("{count:,} that cannot be read", count=self.unreadable)),
            (self.deep, say("{count:,} too deep", count=self.deep)),
        )
        found = ", ".join(text for count, text in kinds if count)
        return say("[left out: {what}]", what=found) if found else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a directory. ``names`` lead to it from the root; ``folder`` is open for the moment."""

    names: tuple[str, ...]
    kind: Kind
    folder: Folder

    @property
    def path(self) -> str:
        """From the root, with slashes."""
        return "/".join(self.names)


@dataclass(slots=True)
class Scan:
    """One way through the directory, or to the one file, that ``path`` leads to.

    ``start`` holds the names that lead there. What a name on that way says of secrets was decided before
    the call; below it, secret files are left out, unless the way itself led through such a name. Ignored
    files are left out below ``start``; where it is ignored itself, it was asked for by name, and the rules
    above it do not count.
    """

    root: Path
    path: str
    say: Say
    left: LeftOut = field(default_factory=LeftOut)
    start: tuple[str, ...] = ()
    is_directory: bool = True

    def __post_init__(self) -> None:
        self.start, self.is_directory = where_inside(self.root, self.path, say=self.say)

    def entries(self, *, below: bool) -> Generator[Entry, None, None]:
        """All that is there, by name; ``below``: in directories below as well, each right after its name.

        Close the iterator (``contextlib.closing``). Raises :class:`PathRefused` where ``path`` cannot be
        opened, :class:`ToolError` where the call was cancelled; what cannot be read below is left out.
        """
        way = self.start if self.is_directory else self.start[:-1]
        folder, ignored = self._descend(way)
        try:
            if not self.is_directory:
                yield Entry(self.start, "file", folder)
                return
            yield from self._inside(folder, ignored, below)
        finally:
            folder.close()

    def _descend(self, way: tuple[str, ...]) -> tuple[Folder, Ignored]:
        try:
            folder = folder_of(self.root)
            ignored = _with_rules(folder, Ignored())
            for number, name in enumerate(way):
                try:
                    following = folder.folder(name)
                finally:
                    folder.close()
                folder = following
                if ignored(way[: number + 1], directory=True):
                    ignored = Ignored()
                ignored = _with_rules(folder, ignored)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PathRefused(
                self.say("{path} cannot be used: {reason}", path=shown(self.path), reason=reason)
            ) from error
        return folder, ignored

    def _inside(self, folder: Folder, ignored: Ignored, below: bool) -> Generator[Entry, None, None]:
        call = running_call()
        with_secrets = any(map(is_secret, self.start))
        try:
            for name, kind in folder.entries():
                if call is not None and call.cancelled.is_set():
                    raise ToolError(self.say("the call was cancelled"))
                entry = Entry((*folder.names, name), kind, folder)
                if ignored(entry.names, directory=kind == "directory"):
                    self.left.ignored += 1
                elif not with_secrets and is_secret(name):
                    self.left.secret += 1
                elif kind == "other":
                    self.left.special += 1
                else:
                    yield entry
                    if below and kind == "directory":
                        yield from self._into(entry, ignored)
        except OSError:
            self.left.unreadable += 1

    def _into(self, entry: Entry, ignored: Ignored) -> Generator[Entry, None, None]:
        if len(entry.names) - len(self.start) >= DEEPEST:
            self.left.deep += 1
            return
        try:
            folder = entry.folder.folder(entry.names[-1])
        except OSError:
            self.left.unreadable += 1
            return
        try:
            yield from self._inside(folder, _with_rules(folder, ignored), below=True)
        finally:
            folder.close()


def _with_rules(folder: Folder, ignored: Ignored) -> Ignored:
    """The rules that count in ``folder``; a file of rules that cannot be read has none."""
    try:
        with folder.open(IGNORE_FILE) as file:
            return ignored.below(folder.names, file.read(IGNORE_MOST))
    except OSError:
        return ignored
