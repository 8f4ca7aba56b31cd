"""What a model can call: how a function becomes a tool, and what becomes of its arguments and results.

Nothing heavy is imported by ``import brida.tools``; pydantic comes with the first tool that is declared.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brida.tools.change import Change
    from brida.tools.context import CallContext, current_call
    from brida.tools.declare import Tool, tool
    from brida.tools.image import Image
    from brida.tools.output import ToolError
    from brida.tools.process import Finished, run_process

__all__ = [
    "CallContext",
    "Change",
    "Finished",
    "Image",
    "Tool",
    "ToolError",
    "current_call",
    "run_process",
    "tool",
]

_HOME = {
    "CallContext": "brida.tools.context",
    "Change": "brida.tools.change",
    "Finished": "brida.tools.process",
    "Image": "brida.tools.image",
    "Tool": "brida.tools.declare",
    "ToolError": "brida.tools.output",
    "current_call": "brida.tools.context",
    "run_process": "brida.tools.process",
    "tool": "brida.tools.declare",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
