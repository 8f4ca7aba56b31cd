"""From flags to an agent: what every command that runs one begins with."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from brida.cli.flags import Flags
from brida.core.events import Started
from brida.core.prices import MILLION, Prices
from brida.errors import ConfigurationError
from brida.settings.load import Loaded, load, what_is_ignored
from brida.settings.merge import Effective, merged
from brida.settings.record import Recorded, record_of, recorded
from brida.settings.schema import nearest
from brida.texts.catalogue import Catalogue, choose_language

if TYPE_CHECKING:
    from brida.agent import Agent
    from brida.approval.answers import Approver


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen: the settings that count, and the agent made in code that they change, if any."""

    root: Path
    loaded: Loaded
    effective: Effective
    base: "Agent | None"
    reference: str

    @property
    def language(self) -> str:
        """The language to speak: the chosen one, else that of the locale."""
        chosen = self.effective.value("language")
        return choose_language(chosen if isinstance(chosen, str) else None, os.environ)


def choose(flags: Flags, say: Catalogue) -> Choice:
    """What a run with these flags would use. Imports the module of ``--agent``, and nothing else.

    Raises :class:`ConfigurationError`, also for variables that mean nothing.
    """
    root = flags.directory(say)
    loaded = load(root, flags.layer(root), say)
    base, layers = None, loaded.layers
    if flags.agent is not None and ":" in flags.agent:
        from brida.settings.coded import coded_agent, layer_of

        with redirect_stdout(sys.stderr or io.StringIO()):  # what a module prints is no answer of ours
            base = coded_agent(flags.agent, root, say)
        layers = replace(layers, agent=layer_of(base, flags.agent))
    elif flags.agent is not None:
        layers = loaded.described(flags.agent, say)
    return Choice(root, loaded, merged(layers), base, flags.agent or "")


def make_agent(
    flags: Flags,
    say: Catalogue,
    tell: Callable[[str], None],
    approve: "Callable[[Catalogue], Approver | None]",
) -> "Agent":
    """The agent that the flags, the variables and the files of settings describe.

    ``say`` speaks until the language is known; the agent's is ``agent.language``, and ``approve`` makes
    its approver in that language; an agent made in code keeps its own. ``tell`` is told what a person
    should know: the model, what is ignored and why. Raises :class:`ConfigurationError`, naming where the
    wrong value was written; nothing has run then but the modules that were named.
    """
    from brida.agent import Agent
    from brida.settings.build import Builder

    choice = choose(flags, say)
    say = Catalogue.for_language(choice.language)
    for line in what_is_ignored(choice.effective, choice.loaded, say):
        tell(line)
    base = choice.base
    prices = choice.loaded.prices()
    arguments = Builder(choice.effective, choice.root, say, tell, base, prices).arguments()
    tools = arguments.get("tools", () if base is None else base.tools.values())
    names = [one.name for one in tools]
    yes_to = _yes_to(flags, names, say)
    _check_rules(choice.effective, names, say)
    if base is None:
        arguments |= {"language": say.language, "approve": approve(say), "yes_to": yes_to}
        agent = Agent(**arguments)
    else:
        arguments["yes_to"] = yes_to | (base.yes_to & set(names))
        agent = base.replaced(approve=base.approve or approve(say), **arguments)
    agent.settings = record_of(agent, choice.effective, choice.root, flags.agent)
    if (said := agent.prices.get(agent.model.name)) is not None:
        tell(_price_line(agent.model.name, said, say))
    return agent


def _price_line(model: str, prices: Prices, say: Catalogue) -> str:
    """Where a price is from that is not the package's."""
    first = prices.tiers[0]
    return say(
        "{model} costs ${input} in and ${output} out a million tokens ({source})",
        model=model,
        input=say.decimal(float(first.input * MILLION), 2),
        output=say.decimal(float(first.output * MILLION), 2),
        source=prices.source,
    )


def agent_of_record(
    started: Started,
    flags: Flags,
    say: Catalogue,
    tell: Callable[[str], None],
    approve: "Callable[[Catalogue], Approver | None]",
) -> "Agent":
    """The agent that a run of the journal was begun with; the flags lie over what was recorded.

    Raises :class:`ConfigurationError` where code began the run and ``--agent`` does not say which.
    """
    from brida.agent import Agent
    from brida.settings.build import Builder
    from brida.settings.coded import coded_agent

    if started.settings is None:
        return _agent_of_code(flags, say, approve)
    kept = recorded(started.settings, say).with_flags(flags.settings)
    reference = flags.agent or kept.reference
    coded = reference if reference is not None and ":" in reference else None
    with redirect_stdout(sys.stderr or io.StringIO()):  # what a module prints is no answer of ours
        base = None if coded is None else coded_agent(coded, kept.root, say)
        arguments = Builder(kept.effective, kept.root, say, tell, base, _prices(kept, flags, say)).arguments()
    arguments |= {"yes_to": {*kept.yes_to, *flags.yes_to}, "system": kept.system}
    if base is None:
        agent = Agent(**{**arguments, "approve": approve(say)})
    else:
        agent = base.replaced(**{**arguments, "approve": base.approve or approve(say)})
    agent.settings = started.settings
    return agent


def _prices(kept: Recorded, flags: Flags, say: Catalogue) -> dict[str, Prices]:
    """What models cost: as the run began, and as the files say today of those that it did not know."""
    return {**load(kept.root, flags.layer(kept.root), say).prices(), **kept.prices}


def _agent_of_code(
    flags: Flags, say: Catalogue, approve: "Callable[[Catalogue], Approver | None]"
) -> "Agent":
    if flags.agent is None or ":" not in flags.agent:
        raise ConfigurationError(say("code began this run: name its agent with --agent MODULE:NAME"))
    from brida.settings.coded import coded_agent

    with redirect_stdout(sys.stderr or io.StringIO()):
        base = coded_agent(flags.agent, flags.directory(say), say)
    return base.replaced(approve=base.approve or approve(say))


def _check_rules(effective: Effective, names: list[str], say: Catalogue) -> None:
    """A rule of a flag whose name is nearly that of a tool is a slip, and would protect nothing."""
    for key, given in effective.rules_given:
        pattern = str(given.value)
        if given.source.kind != "flag" or not key.startswith("policy.") or pattern in names:
            continue
        if close := nearest(pattern, names):
            raise ConfigurationError(
                say(
                    "{flag}: there is no tool named {name}; did you mean {nearest}?",
                    flag=given.source.name,
                    name=pattern,
                    nearest=close[0],
                )
            )


def _yes_to(flags: Flags, names: list[str], say: Catalogue) -> frozenset[str]:
    """The tools whose questions are answered in advance; each must be there."""
    for name in flags.yes_to:
        if name not in names:
            raise ConfigurationError(
                say(
                    "--yes-to: there is no tool named {name}; the tools are: {known}",
                    name=name,
                    known=", ".join(names) or "-",
                )
            )
    return frozenset(flags.yes_to)
