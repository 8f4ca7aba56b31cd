"""The files of settings: where they are, and what is in them."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from brida.core.prices import Prices
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.schema import checked
from brida.settings.values import Given, Layer, Source

NAME: Final = "brida.toml"
FILE_NAMES: Final = (NAME, "pyproject.toml")
"""The files of a project that can hold settings; in one directory the first counts."""

LARGEST: Final = 1 << 18
"""Bytes of a file; a larger one is refused."""

MOST_PARTS: Final = 32
_PART = r"""(?:"[^"\n]*+"|'[^'\n]*+'|(?<![\w-])[\w-]++)"""
_LONG_KEY = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}".encode())
"""A key of so many parts: the time and memory of Python's reader grow with the cube of their number."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One file: its settings by key, its agents and prices by name, and the digest of all of it.

    ``digest`` is the SHA-256 of the table as canonical JSON, so a comment or the order of the keys does
    not change it.
    """

    path: Path
    table: Mapping[str, object]
    digest: str
    layer: Layer
    agents: Mapping[str, Layer]
    prices: Mapping[str, Prices] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The directory that holds the file."""
        return self.path.parent


def user_path() -> Path:
    """Where the user's own file is, whether it is there or not.

    Not absolute where nobody knows the user's home: it is no file of the user then, since a project could
    have a folder of that name.
    """
    import platformdirs

    return platformdirs.user_config_path("brida") / NAME


def read_user_file(say: Say) -> SettingsFile | None:
    """The user's own file; None where there is none. Raises :class:`ConfigurationError`."""
    path = user_path()
    table = _brida_table(path, say) if path.is_absolute() else None
    return None if table is None else _file(path, table, say, is_project=False)


def find_project_file(start: Path, say: Say) -> SettingsFile | None:
    """The nearest file upwards from the directory ``start``; None where there is none.

    ``brida.toml`` counts before ``[tool.brida]`` of ``pyproject.toml`` beside it. The user's own file is
    no project's. Raises :class:`ConfigurationError` for one that cannot be read or makes no sense.
    """
    own = _identity(user_path())
    for path in _candidates(start):
        is_own = own is not None and _identity(path) == own
        if not is_own and (file := read_project_file(path, say)) is not None:
            return file
    return None


def read_project_file(path: Path, say: Say) -> SettingsFile | None:
    """The settings in a project's file; None where there are none. Raises :class:`ConfigurationError`."""
    table = _brida_table(path, say)
    return None if table is None else _file(path, table, say, is_project=True)


def _candidates(start: Path) -> Iterator[Path]:
    for directory in (start, *start.parents):
        yield from (directory / name for name in FILE_NAMES)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _brida_table(path: Path, say: Say) -> dict[str, object] | None:
    """The table of settings in a file; None where there is no file or it has none."""
    data = _content(path, say)
    if data is None or (path.name != NAME and b"brida" not in data):
        return None
    table: object = _parsed(path, data, say)
    if path.name != NAME:
        for name in ("tool", "brida"):
            table = table.get(name) if isinstance(table, dict) else None
        if table is not None and not isinstance(table, dict):
            raise ConfigurationError(say("{file}: tool.brida should be a table of settings", file=path))
    return table if isinstance(table, dict) else None


def _content(path: Path, say: Say) -> bytes | None:
    """The bytes of a regular file; never blocks on a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, say) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, say("it is no regular file"), say)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _unreadable(path, error, say) from error
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        if path.name != NAME and b"brida" not in data:
            return None
        raise _unreadable(path, say("it has more than {limit:,} bytes", limit=LARGEST), say)
    return data


def _parsed(path: Path, data: bytes, say: Say) -> dict[str, Any]:
    import tomllib

    if _LONG_KEY.search(data):
        raise _unreadable(path, say("a key in it has more than {limit} parts", limit=MOST_PARTS), say)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _unreadable(path, say("it is not UTF-8"), say) from error
    except RecursionError as error:
        raise _unreadable(path, say("it is nested too deeply"), say) from error
    except ValueError as error:  # its text names the line
        raise ConfigurationError(say("{file} is no valid TOML: {why}", file=path, why=error)) from error


def _unreadable(path: Path, why: object, say: Say) -> ConfigurationError:
    reason = os.strerror(why.errno) if isinstance(why, OSError) and why.errno else why
    return ConfigurationError(say("{file} cannot be read: {why}", file=path, why=reason))


def _file(path: Path, table: dict[str, object], say: Say, *, is_project: bool) -> SettingsFile:
    values = checked(table, str(path), say)
    described: Mapping[str, Mapping[str, object]] = values.pop("agents", None) or {}
    priced: Mapping[str, Mapping[str, Any]] = values.pop("prices", None) or {}
    directory = path.parent
    source = Source("project" if is_project else "user", str(path), directory, is_project)
    return SettingsFile(
        path=path,
        table=table,
        digest=digest(table),
        layer=_layer(values, source),
        agents={
            name: _layer(of_agent, Source("agent", f"{path} [agents.{name}]", directory, is_project))
            for name, of_agent in described.items()
        },
        prices={
            name: Prices.of(source=str(path), **{key: one for key, one in of.items() if key != "currency"})
            for name, of in priced.items()
        },
    )


def _layer(values: Mapping[str, object], source: Source) -> Layer:
    return {key: Given(value, source) for key, value in flat(values)}


def flat(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The settings of nested tables, each with its whole key."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", item) for inner, item in flat(value))
        else:
            yield name, value


def digest(table: Mapping[str, object]) -> str:
    """SHA-256 of a table as canonical JSON."""
    text = json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
