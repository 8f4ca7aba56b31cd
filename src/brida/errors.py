"""The errors of brida. Endings of a run are not among them: they are data, see ``brida.core.stops``.

    BridaError
     +-- ConfigurationError (also a ValueError)   a setting, a tool or a hook is wrong: mend it and run again
     +-- ModelFault                               one attempt at a request brought no whole reply

``ToolError``, which a tool raises to speak to the model, lives with the tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brida.core.events import Fault
    from brida.runtime.outcome import Outcome


class BridaError(Exception):
    """The root of all errors that brida raises on purpose."""


class ConfigurationError(BridaError, ValueError):
    """A setting, a tool or a hook is wrong. The message names it, its value, and what would be right.

    Where a hook failed in mid-run, ``outcome`` is how the run ended: its history is whole, nothing is
    lost. Otherwise nothing had begun and it is None.
    """

    def __init__(self, message: str, *, outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome


class ModelFault(BridaError):
    """One attempt at a request brought no whole reply. A model raises it; the run decides what follows."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.kind}: {fault.message}")
        self.fault = fault
