"""Every way to stop has its class and its exit code, and there is no other."""

import pytest

from brida.core.stops import EXIT_CODES, STOP_CLASSES, Stop

DOCUMENTED = {
    "finished": (0, {"completed", "stop_sequence"}),
    "internal_error": (1, {"internal_error"}),
    "usage": (2, {"configuration_error"}),
    "stopped": (
        3,
        {
            "max_turns",
            "max_requests",
            "max_calls",
            "max_pauses",
            "token_budget",
            "cost_budget",
            "deadline",
            "no_progress",
            "stopped",
        },
    ),
    "refused": (4, {"refused"}),
    "failed": (
        5,
        {
            "model_error",
            "truncated",
            "context_window_exceeded",
            "malformed_reply",
            "empty_reply",
            "unknown_stop_reason",
            "journal_error",
            "definition_changed",
        },
    ),
    "parked": (6, {"waiting"}),
    "busy": (7, {"busy"}),
    "interrupted": (130, {"interrupted"}),
}


@pytest.mark.parametrize("stop_class", DOCUMENTED)
def test_every_class_has_its_kinds_and_its_exit_code(stop_class):
    code, kinds = DOCUMENTED[stop_class]
    assert {kind for kind, name in STOP_CLASSES.items() if name == stop_class} == kinds
    for kind in kinds:
        assert (Stop(kind).stop_class, Stop(kind).exit_code) == (stop_class, code)


def test_there_is_no_other():
    assert {name: code for name, (code, _) in DOCUMENTED.items()} == EXIT_CODES
    assert set(STOP_CLASSES.values()) == set(DOCUMENTED)
    with pytest.raises(ValueError, match="'tired' is no way to stop; it is one of completed"):
        Stop("tired")


def test_a_stop_by_a_limit_holds_the_limit_and_what_was_used():
    assert Stop.limit("max_calls", limit=4, used=3, asked=2).detail == {"limit": 4, "used": 3, "asked": 2}
