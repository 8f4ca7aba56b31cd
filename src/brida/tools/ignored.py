"""What ``.gitignore`` files leave out, by the rules of gitignore(5).

Only the files of the project directory count, those in its directories too: not the user's own, nor
``.git/info/exclude``. As git does, names are compared byte by byte and with their letter case.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from brida.tools.wildcards import name_fits, path_fits

IGNORE_FILE: Final = ".gitignore"
IGNORE_MOST: Final = 1 << 16
"""How many bytes of a file of rules are read: each name is held against all of them."""


@dataclass(frozen=True, slots=True)
class _Rule:
    fits: Callable[[Sequence[str]], bool]
    ignores: bool
    directories: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one file, the last first. ``depth``: how many names lead to its directory."""

    depth: int
    rules: tuple[_Rule, ...]

    @classmethod
    def read(cls, data: bytes, depth: int) -> "Rules":
        """The rules in ``data``; what is no rule says nothing."""
        lines = data[:IGNORE_MOST].removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
        found = [rule for line in lines if (rule := _rule(line))]
        return cls(depth, tuple(reversed(found)))

    def verdict(self, names: Sequence[str], *, directory: bool) -> bool | None:
        """Whether the path from the root is left out; None where no rule speaks of it."""
        below = names[self.depth :]
        for rule in self.rules:
            if (directory or not rule.directories) and rule.fits(below):
                return rule.ignores
        return None


@dataclass(slots=True)
class Ignored:
    """The rules that count in one directory: its own, and those of the directories above."""

    stack: tuple[Rules, ...] = field(default=())

    def below(self, names: Sequence[str], data: bytes | None) -> "Ignored":
        """The rules in the directory that ``names`` lead to, with ``data`` for its file of rules."""
        return self if data is None else Ignored((*self.stack, Rules.read(data, len(names))))

    def __call__(self, names: Sequence[str], *, directory: bool) -> bool:
        """Whether a path is left out whose directory is not."""
        if names[-1] == ".git":
            return True
        if not self.stack:
            return False
        as_bytes = [os.fsencode(name).decode("latin-1") for name in names]
        for rules in reversed(self.stack):
            verdict = rules.verdict(as_bytes, directory=directory)
            if verdict is not None:
                return verdict
        return False


def _rule(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    text = _trimmed(line.removesuffix("\r"))
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    directories = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    if "/" not in text:
        fits = name_fits(text)
        return _Rule(lambda names: fits(names[-1]), ignores, directories)
    return _Rule(path_fits(text.removeprefix("/")), ignores, directories)


def _trimmed(line: str) -> str:
    """Without the spaces at its end, but for one that a backslash stands before."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare
