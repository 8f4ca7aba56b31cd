"""The shape of a settings file: checked by pydantic, and written as JSON Schema for editors."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.kinds import CURRENCY, PRICE, URL, Kind
from brida.settings.table import BY_KEY, SETTINGS, Setting
from brida.texts.catalogue import N_

if TYPE_CHECKING:
    from pydantic import BaseModel

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
AGENT_NAME: Final = r"^[A-Za-z0-9_-]+$"

_PRICES_HELP: Final = N_("What models cost, by name, in US dollars a million tokens.")
_AGENTS_HELP: Final = N_("Agents by name; each has every setting of its own.")


@cache
def shape() -> "type[BaseModel]":
    """The model of a whole file. An unknown key is refused; only what was given is in its dump."""
    from pydantic import Field, StringConstraints

    agent = _model("Agent", {})
    name = Annotated[str, StringConstraints(pattern=AGENT_NAME)]
    agents: Any = Field(default=None, description=_AGENTS_HELP, json_schema_extra=_without_default)
    prices: Any = Field(default=None, description=_PRICES_HELP, json_schema_extra=_without_default)
    more = {"agents": (dict[name, agent], agents), "prices": (dict[str, _price_model()], prices)}  # type: ignore[misc,valid-type]
    return _model("Settings", more)


PRICE_FIELDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("input", "output", "cache_read", "cache_write"), PRICE),
    "currency": CURRENCY,
}
"""What can stand in the table of one model's prices; the first two must."""


@cache
def _price_model() -> "type[BaseModel]":
    from pydantic import Field, PlainValidator, WithJsonSchema

    made: dict[str, Any] = {}
    for name, kind in PRICE_FIELDS.items():
        checked = Annotated[Any, PlainValidator(kind.check), WithJsonSchema(dict(kind.schema))]
        needed = name in ("input", "output")
        made[name] = (checked, Field(... if needed else None, json_schema_extra=_without_default))
    return _create("Price", made)


def _model(name: str, more: Mapping[str, Any]) -> "type[BaseModel]":
    """A model of all settings: a field for each, and a model for each table of them."""
    tables: dict[str, dict[str, Any]] = {"": dict(more)}
    for row in SETTINGS:
        table, _, key = row.key.rpartition(".")
        tables.setdefault(table, {})[key] = _field(row)
    for table, made in [(table, made) for table, made in tables.items() if table]:
        tables[""][table] = _field_of_table(_create(f"{name}_{table}", made))
    return _create(name, tables[""])


def _create(name: str, made: dict[str, Any]) -> "type[BaseModel]":
    from pydantic import ConfigDict, create_model

    model: type[BaseModel] = create_model(
        name, __config__=ConfigDict(extra="forbid", protected_namespaces=()), **made
    )
    return model


def _field(row: Setting) -> tuple[Any, Any]:
    from pydantic import Field, PlainValidator, WithJsonSchema

    kind = Annotated[Any, PlainValidator(row.kind.check), WithJsonSchema(dict(row.kind.schema))]
    return kind, Field(default=None, description=row.help, json_schema_extra=_without_default)


def _field_of_table(model: "type[BaseModel]") -> tuple[Any, Any]:
    from pydantic import Field

    return model, Field(default=None, json_schema_extra=_without_default)


