"""The words of click that a person can meet: listed here so that they are translated with ours."""

from typing import Final

from brida.texts.catalogue import N_

WORDS: Final = (
    N_("Usage:"),
    N_("Options"),
    N_("Commands"),
    N_("Positional arguments"),
    N_("Aborted!"),
    N_("Error: {message}"),
    N_("Show this message and exit."),
    N_("No such option {name!r}."),
    N_("No such command {name!r}."),
    N_("Invalid value: {message}"),
    N_("Invalid value for {param_hint}: {message}"),
    N_("Missing argument"),
    N_("Missing option"),
    N_("Missing command."),
    N_("Option {name!r} does not take a value."),
    N_("{value!r} is not a valid {number_type}."),
    N_("{value} is not in the range {range}."),
    N_("Choose from:\n\t{choices}"),
)
"""Click 8.4 and 8.5 ask gettext for these texts; see its modules core, exceptions, parser and types."""


def plural(one: str, many: str) -> tuple[str, str]:
    """Marks a text with two forms for translation; gives both back as they are."""
    return one, many


PLURALS: Final = (
    plural("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)"),
    plural("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})"),
    plural("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments."),
    plural("{value!r} is not {choice}.", "{value!r} is not one of {choices}."),
)
