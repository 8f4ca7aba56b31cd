"""The schema of a tool's arguments, made with pydantic from its parameters.

pydantic is imported by the first tool that is made, never by importing this module. The fields of the
model inside are called ``p0``, ``p1``, ... and carry the parameter's name as an alias, so that every
legal Python name works (``self``, ``schema``, ``model_config``, ``_x``) and none hides a method of the model.
"""

import collections.abc
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

from brida.tools.signature import Parameter

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a tool takes: the schema for the model, and the check of what the model sends.

    Checked as JSON in strict mode: ``"5"`` and ``5.0`` are no integers, 5 is a number, an ISO 8601 text is
    a date, an array is a list, a tuple or a set. Fields that are not parameters are refused.
    """

    schema: dict[str, object]
    names: Mapping[str, str]
    model: "type[BaseModel]"

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The values of the parameters that were given; the function's own defaults stand for the others.

        Raises ``pydantic.ValidationError``, ``ValueError`` or ``TypeError`` for what JSON does not have, and
        whatever a validator of the author raises.
        """
        text = json.dumps(arguments, allow_nan=False)
        filled = self.model.model_validate_json(text, strict=True)
        return {
            self.names[field]: getattr(filled, field)
            for field in self.names
            if field in filled.model_fields_set
        }


def arguments_of(
    parameters: tuple[Parameter, ...], texts: Mapping[str, str], names: Mapping[str, object]
) -> Arguments:
    """Builds both. ``texts``: what the docstring says of each; ``names``: the scope of the declaration.

    Raises ``TypeError`` that names the parameter, for a type that JSON or pydantic does not know.
    """
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        hint = _widened(parameter)
        fields[f"p{number}"] = (hint, _field(parameter, texts.get(parameter.name)))
    try:
        config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)
        model = create_model("Arguments", __config__=config, **fields)
        if not model.__pydantic_complete__:
            model.model_rebuild(_types_namespace=dict(names))
        schema = schema_of(model)
    except Exception as error:
        raise _blame(parameters, error) from error
    return Arguments(schema, {f"p{n}": parameter.name for n, parameter in enumerate(parameters)}, model)


def _field(parameter: Parameter, text: str | None) -> object:
    """The field of one parameter. A description in ``Annotated`` wins over the docstring's."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    if isinstance(parameter.default, FieldInfo):
        raise TypeError(
            f"parameter {parameter.name} has Field(...) as its default, which Python would pass on:"
            f" write {parameter.name}: Annotated[type, Field(...)] = default"
        )
    for extra in get_args(parameter.hint)[1:] if get_origin(parameter.hint) is Annotated else ():
        if isinstance(extra, FieldInfo):
            if not extra.is_required():
                raise TypeError(
                    f"parameter {parameter.name}: write its default in the signature, not in Field(...)"
                )
            text = extra.description or text
        elif isinstance(extra, str):
            text = extra
    options: dict[str, Any] = dict.fromkeys(
        ("alias", "validation_alias", "serialization_alias"), parameter.name
    )
    if text:
        options["description"] = text
    if parameter.required:
        return Field(..., **options)
    return Field(default=parameter.default, **options)


def _widened(parameter: Parameter) -> Any:
    """The type that is checked: ``x: int = None`` may be null; an iterable is a list, to check its items."""
    hint: Any = parameter.hint
    if get_origin(hint) is collections.abc.Iterable:
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
    if not parameter.required and parameter.default is None:
        hint = Optional[hint]  # noqa: UP045 (the hint may be one that knows no |)
    return hint


def schema_of(model: "type[BaseModel]") -> dict[str, object]:
    """The JSON schema of a pydantic model, as a model is shown it."""
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        """Leaves a default out that JSON cannot hold, without a warning."""

        ignored_warning_kinds = GenerateJsonSchema.ignored_warning_kinds | {"non-serializable-default"}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = model.model_json_schema(by_alias=True, schema_generator=Quiet)
    schema.pop("description", None)
    bare = _without_titles(schema)
    bare.setdefault("properties", {})
    json.dumps(bare, allow_nan=False)  # a schema is JSON, or the tool is refused here
    return {"type": "object", **bare}


_OF_NAMES = {"properties", "patternProperties", "$defs", "dependentSchemas"}
_VERBATIM = {"const", "enum", "required"}
_SHOWN = {"default", "examples"}


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drops pydantic's titles and the defaults JSON cannot hold, and nothing that is merely called title."""
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in _SHOWN and not _is_json(value):
            continue
        if key in _OF_NAMES and isinstance(value, dict):
            bare[key] = {name: _bare(inner) for name, inner in value.items()}
        else:
            bare[key] = value if key in _VERBATIM | _SHOWN else _bare(value)
    return bare


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_titles(value)
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value


def _blame(parameters: tuple[Parameter, ...], error: Exception) -> TypeError:
    """Says which parameter it is, by trying each alone."""
    from pydantic import TypeAdapter

    for parameter in parameters:
        hint: Any = parameter.hint
        try:
            TypeAdapter[Any](hint).json_schema()
        except Exception as own:
            return TypeError(
                f"parameter {parameter.name}: a model cannot fill the type {_type_name(parameter.hint)}:"
                f" {_first_line(own)}"
            )
    return TypeError(f"no schema can be made of the parameters: {_first_line(error)}")


def _type_name(hint: object) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
