"""brida: an agent harness. The model calls tools in a loop, and a person keeps the reins."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brida.agent import Agent as Agent
    from brida.approval.answers import Answer as Answer
    from brida.approval.answers import WhatHappened as WhatHappened
    from brida.core.events import Fault as Fault
    from brida.core.events import Question as Question
    from brida.core.events import Reply as Reply
    from brida.core.limits import Limits as Limits
    from brida.core.policy import Policy as Policy
    from brida.core.policy import Rule as Rule
    from brida.core.prices import Prices as Prices
    from brida.core.state import State as State
    from brida.core.stops import Stop as Stop
    from brida.core.usage import Usage as Usage
    from brida.delegating import delegate_tool as delegate_tool
    from brida.errors import BridaError as BridaError
    from brida.errors import ConfigurationError as ConfigurationError
    from brida.errors import JournalError as JournalError
    from brida.errors import ModelFault as ModelFault
    from brida.errors import ResumeRefused as ResumeRefused
    from brida.errors import RunBusy as RunBusy
    from brida.models.anthropic import AnthropicModel as AnthropicModel
    from brida.models.base import Delta as Delta
    from brida.models.base import Model as Model
    from brida.models.base import Waiting as Waiting
    from brida.models.embedded import EmbeddedModel as EmbeddedModel
    from brida.models.scripted import ScriptedModel as ScriptedModel
    from brida.models.scripted import reply as reply
    from brida.models.scripted import tool_use as tool_use
    from brida.runtime.outcome import Outcome as Outcome
    from brida.tools.change import Change as Change
    from brida.tools.context import current_call as current_call
    from brida.tools.declare import Tool as Tool
    from brida.tools.declare import tool as tool
    from brida.tools.image import Image as Image
    from brida.tools.output import ToolError as ToolError
    from brida.tools.process import run_process as run_process
    from brida.tools.reconcile import DID_NOT_HAPPEN as DID_NOT_HAPPEN
    from brida.tools.reconcile import Happened as Happened
    from brida.tools.reconcile import PastCall as PastCall

_HOMES = {
    "Agent": "brida.agent",
    "Answer": "brida.approval.answers",
    "AnthropicModel": "brida.models.anthropic",
    "BridaError": "brida.errors",
    "Change": "brida.tools.change",
    "ConfigurationError": "brida.errors",
    "DID_NOT_HAPPEN": "brida.tools.reconcile",
    "Delta": "brida.models.base",
    "EmbeddedModel": "brida.models.embedded",
    "Fault": "brida.core.events",
    "Happened": "brida.tools.reconcile",
    "Image": "brida.tools.image",
    "JournalError": "brida.errors",
    "Limits": "brida.core.limits",
    "Model": "brida.models.base",
    "ModelFault": "brida.errors",
    "Outcome": "brida.runtime.outcome",
    "PastCall": "brida.tools.reconcile",
    "Policy": "brida.core.policy",
    "Prices": "brida.core.prices",
    "Question": "brida.core.events",
    "Reply": "brida.core.events",
    "ResumeRefused": "brida.errors",
    "Rule": "brida.core.policy",
    "RunBusy": "brida.errors",
    "ScriptedModel": "brida.models.scripted",
    "State": "brida.core.state",
    "Stop": "brida.core.stops",
    "Tool": "brida.tools",
    "ToolError": "brida.tools",
    "Usage": "brida.core.usage",
    "Waiting": "brida.models.base",
    "WhatHappened": "brida.approval.answers",
    "current_call": "brida.tools",
    "delegate_tool": "brida.delegating",
    "reply": "brida.models.scripted",
    "run_process": "brida.tools",
    "tool": "brida.tools",
    "tool_use": "brida.models.scripted",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used: ``import brida`` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'brida' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