def _without_default(schema: dict[str, Any]) -> None:
    """TOML has no null, so a field that is not given has no default that could be written."""
    schema.pop("default", None)
    schema.pop("title", None)


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of ``brida.toml``, and of ``[tool.brida]`` in ``pyproject.toml``."""
    schema = shape().model_json_schema()
    return {"$schema": DIALECT, **schema, "title": "brida.toml"}


def checked(table: Mapping[str, object], file: str, say: Say) -> dict[str, Any]:
    """The table with the values that count, its tables still nested.

    Raises :class:`ConfigurationError` naming the file, the key, the value, and what would be right.
    """
    from pydantic import ValidationError

    try:
        return shape().model_validate(dict(table)).model_dump(exclude_unset=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        first = min(found, key=lambda one: one["type"] == "missing")  # a slip in a name before its lack
        raise _wrong(first["loc"], first["type"], first["input"], file, say) from None


def _wrong(
    location: Sequence[int | str], kind: str, value: object, file: str, say: Say
) -> ConfigurationError:
    parts = [str(part) for part in location]
    if parts[-1] == "[key]":
        key, expected = dotted(parts[:-1]), say("a name made of letters, digits, - and _")
        return _wrong_value(say, f"{file}: {key}", shown(parts[-2]), expected)
    if parts[0] == "prices" and len(parts) == 3:
        return _wrong_price(parts, kind, value, file, say)
    inner = parts[2:] if parts[0] == "agents" else parts
    if kind == "extra_forbidden":
        table, known = ".".join(inner[:-1]), _names_in(".".join(inner[:-1]), in_agent=inner is not parts)
        return _unknown(dotted(parts), table, inner[-1], known, file, say)
    row = BY_KEY.get(".".join(inner))
    if row is not None:
        return wrong_value(say, f"{file}: {dotted(parts)}", value, row)
    return _wrong_value(say, f"{file}: {dotted(parts)}", shown(value), say("a table of settings"))


def _wrong_price(parts: Sequence[str], kind: str, value: object, file: str, say: Say) -> ConfigurationError:
    key, name = dotted(parts), parts[-1]
    if name not in PRICE_FIELDS:
        return _unknown(key, "", name, PRICE_FIELDS, file, say)
    got = say("nothing") if kind == "missing" else shown(value)
    return _wrong_value(say, f"{file}: {key}", got, PRICE_FIELDS[name].words(say))


def _names_in(table: str, *, in_agent: bool) -> list[str]:
    """The names that can stand in a table of a file."""
    if table:
        return [row.key.rpartition(".")[2] for row in SETTINGS if row.key.startswith(f"{table}.")]
    names = dict.fromkeys(row.key.partition(".")[0] for row in SETTINGS)
    return [*names, *([] if in_agent else ["agents", "prices"])]


def _unknown(
    key: str, table: str, name: str, known: Iterable[str], file: str, say: Say
) -> ConfigurationError:
    elsewhere = [row.key for row in SETTINGS if row.key.rpartition(".")[2] == name]
    prefix = f"{table}." if table else ""
    close = elsewhere or [prefix + one for one in nearest(name, known)] or nearest(prefix + name, BY_KEY)
    if close:
        return ConfigurationError(
            say(
                "{file}: there is no setting {key}; did you mean {nearest}?",
                file=file,
                key=key,
                nearest=close[0],
            )
        )
    return ConfigurationError(
        say(
            "{file}: there is no setting {key}; what can stand there: {known}",
            file=file,
            key=key,
            known=", ".join(known),
        )
    )


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names close to ``name``, the closest first."""
    return difflib.get_close_matches(name[:200].lower(), list(known), cutoff=0.6)


def wrong_value(say: Say, where: str, value: object, row: Setting) -> ConfigurationError:
    """The error of a value that makes no sense for a setting."""
    return _wrong_value(say, where, shown_value(row, value), row.kind.words(say))


def _wrong_value(say: Say, where: str, value: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        say("{where}: expected {expected}, got {value}", where=where, expected=expected, value=value)
    )


def shown_value(row: Setting, value: object) -> str:
    """A value that is wrong for a setting: of an address nothing that may be a secret."""
    if row.kind is URL and isinstance(value, str):
        value = value.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return shown(value)


def shown(value: object, *, most: int = 200) -> str:
    """A value for a message, as JSON writes it; long ones are cut, the password of an address left out."""
    text = json.dumps(without_password(value), ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}..."


def without_password(value: object) -> object:
    """The value without the user and password that an address in it may hold."""
    if isinstance(value, Mapping):
        return {key: without_password(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_password(item) for item in value]
    if not isinstance(value, str) or "://" not in value:
        return value
    scheme, _, rest = value.partition("://")
    end = min((rest.index(mark) for mark in "/?#\\ \n" if mark in rest), default=len(rest))
    return f"{scheme}://{rest[:end].rpartition('@')[2]}{rest[end:]}"


def dotted(parts: Iterable[str]) -> str:
    """A key as TOML writes it, cut where it is long."""
    return ".".join(part if part.replace("-", "_").isidentifier() else shown(part) for part in parts)
