"""``brida config``: every setting, its value, where it came from, and what does not count and why."""

import json
from collections.abc import Iterator
from typing import Any, Final

import click

from brida.cli.flags import Flags, in_full, setting_options
from brida.cli.making import Choice, choose
from brida.cli.screen import Screen
from brida.core.prices import Prices
from brida.pricing import per_million
from brida.settings.coded import rules_of
from brida.settings.files import user_path
from brida.settings.load import WHY_NO_PRICE, Loaded
from brida.settings.merge import WHY, Ignored
from brida.settings.schema import dotted, json_schema, without_password
from brida.settings.table import SETTINGS, Setting
from brida.settings.values import Given
from brida.texts.catalogue import N_, Catalogue
from brida.texts.terminal import escape

VERSION: Final = 1
"""The version of the object that ``brida config --json`` prints."""

STATES: Final = {
    "trusted": N_("trusted"),
    "changed": N_("changed since it was trusted: it can only tighten"),
    "never": N_("not trusted: it can only tighten"),
}


class _ConfigGroup(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, in_full(args))


def config_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``config`` with its own command ``schema``."""

    def config(**values: Any) -> int | None:
        if click.get_current_context().invoked_subcommand is not None:
            return None
        return show_settings(Flags.of(**values), say, screen, as_json=values["json"])

    def schema() -> int:
        screen.out(json.dumps(json_schema(), indent=2, ensure_ascii=True) + "\n")
        return 0

    group = _ConfigGroup(
        "config",
        callback=config,
        invoke_without_command=True,
        help=say("Shows every setting that a run with these flags would have, and where it came from."),
        options_metavar=say("[OPTIONS]"),
        subcommand_metavar=say("[COMMAND]"),
        params=[
            *setting_options(say),
            click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout.")),
        ],
    )
    words = say("Prints the JSON Schema of a file of settings, for editors.")
    group.add_command(click.Command("schema", callback=schema, help=words))
    return group


def show_settings(flags: Flags, say: Catalogue, screen: Screen, *, as_json: bool) -> int:
    """Prints the settings and gives the exit code. Raises :class:`ConfigurationError`."""
    choice = choose(flags, say)
    say = Catalogue.for_language(choice.language)
    if as_json:
        screen.json(as_object(choice))
    else:
        screen.out("\n".join(escape(line) for line in _lines(choice, say)) + "\n")
    return 0


def as_object(choice: Choice) -> dict[str, Any]:
    """What counts, as JSON has it; no password of an address is in it."""
    user, project = choice.loaded.user_file, choice.loaded.project
    return {
        "version": VERSION,
        "root": str(choice.root),
        "user_file": {"path": str(user_path()), "exists": user is not None},
        "project_file": None if project is None else {"path": str(project.file.path), "trust": project.state},
        "settings": [
            {"key": row.key, "value": without_password(given.value), "source": given.source.name}
            for row in SETTINGS
            for given in _all_of(row, choice)
        ],
        "ignored": [
            {
                "key": one.key,
                "value": without_password(one.given.value),
                "source": one.given.source.name,
                "why": WHY[one.why].format(by=one.by),
            }
            for one in (*choice.effective.ignored, *choice.loaded.ignored_agents())
        ]
        + [
            {"key": _price_key(name), "value": per_million(one), "source": one.source, "why": WHY_NO_PRICE}
            for name, one in _refused(choice.loaded)
        ],
        "prices": [
            {"model": without_password(name), **per_million(one), "source": one.source}
            for name, one in choice.loaded.prices().items()
        ],
    }


def _refused(loaded: Loaded) -> list[tuple[str, Prices]]:
    """What the project's file says that models cost, and may not."""
    theirs = {} if loaded.project is None else loaded.project.file.prices
    return [(name, theirs[name]) for name in loaded.ignored_prices()]


def _price_key(name: str) -> str:
    return dotted(("prices", str(without_password(name))))


def _price(name: str, prices: Prices) -> str:
    """What a model costs, as a file may write it, and the file."""
    each = ", ".join(f"{field} = {dollars}" for field, dollars in per_million(prices).items())
    return f"{_price_key(name)}: {each}  {prices.source}"


def _all_of(row: Setting, choice: Choice) -> list[Given]:
    """The value of a setting; of rules, each by itself with its own source."""
    if not row.is_rule:
        return [choice.effective.values[row.key]]
    own = [] if choice.base is None else rules_of(choice.base, choice.reference)
    return [given for key, given in own if key == row.key] + choice.effective.rules_of(row.key)


def _lines(choice: Choice, say: Catalogue) -> Iterator[str]:
    rows = [
        (row.key, _shown(row, given, choice, say), _source(given, say))
        for row in SETTINGS
        for given in _all_of(row, choice)
    ]
    width = max(len(key) for key, _, _ in rows)
    column = min(40, max(len(value) for _, value, _ in rows))
    for key, value, source in rows:
        yield f"{key:<{width}}  {value:<{column}}  {source}".rstrip()
    if prices := choice.loaded.prices():
        yield ""
        yield say("what models cost, in US dollars a million tokens:")
        yield from (f"  {_price(name, one)}" for name, one in prices.items())
    yield ""
    yield from _files(choice.loaded, say)
    ignored = [*choice.effective.ignored, *choice.loaded.ignored_agents()]
    refused = _refused(choice.loaded)
    if ignored or refused:
        yield ""
        yield say("what does not count:")
        yield from (f"  {_ignored(one, say)}" for one in ignored)
        yield from (f"  {_price(name, one)}: {say(WHY_NO_PRICE)}" for name, one in refused)


def _shown(row: Setting, given: Given, choice: Choice, say: Catalogue) -> str:
    if row.key == "limits.max_requests" and given.value is None:
        return f"{choice.effective.value(row.key)} " + say("(4 x max_turns + 14)")
    if given.value is None:
        return say("off") if row.key.startswith("limits.") else say("not set")
    if row.key == "tools" and given.value == () and given.source.kind == "default":
        return say("the built-in ones")
    return _json(given.value)


def _source(given: Given, say: Catalogue) -> str:
    return say("default") if given.source.kind == "default" else given.source.name


def _files(loaded: Loaded, say: Catalogue) -> Iterator[str]:
    found = say("read") if loaded.user_file is not None else say("not there")
    yield say("your file: {path} ({state})", path=user_path(), state=found)
    if loaded.project is None:
        yield say("the project's file: none")
    else:
        state = say(STATES[loaded.project.state])
        yield say("the project's file: {path} ({state})", path=loaded.project.file.path, state=state)


def _ignored(one: Ignored, say: Catalogue) -> str:
    value = say("off") if one.given.value is None else _json(one.given.value)
    said = one.key if one.key.startswith("agents.") else f"{one.key} = {value}"
    return f"{said}  {one.given.source}: {one.words(say)}"


def _json(value: object) -> str:
    return json.dumps(without_password(value), ensure_ascii=False)
