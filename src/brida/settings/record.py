"""What a journal keeps of the settings of a run, so that it can be resumed with no flag repeated.

What is recorded came from the person who began the run, so it counts as a whole; today's files and
variables do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from brida.core.codec import build, plain
from brida.core.prices import Prices
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.merge import Effective
from brida.settings.table import BY_KEY, SETTINGS
from brida.settings.values import DEFAULT, Given, Layer, Source

if TYPE_CHECKING:
    from brida.agent import Agent

VERSION: Final = 1
NOT_KEPT: Final = ("system", "model", "base_url", "journal", "language")
"""Settings of which the agent says more than the table: what they came to is kept instead."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run was begun with. ``system``: the prompt itself; ``reference``: that of ``--agent``;
    ``prices``: what models cost, as was said.
    """

    root: Path
    reference: str | None
    yes_to: tuple[str, ...]
    system: str | None
    effective: Effective
    prices: Mapping[str, Prices] = field(default_factory=dict)

    def with_flags(self, flags: Layer) -> "Recorded":
        """What counts where these flags are given besides."""
        values = {**self.effective.values, **flags}
        effective = Effective(
            values, self.effective.rules_given, self.effective.ignored, self.effective.only_tightening
        )
        return replace(self, effective=effective)


def record_of(agent: "Agent", effective: Effective, root: Path, reference: str | None) -> dict[str, Any]:
    """The record of an agent that was made of these settings, as JSON."""
    came_to = {"model": agent.model.name, "base_url": agent.model.base_url, "language": agent.language}
    values = {
        key: {
            "value": list(given.value) if isinstance(given.value, tuple) else given.value,
            "agent": given.source.kind == "agent",
            "directory": None if given.source.directory is None else str(given.source.directory),
        }
        for key, given in effective.values.items()
        if key not in NOT_KEPT
    }
    own = {key: effective.values[key].source.kind == "agent" for key in came_to}
    values |= {key: {"value": value, "agent": own[key], "directory": None} for key, value in came_to.items()}
    rules = [
        {
            "key": key,
            "pattern": given.value,
            "source": given.source.name,
            "only_tightens": given.source.kind in effective.only_tightening,
        }
        for key, given in effective.rules_given
    ]
    return {
        "version": VERSION,
        "root": str(root),
        "agent": reference,
        "yes_to": sorted(agent.yes_to),
        "secrets": list(agent.secrets),
        "system": agent.system,
        "values": values,
        "rules": rules,
        "prices": {name: plain(prices) for name, prices in agent.prices.items()},
    }


def secrets_of(record: Mapping[str, object] | None) -> tuple[str, ...]:
    """The variables that a run's record declares secret, those of its code among them; () without one.

    For whoever writes into the run without making its agent.
    """
    names = [] if record is None else record.get("secrets")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def recorded(record: Mapping[str, object], say: Say) -> Recorded:
    """What the record says. Raises :class:`ConfigurationError` where it is none that this brida can read."""
    try:
        return _recorded(cast("Any", record))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = say(
            "the settings in the journal cannot be read: {why}", why=f"{type(error).__name__}: {error}"
        )
        raise ConfigurationError(words) from error


def _recorded(record: Any) -> Recorded:
    if record["version"] != VERSION:
        raise ValueError(f"version {record['version']}")
    values = {row.key: Given(row.default, DEFAULT) for row in SETTINGS if not row.is_rule}
    for key, kept in record["values"].items():
        directory = None if kept["directory"] is None else Path(kept["directory"])
        source = Source("agent" if kept["agent"] else "journal", "the journal", directory)
        values[BY_KEY[key].key] = Given(_value(kept["value"]), source)
    rules = tuple(
        (
            BY_KEY[rule["key"]].key,
            Given(rule["pattern"], Source("project" if rule["only_tightens"] else "journal", rule["source"])),
        )
        for rule in record["rules"]
    )
    effective = Effective(values, rules, (), frozenset({"project"}))
    return Recorded(
        Path(record["root"]),
        record["agent"],
        tuple(record["yes_to"]),
        record["system"],
        effective,
        {name: cast("Prices", build(Prices, kept)) for name, kept in record.get("prices", {}).items()},
    )


def _value(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
