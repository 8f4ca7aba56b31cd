"""Everything that was said about settings, read from where it is said."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from brida.core.prices import Prices
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.pricing import package_prices
from brida.settings.files import SettingsFile, find_project_file, read_user_file
from brida.settings.merge import Effective, Ignored, Layers, Project
from brida.settings.schema import nearest, shown
from brida.settings.trust import TrustStore
from brida.settings.values import Given, Layer, Source
from brida.settings.variables import read_variables
from brida.texts.catalogue import N_

WHY_NO_PRICE: Final = N_("a project's file only prices models that nobody else knows, and above zero")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files that were found, and the layers of all sources."""

    user_file: SettingsFile | None
    layers: Layers

    @property
    def project(self) -> Project | None:
        """The project's file, if there is one."""
        return self.layers.project

    def prices(self) -> dict[str, Prices]:
        """What models cost, by name: as the user's file says, and the project's of models nobody else knows.

        A project's file comes with a folder, so it may not make a known model cheaper, nor any free.
        """
        own = dict(self.user_file.prices) if self.user_file is not None else {}
        theirs = self.project.file.prices if self.project is not None else {}
        refused = self.ignored_prices()
        return {**{name: one for name, one in theirs.items() if name not in refused}, **own}

    def ignored_prices(self) -> list[str]:
        """The models that a project's file prices and may not."""
        return [] if self.project is None else refused_prices(self.project.file, self.user_file)

    def ignored_agents(self) -> list[Ignored]:
        """The agents of a project's file that is not trusted."""
        if self.project is None or self.project.state == "trusted":
            return []
        source = Source("project", str(self.project.file.path))
        return [
            Ignored(f"agents.{name}", Given(None, source), self.project.state)
            for name in self.project.file.agents
        ]

    def described(self, name: str, say: Say) -> Layers:
        """The layers with the agent ``name`` that a file describes in place of what an agent is by default.

        A trusted project's agent goes before one of the user's file. Raises :class:`ConfigurationError`
        where there is none, or where it is described in a file that is not trusted.
        """
        project = self.layers.project
        theirs: Mapping[str, Layer] = project.file.agents if project is not None else {}
        ours: Mapping[str, Layer] = self.user_file.agents if self.user_file is not None else {}
        trusted = project is not None and project.state == "trusted"
        if name in theirs and trusted:
            return replace(self.layers, agent=theirs[name], agent_is_the_projects=True)
        if name in ours:
            return replace(self.layers, agent=ours[name])
        if name in theirs and project is not None:
            raise ConfigurationError(
                say(
                    "--agent: {name} is described in {file}, which is not trusted; brida trust shows what it "
                    "would do and asks",
                    name=name,
                    file=project.file.path,
                )
            )
        known = [*ours, *(theirs if trusted else ())]
        if close := nearest(name, known):
            raise ConfigurationError(
                say("--agent: there is no agent {name}; did you mean {nearest}?", name=name, nearest=close[0])
            )
        raise ConfigurationError(
            say(
                "--agent: there is no agent {name}; the settings describe: {known}. One of your own code is "
                "MODULE:NAME",
                name=name,
                known=", ".join(known) or "-",
            )
        )


def may_price(name: str, prices: Prices) -> bool:
    """Whether a project's file may say so: the model is known nowhere else, and it costs something."""
    return package_prices(name) is None and all(tier.input > 0 and tier.output > 0 for tier in prices.tiers)


def refused_prices(file: SettingsFile, user_file: SettingsFile | None) -> list[str]:
    """The models that a project's file prices and may not; one that the user's file prices alike is none."""
    ours = {} if user_file is None else user_file.prices
    return [
        name
        for name, one in file.prices.items()
        if (ours[name].tiers != one.tiers if name in ours else not may_price(name, one))
    ]


def refused_prices_line(file: SettingsFile, names: list[str], say: Say) -> str:
    """What is said of the models that a project's file may not price."""
    models = ", ".join(shown(name) for name in names)
    words = "{file} may not say what {models} costs: {why}"
    return say(words, file=file.path, models=models, why=say(WHY_NO_PRICE))


def load(root: Path, flags: Layer, say: Say) -> Loaded:
    """Reads the user's file, the project's file upwards from ``root``, and the variables.

    Raises :class:`ConfigurationError`.
    """
    user_file, file = read_user_file(say), find_project_file(root, say)
    project = None if file is None else Project(file, TrustStore.of_user(say).state(file))
    return Loaded(
        user_file,
        Layers(
            user={} if user_file is None else user_file.layer,
            project=project,
            variables=read_variables(os.environ, say),
            flags=flags,
        ),
    )


def what_is_ignored(effective: Effective, loaded: Loaded, say: Say) -> list[str]:
    """The lines that a person should read before a run: what does not count though a file says it."""
    lines, project = [], loaded.project
    ignored = [*effective.ignored, *loaded.ignored_agents()]
    keys = ", ".join(one.key for one in ignored if one.for_want_of_trust)
    if project is not None and keys:
        lines.append(
            say(
                "{file} has changed since it was trusted; ignored: {keys}; brida trust shows it and asks",
                file=project.file.path,
                keys=keys,
            )
            if project.state == "changed"
            else say(
                "{file} is not trusted; ignored: {keys}; brida trust shows it and asks",
                file=project.file.path,
                keys=keys,
            )
        )
    if project is not None and (refused := loaded.ignored_prices()):
        lines.append(refused_prices_line(project.file, refused, say))
    lines += [
        say(
            "closing_reply is off: {file} lowers max_tokens_total to no more than it takes",
            file=effective.values[one.key].source,
        )
        for one in effective.ignored
        if one.why == "closing"
    ]
    return lines
