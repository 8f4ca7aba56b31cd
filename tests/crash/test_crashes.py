"""A real process is killed with SIGKILL at every boundary of its run, and another goes on.

The points are: before and after each append to the journal, and in the tool before and after its effect;
for each impact of the tool, alone in its turn and among others. How many there are is printed at the end.
"""

import itertools
import signal

import pytest

from support.crashing import IMPACTS, PLACES, Crashes, Point
from support.validator import PrefixValidator

MOST_APPENDS = 40
IN_TOOL = ("in the tool, before", "in the tool, after")


@pytest.fixture(scope="module")
def crashes():
    crashes = Crashes()
    yield crashes
    crashes.close()


def every_point(crashes, impact, place, directory):
    """Dies at each append in turn until a run outlives its point, then in the tool."""
    covered = 0
    for when in ("before", "after"):
        for at in range(1, MOST_APPENDS):
            point = Point(impact, place, when, at)
            found = crashes.at(point, directory / f"{when} {at}")
            if found["killed"] == 0:
                break
            check(point, found)
            covered += 1
        else:
            raise AssertionError("a run without end")
    for when in IN_TOOL:
        point = Point(impact, place, when)
        check(point, crashes.at(point, directory / when))
        covered += 1
    return covered


def check(point, found):
    assert found["killed"] == -signal.SIGKILL, point
    assert found["resumed"] == 0, point
    assert found["stop"] == found["folded"] == "completed", point
    assert found["text"] == "done", point
    assert found["replays"], point
    assert not found["lines_then"] or found["lines"][: len(found["lines_then"])] == found["lines_then"], point
    validator = PrefixValidator()
    for body in found["bodies"]:
        assert validator.check_body(body) == [], point
    assert PrefixValidator().extend(found["messages"], paused=True) == []
    acted = [effect for effect in found["effects"] if effect.startswith("act")]
    acted_then = [effect for effect in found["effects_then"] if effect.startswith("act")]
    result = next(
        block
        for message in found["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
        and block["tool_use_id"] == ("c0" if point.place == "alone" else "c1")
    )
    assert len(set(acted)) <= 1, "the key is the same whenever the call is tried"
    if point.impact == "high":
        check_high(point, found, acted_then, acted, result)
    else:
        assert result["content"].startswith("acted"), point
        assert not result.get("is_error"), point
    if point.impact == "reconciled":
        assert len(acted) == 1, point
    if point.place == "batch":
        heard = [b["content"] for m in found["messages"] for b in m["content"] if b["type"] == "tool_result"]
        assert (heard[0], heard[2], heard[3]) == ("seen 0", "put 2", "seen 3"), point


def check_high(point, found, acted_then, acted, result):
    """At most one effect; it is repeated by nobody, and where nobody can know, the model hears that."""
    assert len(acted) <= 1, point
    lost = "Reconciled" in found["events"]
    if lost:
        assert acted == acted_then, point
        assert "outcome unknown" in result["content"], point
    else:
        assert len(acted) == 1, point
        assert result["content"].startswith("acted"), point


@pytest.mark.parametrize("impact", ["high", "idempotent"])
def test_a_run_killed_anywhere_goes_on(crashes, impact, tmp_path, capsys):
    covered = every_point(crashes, impact, "alone", tmp_path)
    with capsys.disabled():
        print(f"\ncrash points covered ({impact}, alone): {covered}")
    assert covered >= 20


@pytest.mark.long
def test_every_impact_alone_and_among_others_survives_a_kill_anywhere(crashes, tmp_path, capsys):
    covered = sum(
        every_point(crashes, impact, place, tmp_path / f"{impact} {place}")
        for impact, place in itertools.product(IMPACTS, PLACES)
    )
    with capsys.disabled():
        print(f"\ncrash points covered: {covered}")
    assert covered >= 200
