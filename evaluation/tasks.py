"""The tasks and the sample project, read from the files beside this one."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LANGUAGES: Final = ("en", "es", "pt")
HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Expected:
    """A call that is right. ``arguments``: the values that will do, by name; ``free``: any value will do."""

    tool: str
    arguments: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    free: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, by language, and the calls that are right, in any order; none where no tool can help.

    ``tuning``: settings may be tried out on it. The others only judge what was tried.
    """

    id: str
    tuning: bool
    texts: Mapping[str, str]
    calls: tuple[Expected, ...]

    @property
    def kind(self) -> str:
        """The tool that it is about."""
        match self.calls:
            case ():
                return "no call"
            case (one,):
                return one.tool
            case _:
                return "two calls"


def load_tasks() -> tuple[Task, ...]:
    """Every task, in the order of the file."""
    tables = tomllib.loads((HERE / "tasks.toml").read_text(encoding="utf-8"))["task"]
    return tuple(_task(table) for table in tables)


def load_project() -> dict[str, str]:
    """The files of the sample project: path and content."""
    files = tomllib.loads((HERE / "project.toml").read_text(encoding="utf-8"))["files"]
    return {str(path): str(content) for path, content in files.items()}


def lay_out(root: Path) -> None:
    """Writes the sample project into ``root``."""
    for path, content in load_project().items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def _task(table: Mapping[str, Any]) -> Task:
    return Task(
        id=table["id"],
        tuning=table["tuning"],
        texts={language: table[language] for language in LANGUAGES},
        calls=tuple(_expected(call) for call in table["calls"]),
    )


def _expected(call: Mapping[str, Any]) -> Expected:
    arguments = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in call.get("arguments", {}).items()
    }
    return Expected(call["tool"], arguments, frozenset(call.get("free", ())))
