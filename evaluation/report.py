"""The runs as a table and as JSON."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from brida.core.encoding import encode
from brida.texts.terminal import escape
from evaluation.measure import Run

NAMES: Final = {"en": "English", "es": "Spanish", "pt": "Portuguese", "all": "all"}
WIDE: Final = 36

Mark: TypeAlias = Callable[[Run], bool | None]
"""Whether something holds for a run; None where the run does not count."""


def table(runs: Sequence[Run]) -> Iterator[str]:
    """The lines of the table: a column for each language, and one for all."""
    columns = _columns(runs)
    yield _row("", [NAMES[name] for name in columns])
    yield "-" * (WIDE + 12 * len(columns))
    yield _row("runs", [str(len(column)) for column in columns.values()])
    for name, marks in _rows(runs):
        shares = [
            _share([mark for run in column if (mark := marks(run)) is not None])
            for column in columns.values()
        ]
        yield _row(name, shares)
    yield _row("seconds a run", [f"{_mean(column):.2f}" for column in columns.values()])


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, Mark]]:
    """The rows that are shares, and what each asks of a run."""
    yield "right tool", lambda run: run.score.tool
    yield "right tool and arguments", lambda run: run.score.arguments
    yield "and nothing besides: right", lambda run: run.score.exact
    yield "  right in the tuning half", lambda run: run.score.exact if run.task.tuning else None
    yield "  right in the other half", lambda run: None if run.task.tuning else run.score.exact
    for kind in dict.fromkeys(run.task.kind for run in runs):
        yield f"  right, {kind}", partial(_right_about, kind)
    for stop in sorted({run.stop for run in runs}):
        yield f"stopped: {stop}", partial(_stopped_by, stop)


def _right_about(kind: str, run: Run) -> bool | None:
    return run.score.exact if run.task.kind == kind else None


def _stopped_by(stop: str, run: Run) -> bool:
    return run.stop == stop


def each(runs: Sequence[Run]) -> Iterator[str]:
    """A line for every run: whether it was right, what was asked for, how it ended."""
    for run in runs:
        calls = ", ".join(f"{call.tool}({encode(dict(call.arguments)).decode()})" for call in run.calls)
        mark = "right" if run.score.exact else "wrong"
        yield escape(f"{mark}  {run.language}  {run.task.id:<15}  {run.stop}  {calls or 'no call'}")


def as_json(runs: Sequence[Run], tools: str) -> dict[str, object]:
    """All of it; shares are between 0 and 1, None where there is nothing to share."""
    return {
        "tools": tools,
        "totals": {name: _totals(column) for name, column in _columns(runs).items()},
        "runs": [
            {
                "task": run.task.id,
                "kind": run.task.kind,
                "tuning": run.task.tuning,
                "language": run.language,
                "calls": [{"tool": call.tool, "arguments": dict(call.arguments)} for call in run.calls],
                "right_tool": run.score.tool,
                "right_arguments": run.score.arguments,
                "right": run.score.exact,
                "stop": run.stop,
                "turns": run.turns,
                "seconds": run.seconds,
            }
            for run in runs
        ],
    }


def _totals(runs: Sequence[Run]) -> dict[str, object]:
    return {
        "runs": len(runs),
        "right_tool": _ratio([run.score.tool for run in runs]),
        "right_arguments": _ratio([run.score.arguments for run in runs]),
        "right": _ratio([run.score.exact for run in runs]),
        "right_tuning": _ratio([run.score.exact for run in runs if run.task.tuning]),
        "right_other": _ratio([run.score.exact for run in runs if not run.task.tuning]),
        "stops": {stop: count / len(runs) for stop, count in Counter(run.stop for run in runs).items()},
        "seconds": _mean(runs),
    }


def _columns(runs: Sequence[Run]) -> dict[str, Sequence[Run]]:
    languages = dict.fromkeys(run.language for run in runs)
    columns: dict[str, Sequence[Run]] = {
        language: [run for run in runs if run.language == language] for language in languages
    }
    return columns if len(columns) == 1 else {**columns, "all": runs}


def _mean(runs: Sequence[Run]) -> float:
    return round(sum(run.seconds for run in runs) / len(runs), 3)


def _ratio(marks: Sequence[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None


def _share(marks: Sequence[bool]) -> str:
    ratio = _ratio(marks)
    return "-" if ratio is None else f"{ratio:.0%}"


def _row(name: str, columns: Sequence[str]) -> str:
    return f"{name:<{WIDE}}" + "".join(f"{column:>12}" for column in columns)
