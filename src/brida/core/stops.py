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

_CLASSES: Final[Mapping[StopClass, tuple[int, str]]] = {
    "finished": (0, "completed stop_sequence"),
    "internal_error": (1, "internal_error"),
    "usage": (2, "configuration_error"),
    "stopped": (
        3,
        "max_turns max_requests max_calls max_pauses token_budget cost_budget deadline no_progress stopped",
    ),
    "refused": (4, "refused"),
    "failed": (
        5,
        "model_error truncated context_window_exceeded malformed_reply empty_reply unknown_stop_reason"
        " journal_error definition_changed",
    ),
    "parked": (6, "waiting"),
    "busy": (7, "busy"),
    "interrupted": (130, "interrupted"),
}

EXIT_CODES: Final = {name: code for name, (code, _) in _CLASSES.items()}
"""The exit code of the command line for each class."""

STOP_CLASSES: Final = {kind: name for name, (_, kinds) in _CLASSES.items() for kind in kinds.split()}
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
