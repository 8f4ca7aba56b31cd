"""Runs the tasks: a real agent with its usual limits and policy, one run after the other."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from brida import Agent, Model
from brida.runtime.outcome import Outcome
from brida.tools.builtin import builtin_tools
from brida.tools.declare import Tool
from evaluation.scoring import Called, Defaults, Score, score
from evaluation.tasks import Task, lay_out

READING: Final = ("get_time", "read_file", "list_files", "search_text", "file_info")
"""The tools that the tasks are about, in the order in which the model is told of them."""

FEW: Final = 2
"""How many tools an agent has where it has few: the right ones, then others in order."""

Choice: TypeAlias = Literal["few", "all"]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one task in one language. ``seconds`` is the time worked."""

    task: Task
    language: str
    calls: tuple[Called, ...]
    score: Score
    stop: str
    turns: int
    seconds: float


def measure(
    tasks: Sequence[Task], languages: Sequence[str], choice: Choice, model: str | Model = "embedded"
) -> Iterator[Run]:
    """Each task in each language, as it is done; the sample project is in a temporary directory.

    Raises :class:`ConfigurationError` where the embedded model is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay_out(root)
        tools = reading_tools(root)
        for language in languages:
            for task in tasks:
                agent = Agent(model=model, tools=tools_for(task, tools, choice), language=language)
                yield run_of(task, language, agent.run_sync(task.texts[language]), defaults_of(tools))


def reading_tools(root: Path) -> dict[str, Tool]:
    """The reading tools by name, over the files in ``root``."""
    built_in = builtin_tools(root)
    return {name: built_in[name] for name in READING}


def tools_for(task: Task, tools: Mapping[str, Tool], choice: Choice) -> list[Tool]:
    """The tools that an agent has for ``task``, in the order of ``tools``."""
    if choice == "all":
        return list(tools.values())
    right = [expected.tool for expected in task.calls]
    kept = list(dict.fromkeys([*right, *tools]))[: max(FEW, len(set(right)))]
    return [tool for name, tool in tools.items() if name in kept]


def run_of(task: Task, language: str, outcome: Outcome, defaults: Defaults) -> Run:
    """The run as its outcome tells it; calls that were asked for and did not run count as well."""
    blocks = [
        block
        for message in outcome.messages
        for block in cast("list[Mapping[str, Any]]", message["content"])
        if block["type"] == "tool_use"
    ]
    calls = tuple(Called(block["name"], block["input"]) for block in blocks)
    marks = score(task, calls, defaults)
    return Run(task, language, calls, marks, outcome.stop.kind, outcome.turns, outcome.seconds)


def defaults_of(tools: Mapping[str, Tool]) -> Defaults:
    """The defaults of the parameters, as the schemas tell them."""
    return {name: _defaults(tool.input_schema) for name, tool in tools.items()}


def _defaults(schema: Mapping[str, Any]) -> dict[str, object]:
    properties = schema.get("properties", {})
    return {name: value["default"] for name, value in properties.items() if "default" in value}
