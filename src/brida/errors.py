"""The errors of brida. Endings of a run are not among them: they are data, see ``brida.core.stops``.

    BridaError
     +-- ConfigurationError (also a ValueError)   a setting, a tool or a hook is wrong: mend it and run again
     +-- ModelFault                               one attempt at a request brought no whole reply
     +-- ResumeRefused                            a run of the journal cannot go on with this agent
     +-- JournalError                             the journal cannot be read or written
          +-- UnknownRun                          it has no such run, or more than one that begins so
          +-- RunBusy                             another process holds the run
          +-- LeaseLost                           another process has taken the run over
          +-- UnknownBudget                       it has no such budget
          +-- WrongBudget                         a budget cannot be as was asked
          +-- BudgetExceeded                      a shared budget has not so much left
          +-- Damaged                             a record is not what was written
          +-- NewerRecord                         a newer brida wrote it

``ToolError``, which a tool raises to speak to the model, lives with the tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brida.core.events import Fault
    from brida.core.stops import Stop
    from brida.journal.base import Owner, Record
    from brida.runtime.outcome import Outcome


class BridaError(Exception):
    """The root of all errors that brida raises on purpose."""


class ConfigurationError(BridaError, ValueError):
    """A setting, a tool or a hook is wrong. The message names it, its value, and what would be right.

    Where a hook failed in mid-run, ``outcome`` is how the run ended: its history is whole, nothing is
    lost. Otherwise nothing had begun and it is None. ``example``: lines that would mend it, as they are to be
    written; they end the message.
    """

    def __init__(self, message: str, *, outcome: Outcome[Any] | None = None, example: str = "") -> None:
        super().__init__(f"{message}\n{example}" if example else message)
        self.outcome = outcome
        self.example = example


class ModelFault(BridaError):
    """One attempt at a request brought no whole reply. A model raises it; the run decides what follows."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.kind}: {fault.message}")
        self.fault = fault


class ResumeRefused(BridaError):
    """A run of the journal does not go on, since the agent is not the one that it began with.

    ``stop`` says what differs; ``outcome`` is the run as it stands. Nothing was recorded.
    """

    def __init__(self, stop: Stop, outcome: Outcome[Any]) -> None:
        listed: Any = stop.detail.get("differences", ())
        what = "; ".join(f"{one['what']}: was {one['was']}, is {one['is']}" for one in listed)
        super().__init__(f"the definition of the agent has changed since the run began: {what}")
        self.stop = stop
        self.outcome = outcome


class JournalError(BridaError):
    """The journal cannot be read or written: the message says why, and what would help."""


class UnknownRun(JournalError):
    """The journal has no run whose id begins so, or more than one."""


class RunBusy(JournalError):
    """Another process holds the run: ``owner``, where it is known."""

    def __init__(self, message: str, owner: Owner | None) -> None:
        super().__init__(message)
        self.owner = owner


class LeaseLost(JournalError):
    """Another process has taken the run over: what this one still had to record was kept as late."""


class UnknownBudget(JournalError):
    """The journal has no budget of that name."""


class WrongBudget(JournalError):
    """A budget cannot be made or changed as was asked."""


class BudgetExceeded(JournalError):
    """The budget ``name`` has not so much left: nothing was kept."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Damaged(JournalError):
    """A record of the run is not what was written: ``records`` are those before it."""

    def __init__(self, message: str, records: tuple[Record, ...] = ()) -> None:
        super().__init__(message)
        self.records = records


class NewerRecord(JournalError):
    """A newer brida wrote this: ``records`` are those before it."""

    def __init__(self, message: str, records: tuple[Record, ...] = ()) -> None:
        super().__init__(message)
        self.records = records
