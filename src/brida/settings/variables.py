"""Settings from the environment: a variable for each."""

from collections.abc import Callable, Mapping

from brida.core.wording import Say
from brida.settings.schema import nearest, wrong_value
from brida.settings.table import BY_KEY, BY_VARIABLE, SDK_BASE_URL, Setting
from brida.settings.values import Given, Layer, Source

PREFIX = "BRIDA_"


def read_variables(environ: Mapping[str, str], say: Say, tell: Callable[[str], None]) -> Layer:
    """What the variables say; one that is empty says nothing.

    ``tell`` is told of variables that mean nothing. Raises :class:`ConfigurationError` naming the
    variable, its value, and what would be right.
    """
    found: dict[str, Given] = {}
    if server := environ.get(SDK_BASE_URL):
        found["base_url"] = _given(BY_KEY["base_url"], SDK_BASE_URL, server, say)
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        if (row := BY_VARIABLE.get(name)) is None:
            tell(_unknown(name, say))
        elif text:
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
