"""An agent made in code, and what it says about settings."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from brida.core.limits import Limits
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.build import cannot_be_used, imported
from brida.settings.values import Given, Layer, Source

if TYPE_CHECKING:
    from brida.agent import Agent

FLAG = "--agent"


def coded_agent(reference: str, root: Path, say: Say) -> "Agent":
    """The agent that ``module:name`` names: an :class:`brida.Agent`, or a function that gives one.

    The module is looked for in the project directory first. Raises :class:`ConfigurationError` naming
    what is wrong.
    """
    from brida.agent import Agent

    found = imported(reference, root, FLAG, say)
    if not isinstance(found, Agent) and callable(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise cannot_be_used(reference, error, FLAG, say) from error
    if not isinstance(found, Agent):
        raise ConfigurationError(
            say(
                "--agent: {reference} is a {kind}; expected a brida.Agent, or a function without arguments "
                "that gives one",
                reference=reference,
                kind=type(found).__name__,
            )
        )
    return found


def layer_of(agent: "Agent", reference: str) -> Layer:
    """What the agent says about each setting; its rules stay with its policy."""
    limits = {
        f"limits.{one.name}": getattr(agent.limits, one.name)
        for one in fields(Limits)
        if one.name != "max_cost"
    }
    cost = agent.limits.cost
    values: Mapping[str, object] = {
        "model": agent.model.name,
        "base_url": agent.model.base_url,
        "system": agent.system,
        "language": agent.language,
        "tools": tuple(agent.tools),
        "max_tokens": agent.max_tokens,
        "stop_sequences": agent.stop_sequences,
        "policy.default": agent.policy.default,
        "on_ask": agent.on_ask,
        "approval_ttl": agent.approval_ttl,
        "cache": agent.cache,
        **limits,
        "limits.max_cost": None if cost is None else float(cost),
    }
    source = Source("agent", f"{FLAG} {reference}")
    return {key: Given(value, source) for key, value in values.items()}


def rules_of(agent: "Agent", reference: str) -> list[tuple[str, Given]]:
    """The agent's own rules, each with the key of its tier, and the secrets that it declares."""
    source = Source("agent", f"{FLAG} {reference}")
    return [
        *(
            (f"policy.{rule.tier}", Given(rule.pattern, Source("agent", f"{source}: {rule.source}")))
            for rule in agent.policy.rules
        ),
        *(("secrets", Given(name, source)) for name in agent.secrets),
        *(("budgets", Given(name, source)) for name in agent.budgets),
    ]
