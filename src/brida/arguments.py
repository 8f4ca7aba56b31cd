"""What an agent takes, checked: a setting that makes no sense is refused before anything runs."""

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from brida.core.encoding import encode
from brida.core.limits import Limits
from brida.core.prices import Prices
from brida.core.request import RESERVED
from brida.core.valves import GATE_NAMES, GateName, Valve
from brida.errors import ConfigurationError
from brida.models.base import Model
from brida.texts.catalogue import choose_language
from brida.tools.declare import Tool
from brida.tools.declare import tool as declare
from brida.tools.text import clean

if TYPE_CHECKING:
    from pydantic import BaseModel

    from brida.journal.base import Journal


def language_of(language: str | None) -> str:
    """The language that is meant: the one given, else that of the locale."""
    try:
        return choose_language(language, os.environ)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def checked_model(model: Model) -> Model:
    """The model, where it is one."""
    if not callable(getattr(model, "complete", None)):
        raise ConfigurationError(f"model: expected a name or a Model, got {type(model).__name__}")
    return model


def tools_by_name(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """The tools by name; plain functions become undeclared tools."""
    named: dict[str, Tool] = {}
    for given in [tools] if callable(tools) else tools:
        made = given if isinstance(given, Tool) else declare(given)
        if made.name in named:
            raise ConfigurationError(f"tools: two tools are named {made.name!r}; names must be unique")
        named[made.name] = made
    return named


def checked_text(name: str, value: object) -> str:
    """The text, with what no request can hold taken out."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}: expected a text, got {type(value).__name__}")
    return clean(value)


def tools_of_yes_to(names: Iterable[str], tools: Mapping[str, Tool]) -> frozenset[str]:
    """The names, where each is that of a tool."""
    wanted = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in tools]
    if unknown:
        known = ", ".join(tools) or "none"
        raise ConfigurationError(f"yes_to: there is no tool named {unknown[0]!r}; the tools are {known}")
    return frozenset(wanted)


def system_of(system: str | None) -> str | None:
    """The system prompt; a blank one is none, since the API refuses it."""
    text = "" if system is None else checked_text("system", system)
    return text if text.strip() else None


def checked_stop_sequence(text: object) -> str:
    """A text that is not blank."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"stop_sequences: expected texts that are not blank, got {text!r}")
    return text


def positive(name: str, value: object) -> int:
    """A whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name}: expected a whole number of at least 1, got {value!r}")
    return value


def seconds_or_none(name: str, value: object) -> float | None:
    """A number of seconds above 0, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigurationError(f"{name}: expected a number of seconds above 0, or None, got {value!r}")
    return float(value)


def checked_extra(extra: Mapping[str, object]) -> Mapping[str, object]:
    """A copy of the fields, where JSON has their values and the loop does not own them."""
    taken = sorted(set(extra) & set(RESERVED))
    if taken:
        raise ConfigurationError(f"extra: {taken[0]!r} is set by brida itself; use the argument of that name")
    try:
        encode(dict(extra))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"extra: expected values that JSON has: {error}") from error
    return copy.deepcopy(dict(extra))


def checked_valves(valves: Mapping[GateName, Iterable[Valve]]) -> dict[GateName, tuple[Valve, ...]]:
    """The valves by gate."""
    given = {name: (extra,) if callable(extra) else tuple(extra) for name, extra in valves.items()}
    for name, extra in given.items():
        if name not in GATE_NAMES:
            raise ConfigurationError(f"valves: {name!r} is no gate; the gates are {', '.join(GATE_NAMES)}")
        if not all(callable(valve) for valve in extra):
            raise ConfigurationError(f"valves[{name!r}]: expected callables")
    return given


def check_closing_reply(limits: Limits, extra: Mapping[str, object]) -> None:
    """The API takes no request whose reply is no longer than what it may think."""
    thinking = extra.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    if limits.closing_reply is not None and isinstance(budget, int) and limits.closing_reply <= budget:
        raise ConfigurationError(
            f"closing_reply: {limits.closing_reply} is no more than the {budget} tokens of "
            "extra['thinking']['budget_tokens']; the API refuses such a request"
        )


def task_of(task: object) -> str:
    """A text that says what to do."""
    text = checked_text("task", task)
    if not text.strip():
        raise ConfigurationError("task: expected a text that says what to do, got a blank one")
    return text


def journal_of(journal: "str | Path | Journal | None") -> "Journal | None":
    """The journal; of a path, the one in that file."""
    if not isinstance(journal, str | Path):
        return journal
    from brida.journal.sqlite import SqliteJournal

    return SqliteJournal(Path(journal))


def budgets_of(budgets: Iterable[str], journal: "Journal | None") -> tuple[str, ...]:
    """The names of shared budgets, which need a journal that has them."""
    names = (budgets,) if isinstance(budgets, str) else tuple(budgets)
    if names and journal is None:
        raise ConfigurationError(f"budgets: {names[0]!r} is kept in a journal, and this agent has none")
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError(f"budgets: expected names, got {names!r}")
    return tuple(dict.fromkeys(names))


def prices_by_model(prices: Mapping[str, Prices]) -> dict[str, Prices]:
    """The prices by the name of their model."""
    for name, price in prices.items():
        if not isinstance(price, Prices):
            raise ConfigurationError(f"prices[{name!r}]: expected Prices, got {type(price).__name__}")
    return dict(prices)


def answer_fields(
    model: Model, output: "type[BaseModel]", extra: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The fields of a request that hold the model itself to a schema; None where it cannot be held."""
    hold = getattr(model, "answer_fields", None)
    return None if hold is None else cast("Mapping[str, object] | None", hold(output, extra))
