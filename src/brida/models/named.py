"""Models by name."""

from brida.core.wording import Say
from brida.models.base import Model


def make_model(name: str, say: Say) -> Model:
    """The model that a name stands for: ``"embedded"``, or one behind the Messages API."""
    if name == "embedded":
        from brida.models.embedded import EmbeddedModel

        return EmbeddedModel(say)
    from brida.models.anthropic import AnthropicModel

    return AnthropicModel(name)
