"""Every way a run can stop, with its class and its exit code. There is no other.

An ending is data, never an exception: a :class:`Stop` says why the run ended, its class says how to
take it, and its detail holds the numbers. A stop by a limit names that limit and what was used, so
that whoever reads it knows which setting lets the run go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

StopClass: TypeAlias = Literal[
    "finished", "usage", "stopped", "refused", "failed", "parked", "interrupted", "internal_error", "busy"
]

EXIT_CODES: Final[Mapping[StopClass, int]] = {
    "finished": 0,
    "internal_error": 1,
    "usage": 2,
    "stopped": 3,
    "refused": 4,
    "failed": 5,
    "parked": 6,
    "busy": 7,
    "interrupted": 130,
}
"""The exit code of the command line for each class."""

STOP_CLASSES: Final[Mapping[str, StopClass]] = {
    "completed": "finished",
    "stop_sequence": "finished",
    "internal_error": "internal_error",
    "configuration_error": "usage",
    "max_turns": "stopped",
    "max_requests": "stopped",
    "max_calls": "stopped",
    "max_pauses": "stopped",
    "token_budget": "stopped",
    "cost_budget": "stopped",
    "deadline": "stopped",
    "no_progress": "stopped",
    "stopped": "stopped",
    "refused": "refused",
    "model_error": "failed",
    "truncated": "failed",
    "context_window_exceeded": "failed",
    "malformed_reply": "failed",
    "empty_reply": "failed",
    "unknown_stop_reason": "failed",
    "journal_error": "failed",
    "definition_changed": "failed",
    "waiting": "parked",
    "busy": "busy",
    "interrupted": "interrupted",
}
"""Every kind of stop and the class it belongs to."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ended.

    ``kind`` is a key of :data:`STOP_CLASSES`; any other raises ``ValueError``. ``detail`` holds JSON
    values only: ``limit`` and ``used`` where a limit was reached, the evidence, the server's words.
    """

    kind: str
    detail: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in STOP_CLASSES:
            known = ", ".join(STOP_CLASSES)
            raise ValueError(f"kind: {self.kind!r} is no way to stop; it is one of {known}")

    @property
    def stop_class(self) -> StopClass:
        """The class of this stop, such as ``"finished"`` or ``"stopped"``."""
        return STOP_CLASSES[self.kind]

    @property
    def exit_code(self) -> int:
        """What the command line exits with."""
        return EXIT_CODES[self.stop_class]

    @classmethod
    def limit(cls, kind: str, *, limit: float, used: float, **more: object) -> "Stop":
        """A stop by a limit: ``limit`` is the setting, ``used`` what had been used when it was checked."""
        return cls(kind, {"limit": limit, "used": used, **more})
