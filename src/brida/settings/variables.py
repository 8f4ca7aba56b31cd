"""Settings from the environment: a variable for each."""

from collections.abc import Mapping

from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.schema import nearest, wrong_value
from brida.settings.table import BY_KEY, BY_VARIABLE, SDK_BASE_URL, Setting
from brida.settings.values import Given, Layer, Source

PREFIX = "BRIDA_"


def read_variables(environ: Mapping[str, str], say: Say) -> Layer:
    """What the variables say; one that is empty says nothing.

    Raises :class:`ConfigurationError` naming the variable, its value, and what would be right; so it does
    for one that means nothing: somebody believes in a limit that is not there.
    """
    found: dict[str, Given] = {}
    if server := environ.get(SDK_BASE_URL):
        found["base_url"] = _given(BY_KEY["base_url"], SDK_BASE_URL, server, say)
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        if (row := BY_VARIABLE.get(name)) is None:
            raise ConfigurationError(_unknown(name, say))
        if text:
            found[row.key] = _given(row, name, text, say)
    return found


def _given(row: Setting, name: str, text: str, say: Say) -> Given:
    try:
        return Given(row.kind.check(row.kind.read(text)), Source("variable", name))
    except ValueError:
        raise wrong_value(say, name, text, row) from None


def _unknown(name: str, say: Say) -> str:
    close = nearest(name.removeprefix(PREFIX), [one.removeprefix(PREFIX).lower() for one in BY_VARIABLE])
    if close:
        known = PREFIX + close[0].upper()
        return say("the variable {name} means nothing; did you mean {nearest}?", name=name, nearest=known)
    return say("the variable {name} means nothing", name=name)
