"""No progress: a run that walks in place is stopped before it repeats itself once more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.events import Said
from brida.core.limits import Limits
from support.loop import FakeTool, Simulation, for_ever, says

CONSTANT = FakeTool("same", lambda arguments: "x")
POLLS = FakeTool("poll", lambda arguments: arguments["say"], polls=True)
VOLATILE = FakeTool("clock", volatile=True)


def counting(name, **more):
    """A tool that never returns the same twice."""
    count = iter(range(1_000))
    return FakeTool(name, lambda arguments: str(next(count)), **more)


def walk(tools, *steps, limits=None):
    """A run in which each reply makes one of these calls, a list several at once."""
    run = Simulation(tools, limits or Limits(max_turns=20))
    replies = []
    for n, step in enumerate(steps):
        calls = step if isinstance(step, list) else [step]
        replies.append(says(*((f"c{n}_{i}", *call) for i, call in enumerate(calls))))
    return run.run([*replies, says("done")]), run


A, B, C, D = (("same", {"n": name}) for name in "abcd")


def test_the_same_call_twice_in_a_row_is_stopped_before_it_runs_again():
    stop, run = walk((CONSTANT,), A, A)
    assert (stop.kind, len(run.ran), run.state.turns) == ("no_progress", 1, 1)
    assert stop.detail == {"period": 1, "times": 1, "calls": [{"tool": "same", "arguments": '{"n":"a"}'}]}


def test_the_same_calls_in_another_order_are_the_same():
    assert walk((CONSTANT,), [A, B], [B, A])[0].kind == "no_progress"


def test_more_of_the_same_calls_are_not_the_same():
    assert walk((CONSTANT,), [A], [A, A], [A])[0].kind == "completed"


def test_two_calls_that_differ_in_a_key_or_a_type_are_not_the_same():
    assert (
        walk((CONSTANT,), ("same", {"a": 1}), ("same", {"a": 1.0}), ("same", {"b": 1}))[0].kind == "completed"
    )


def test_a_new_result_does_not_make_the_same_call_progress():
    assert walk((counting("t"),), ("t", {}), ("t", {}))[0].kind == "no_progress"


@pytest.mark.parametrize("cycle", [[A, B], [A, B, C], [A, B, C, D], [A, A, B][1:]])
def test_a_cycle_is_stopped_before_its_third_round(cycle):
    stop, run = walk((CONSTANT,), *cycle, *cycle, cycle[0])
    assert (stop.kind, stop.detail["period"], stop.detail["times"]) == ("no_progress", len(cycle), 2)
    assert len(run.ran) == 2 * len(cycle)
    assert len(stop.detail["calls"]) == len(cycle)


@pytest.mark.parametrize(
    "steps",
    [[A, B, A], [A, B, A, B], [A, B, A, B, C], [A, B, A, C, A, B], [A, B, C, A, B, A], [A, B, A, B, C, A]],
)
def test_what_is_no_third_round_goes_on(steps):
    assert walk((CONSTANT,), *steps)[0].kind == "completed"


def test_a_cycle_of_five_is_not_looked_for():
    five = [("same", {"n": n}) for n in range(5)]
    assert walk((CONSTANT,), *five, *five, *five)[0].kind == "completed"


def test_a_cycle_with_other_results_is_progress():
    assert walk((CONSTANT, counting("t")), A, ("t", {}), A, ("t", {}), A, ("t", {}), A)[0].kind == "completed"


def test_a_cycle_whose_results_differ_only_in_a_volatile_tool_is_none():
    tools = (CONSTANT, counting("t", volatile=True))
    assert walk(tools, A, ("t", {}), A, ("t", {}), A)[0].kind == "no_progress"


def test_polling_goes_on_while_the_results_differ():
    tools = (counting("poll", polls=True),)
    assert walk(tools, *[("poll", {})] * 8)[0].kind == "completed"


def test_polling_stops_where_the_two_turns_before_had_equal_results():
    stop, run = walk((POLLS,), *[("poll", {"say": "50%"})] * 8)
    assert (stop.kind, len(run.ran), stop.detail["times"]) == ("no_progress", 2, 2)


def test_one_call_that_polls_makes_a_turn_of_polling():
    assert walk((POLLS, CONSTANT), *[[A, ("poll", {"say": "x"})]] * 2)[0].kind == "completed"
    assert walk((POLLS, CONSTANT), *[[A, ("poll", {"say": "x"})]] * 3)[0].kind == "no_progress"


def test_another_turn_before_is_no_equal_result():
    assert walk((POLLS, CONSTANT), A, ("poll", {"say": "x"}), ("poll", {"say": "x"}))[0].kind == "completed"


def test_a_persons_text_begins_the_question_anew():
    run = Simulation((CONSTANT,))

    def model(body):
        if len(run.bodies) == 2:
            run.learn(Said(0, "look again"))
        return says((f"c{len(run.bodies)}", *A))

    stop = run.run(model)
    assert (stop.kind, len(run.bodies), len(run.ran)) == ("no_progress", 4, 3)
    assert [block["type"] for block in run.bodies[2]["messages"][-1]["content"]] == ["tool_result", "text"]


def test_the_evidence_is_cut():
    long = ("same", {"n": "x" * 1_000})
    stop, _ = walk((CONSTANT,), long, long)
    assert len(stop.detail["calls"][0]["arguments"]) == 500


@pytest.mark.parametrize("policy", ["unknown", "denied", "declined"])
def test_a_call_that_never_runs_is_no_progress_either(policy):
    settings = {"on_ask": "decline"} if policy == "declined" else {}
    tools = (FakeTool("t", impact="high"),) if policy != "unknown" else (CONSTANT,)
    run = Simulation(tools, settings=settings, answer=lambda question: False)
    stop = run.run(for_ever(lambda n: says((f"c{n}", "t", {}))))
    assert (stop.kind, run.ran, run.state.turns) == ("no_progress", [], 1)


def naive(turns_so_far, calls, polls):
    """The rule of the design, over the whole past."""
    past = turns_so_far
    if past and past[-1][0] == calls and (not polls or (len(past) > 1 and past[-1] == past[-2])):
        return True
    for period in (2, 3, 4):
        if len(past) < 2 * period:
            continue
        first, second = past[-2 * period : -period], past[-period:]
        if first == second and second[0][0] == calls:
            return True
    return False


@given(st.lists(st.lists(st.sampled_from("aabpv"), min_size=1, max_size=2), max_size=16), st.data())
def test_progress_is_judged_as_a_plain_reading_of_the_rule_does(script, data):
    outputs = data.draw(st.lists(st.sampled_from("xy"), min_size=32, max_size=32))
    heard = iter(outputs)
    tools = (
        FakeTool("a", lambda arguments: "x"),
        FakeTool("b", lambda arguments: next(heard)),
        FakeTool("p", lambda arguments: next(heard), polls=True),
        FakeTool("v", lambda arguments: next(heard), volatile=True),
    )
    stop, run = walk(
        tools, *[[(name, {}) for name in names] for names in script], limits=Limits(max_turns=99)
    )
    contents = iter(result["content"] for result in run.results)
    past: list = []
    expected = None
    for number, names in enumerate(script):
        calls = sorted(names)
        if naive(past, calls, "p" in names):
            expected = number
            break
        results = sorted(
            (name, "" if name == "v" else content) for name, content in zip(names, contents, strict=False)
        )
        past.append((calls, results))
    assert (stop.kind == "no_progress") is (expected is not None)
    assert run.state.turns == (len(script) if expected is None else expected)
