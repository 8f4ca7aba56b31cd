"""A value of a setting and where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

SourceKind: TypeAlias = Literal["default", "user", "project", "variable", "flag", "agent", "journal"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was written.

    ``name`` is what a person is shown: a path, a variable, a flag. ``directory``: where an ``@file`` and
    the modules of ``tools`` are looked for. ``confined``: whether an ``@file`` must lie inside it.
    """

    kind: SourceKind
    name: str
    directory: Path | None = None
    confined: bool = False

    def __str__(self) -> str:
        return self.name


DEFAULT = Source("default", "default")


@dataclass(frozen=True, slots=True)
class Given:
    """A value and its source."""

    value: object
    source: Source


Layer: TypeAlias = Mapping[str, Given]
"""What one source says: the keys of the table that it gives."""
