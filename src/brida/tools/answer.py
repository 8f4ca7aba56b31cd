"""The structured answer of a run: a pydantic model that the model's answer must fit.

Where the model itself can be held to a schema, the text of its last reply is the answer. Elsewhere the
harness provides a tool, :data:`brida.core.events.ANSWER_TOOL`, whose one valid call is the answer.
"""

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from brida.core.events import ANSWER_TOOL
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.tools.declare import DEFAULT_TIMEOUT, Tool
from brida.tools.problems import problems_of
from brida.tools.schema import Arguments, schema_of

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")


class AnswerForm(Generic[M]):
    """What an answer must look like. Raises :class:`ConfigurationError` for anything but a pydantic model."""

    def __init__(self, model: type[M]) -> None:
        from pydantic import BaseModel

        given: object = model
        if not (isinstance(given, type) and issubclass(given, BaseModel)):
            raise ConfigurationError(
                f"output: expected a pydantic model (a subclass of BaseModel), got {model!r}"
            )
        self.model = model
        try:
            self.schema = schema_of(model)
        except Exception as error:
            raise ConfigurationError(f"output: {model.__name__} has no JSON schema: {error}") from error
        if self.schema.get("type") != "object":
            raise ConfigurationError(f"output: {model.__name__} is no JSON object: give it fields")
        names = {name: field.alias or name for name, field in model.model_fields.items()}
        self._taken = Arguments(self.schema, names, model)

    def tool(self, say: Say) -> Tool:
        """The tool by which a model gives the answer."""

        def give_answer(**_fields: object) -> str:
            return say("The answer is taken.")

        return Tool(
            name=ANSWER_TOOL,
            description="\n".join(
                part
                for part in (
                    say("Give your final answer with this tool, once you have it."),
                    inspect.cleandoc(self.model.__doc__ or ""),
                )
                if part
            ),
            input_schema=self.schema,
            impact="read",
            impact_declared=True,
            polls=False,
            volatile=False,
            timeout=DEFAULT_TIMEOUT,
            function=give_answer,
            is_async=False,
            _arguments=self._taken,
            _asks=None,
        )

    def problems_of_text(self, text: str, say: Say) -> tuple[str, ...]:
        """What keeps a reply's text from being the answer; empty where nothing does."""
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            return (say("it is no JSON: {error}", error=error),)
        return problems_of(self._taken, answer, say)

    def value(self, answer: Mapping[str, object] | None, text: str) -> M:
        """The answer as the caller gets it. Raises what pydantic raises for one that was not checked."""
        given = text if answer is None else json.dumps(answer)
        return self.model.model_validate_json(given, strict=True)
