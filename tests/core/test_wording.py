"""What the model is told, in English and through a translator."""

import pytest

from brida.core import wording
from brida.core.stops import STOP_CLASSES, Stop
from brida.core.wording import english


def shout(text, /, **facts):
    return text.upper().format(**{name.upper(): value for name, value in facts.items()})


TEXTS = {
    "denied": (lambda say: wording.denied(say, "t"), "t is forbidden by policy: the call did not run"),
    "unknown": (lambda say: wording.unknown_tool(say, "t", ["b", "a"]), "The tools are: a, b."),
    "no tools": (lambda say: wording.unknown_tool(say, "t", []), "there are no tools at all"),
    "invalid": (lambda say: wording.invalid(say, "t", ["x: y", "z"]), "so the call did not run: x: y; z"),
    "declined": (lambda say: wording.declined(say, "t", ""), "A person declined t. The call did not run."),
    "with a reason": (
        lambda say: wording.declined(say, "t", "not today."),
        "A person declined t: not today. The call did not run.",
    ),
    "nobody": (lambda say: wording.nobody_there(say, "t"), "nobody is there to give it: declined."),
    "edited": (
        lambda say: wording.edited(say, "t", '{"a":1}', "b"),
        'A person changed the arguments of t before it ran. It ran with {"a":1}. It ran without b.',
    ),
    "only changed": (lambda say: wording.edited(say, "t", "{}", ""), "before it ran. It ran with {}."),
    "only left out": (lambda say: wording.edited(say, "t", "", "b"), "before it ran. It ran without b."),
    "no answer": (lambda say: wording.answer_missing(say, "t"), "Give it by calling t."),
    "wrong answer": (lambda say: wording.answer_wrong(say, ["x", "y"]), "its schema: x; y."),
    "changed too often": (lambda say: wording.changed_too_often(say, "t"), "changed too often. The call did"),
    "unknown outcome": (wording.outcome_unknown, "outcome unknown: the call was started"),
}


@pytest.mark.parametrize("make, part", TEXTS.values(), ids=TEXTS)
def test_the_model_is_told_what_happened(make, part):
    assert part in make(english)
    assert make(shout) == make(shout)
    assert make(shout) != make(english)


@pytest.mark.parametrize("kind", STOP_CLASSES)
def test_a_call_that_did_not_run_is_told_why(kind):
    told = wording.did_not_run(english, Stop(kind))
    assert told.startswith("did not run: ")
    assert told != "did not run: "


def test_the_reason_is_that_of_the_stop():
    assert wording.did_not_run(english, Stop("max_turns")) == "did not run: turn limit"
    assert wording.did_not_run(english, Stop("interrupted")) == "did not run: interrupted"
    assert wording.did_not_run(english, Stop("refused")) == "did not run: the run stopped"
