"""Whether the calls of a run were the right ones."""

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evaluation.tasks import Expected, Task

Defaults: TypeAlias = Mapping[str, Mapping[str, object]]
"""The defaults of every tool's parameters, by the tool's name."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call that the model asked for."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Score:
    """``tool``: every right tool was asked for. ``arguments``: with the right arguments as well.
    ``exact``: and nothing else was asked for; the same right call again is not held against it.

    Where no call is right, all three say whether none was made.
    """

    tool: bool
    arguments: bool
    exact: bool


def score(task: Task, calls: Sequence[Called], defaults: Defaults) -> Score:
    """The score of a run that made ``calls``, whatever became of them."""
    if not task.calls:
        return Score(not calls, not calls, not calls)
    wanted = Counter(expected.tool for expected in task.calls)
    tool = wanted <= Counter(call.tool for call in calls)
    arguments = all(any(is_right(one, call, defaults) for call in calls) for one in task.calls)
    exact = arguments and all(any(is_right(one, call, defaults) for one in task.calls) for call in calls)
    return Score(tool, arguments, exact)


def is_right(expected: Expected, call: Called, defaults: Defaults) -> bool:
    """Whether ``call`` is the expected one."""
    if call.tool != expected.tool:
        return False
    usual = defaults[call.tool]
    for name in {*expected.arguments, *call.arguments} - expected.free:
        right = expected.arguments[name] if name in expected.arguments else (usual.get(name),)
        if _plain(name, call.arguments.get(name, usual.get(name))) not in [
            _plain(name, one) for one in right
        ]:
            return False
    return True


def _plain(name: str, value: object) -> object:
    """The value without what makes no difference: ``./docs/`` is ``docs``."""
    return posixpath.normpath(value) if name == "path" and isinstance(value, str) and value else value
