"""Cases from the field, as far as the core alone can show them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from brida.core.events import Fault
from brida.core.limits import Limits
from brida.core.policy import Policy, Rule
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, null_stop, says


@dataclass(frozen=True)
class Case:
    """A model, tools, a person; and what must hold. None is not looked at."""

    model: Callable[[int], Any] | list
    tools: tuple[FakeTool, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    stop: str = "completed"
    detail: Mapping[str, Any] = field(default_factory=dict)
    ran: list[str] | None = None
    requests: int | None = None
    turns: int | None = None
    text: str | None = None
    results: list[tuple[str, bool, str]] | None = None
    """The id, whether it is an error, and a part of what the model hears."""
    tokens: int | None = None
    last_role: str | None = None


def reads(arguments: Mapping) -> str:
    return "same"


READ = FakeTool("read", reads)
WRITE = FakeTool("write", impact="high")
LIST = FakeTool("list")
THINKING = {"type": "thinking", "thinking": "long", "signature": "sig"}
DONE = says("ok")


def cut(*blocks):
    return [says(*blocks, stop="max_tokens")] * 3


def search(call_id):
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}


def found(call_id):
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def new_each_time(n):
    return says("working", (f"t{n}", "read", {"n": n}))


def turn_cap(limit):
    return Case(
        new_each_time,
        (READ,),
        limits={"max_turns": limit},
        stop="max_turns",
        detail={"limit": limit, "used": limit},
        ran=["read"] * limit,
        requests=limit + 1,
        turns=limit,
        text="working",
        results=[
            *((f"t{n}", False, "same") for n in range(limit)),
            (f"t{limit}", True, "did not run: turn limit"),
        ],
        last_role="user",
    )


def rounds(*steps):
    """Replies with these calls for ever: a list is one round."""
    return lambda n: says(*((f"c{n}_{i}", *call) for i, call in enumerate(steps[n % len(steps)])))


CASES = {
    "C03 decline one of three": Case(
        [says(("a", "write", {"p": 1}), ("b", "write", {"p": 2}), ("c", "read", {})), DONE],
        (WRITE, READ),
        answers={"a": (False, False, "not today"), "b": True},
        ran=["write", "read"],
        results=[("a", True, "not today. The call did not run"), ("b", False, "done"), ("c", False, "same")],
    ),
    "C04 truncated call that still parses": Case(
        cut(("t1", "read", {"p": "a"}), ("t2", "write", {"p": "/srv", "text": "half"})),
        (READ, WRITE),
        stop="truncated",
        detail={"limit": 400},
        ran=[],
        requests=3,
        results=[],
        tokens=45,
        last_role="user",
    ),
    "C04 text alone": Case(cut("The answer is"), stop="truncated", text="The answer is", last_role="user"),
    "C04 thinking alone": Case(cut(THINKING), stop="truncated", text="", last_role="user"),
    "C05A an end with a call": Case(
        [says("let me", ("t1", "read", {}), stop="end_turn")],
        (READ,),
        stop="malformed_reply",
        detail={"ignored": 1},
        ran=[],
        requests=1,
        text="let me",
        results=[("t1", True, "the reply did not stop for its calls")],
    ),
    "C05B no call": Case(
        lambda n: says(stop="tool_use"), stop="malformed_reply", ran=[], requests=2, last_role="user"
    ),
    "C05C a call in prose": Case(
        lambda n: says("I will call read(a)", stop="tool_use"),
        (READ,),
        stop="malformed_reply",
        ran=[],
        requests=2,
    ),
    "C06B the last counters are the counters": Case(
        [says("ok", usage={"input_tokens": 25, "output_tokens": 15})], tokens=40
    ),
    "C07 turn cap 0": turn_cap(0),
    "C07 turn cap 1": turn_cap(1),
    "C07 turn cap 3": turn_cap(3),
    "C08 paused turns": Case(
        [
            says("searching ", search("s1"), stop="pause_turn"),
            says(found("s1"), search("s2"), stop="pause_turn"),
            says(found("s2"), "found"),
        ],
        requests=3,
        turns=0,
        text="searching found",
    ),
    "C08 one pause too many": Case(
        [says("searching", search("s1"), stop="pause_turn"), says(search("s2"), stop="pause_turn")],
        limits={"max_pauses": 1},
        stop="max_pauses",
        detail={"limit": 1, "used": 1},
        text="searching",
        last_role="user",
    ),
    "C09 refusal": Case(
        [says(("t1", "list", {})), says(stop="refusal", stop_details={"category": "x"})],
        (LIST,),
        stop="refused",
        detail={"category": "x"},
        requests=2,
        last_role="user",
    ),
    "C10 a new stop reason": Case(
        [says("half", ("t1", "write", {}), stop="brand_new_reason")],
        (WRITE,),
        stop="unknown_stop_reason",
        detail={"stop_reason": "brand_new_reason"},
        ran=[],
        text="half",
        last_role="user",
    ),
    "C10 no stop reason": Case(
        [null_stop("half", ("t1", "write", {}))],
        (WRITE,),
        stop="unknown_stop_reason",
        detail={"stop_reason": None},
        ran=[],
    ),
    "C13A the same call": Case(
        rounds([("read", {"p": 1})]),
        (READ,),
        stop="no_progress",
        detail={"period": 1, "times": 1, "calls": [{"tool": "read", "arguments": '{"p":1}'}]},
        ran=["read"],
    ),
    "C13C a round of three": Case(
        rounds([("read", {})], [("edit", {})], [("test", {})]),
        (READ, FakeTool("edit", lambda arguments: "E"), FakeTool("test", lambda arguments: "F")),
        stop="no_progress",
        detail={"period": 3, "times": 2},
        ran=["read", "edit", "test"] * 2,
    ),
    "C13D keys in turn": Case(
        rounds([("read", {"b": 2, "a": 1})], [("read", {"a": 1, "b": 2})]),
        (READ,),
        stop="no_progress",
        turns=1,
    ),
    "C13F an unknown tool for ever": Case(
        rounds([("gone", {})]), (READ,), stop="no_progress", ran=[], turns=1
    ),
    "C13F a declined call for ever": Case(
        rounds([("write", {})]), (WRITE,), settings={"on_ask": "decline"}, stop="no_progress", ran=[], turns=1
    ),
    "C13G to and fro once": Case(
        [*map(rounds([("read", {"p": "a"})], [("read", {"p": "b"})]), range(3)), DONE], (READ,), turns=3
    ),
    "C13G to and fro twice": Case(
        rounds([("read", {"p": "a"})], [("read", {"p": "b"})]), (READ,), stop="no_progress", turns=4
    ),
    "C14 a batch over the call cap": Case(
        rounds(
            [("read", {"n": n}) for n in range(4)],
            [("read", {"m": n}) for n in range(5)],
        ),
        (READ,),
        limits={"max_calls": 6},
        stop="max_calls",
        detail={"limit": 6, "used": 4, "asked": 5},
        ran=["read"] * 4,
        turns=1,
    ),
    "C16 all are decided before any runs": Case(
        [says(("a", "read", {}), ("b", "write", {"n": 1}), ("c", "write", {"n": 2})), DONE],
        (READ, WRITE),
        answers={"b": True, "c": False},
        ran=["read", "write"],
        results=[("a", False, "same"), ("b", False, "done"), ("c", True, "declined")],
    ),
    "C17 a decline holds once": Case(
        [says(("a", "write", {"n": 1})), says(("b", "write", {"n": 2})), DONE],
        (WRITE,),
        answers={"a": False, "b": True},
        ran=["write"],
    ),
    "C17 a yes for the session and a no to one call": Case(
        [
            says(("a", "write", {"p": "x"})),
            says(("b", "write", {"p": ".env"})),
            says(("c", "write", {"p": "y"})),
            DONE,
        ],
        (
            FakeTool(
                "write", impact="high", raises_tier=lambda given: "key file" if given["p"] == ".env" else None
            ),
        ),
        answers={"a": (True, True, ""), "b": False},
        ran=["write", "write"],
        results=[("a", False, "done"), ("b", True, "declined"), ("c", False, "done")],
    ),
    "C17 deny in any source": Case(
        [says(("a", "write", {})), DONE],
        (WRITE,),
        settings={
            "policy": Policy([Rule("write", "allow", "a file"), Rule("wr*", "deny", "--deny")]),
            "yes_to": frozenset({"write"}),
        },
        ran=[],
        results=[("a", True, "forbidden by policy")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_case(case):
    def answer(question):
        return case.answers[question.call_id]  # a question that the case does not know is a failure

    run = Simulation(case.tools, Limits(**case.limits), settings=case.settings, answer=answer)
    script = iter(case.model) if isinstance(case.model, list) else map(case.model, range(1_000))
    stop = run.run(lambda body: next(script))
    assert stop.kind == case.stop
    assert stop.detail.items() >= case.detail.items()
    assert [call.id for call in run.state.not_run] == [
        result["tool_use_id"] for result in run.results if result["content"].startswith("did not run")
    ]
    looked_at = {
        "ran": [name for name, _ in run.ran],
        "requests": run.state.requests,
        "turns": run.state.turns,
        "text": run.state.text,
        "tokens": run.state.usage.total,
        "last_role": run.closed[-1]["role"],
    }
    for name, found_ in looked_at.items():
        wanted = getattr(case, name)
        assert wanted is None or found_ == wanted, name
    if case.results is not None:
        heard = [(r["tool_use_id"], "is_error" in r, r["content"]) for r in run.results]
        assert len(heard) == len(case.results)
        for (call_id, is_error, content), (wanted_id, wanted_error, part) in zip(
            heard, case.results, strict=True
        ):
            assert (call_id, is_error) == (wanted_id, wanted_error)
            assert part in content


# --- what does not fit the table --------------------------------------------------------------------------


def test_c06c_an_attempt_that_was_lost_is_counted():
    dropped = Fault(
        "connection", "dropped", again=True, usage={"input_tokens": 1_000, "output_tokens": 1}, billed=True
    )
    run = Simulation()
    run.run([dropped, says("ok", usage={"input_tokens": 1_000, "output_tokens": 20})])
    usage = run.state.usage
    assert (usage.input_tokens, usage.output_tokens, usage.complete) == (2_000, 21, False)
    run = Simulation(limits=Limits(max_tokens_total=1_001))
    assert run.run([dropped]).kind == "token_budget"


def test_c06d_a_failed_attempt_never_erases_what_is_known():
    run = Simulation((READ,))
    fault = Fault("invalid_request", "no", usage={"input_tokens": None, "output_tokens": "x"})
    run.run([says(("a", "read", {}), usage={"input_tokens": 30, "output_tokens": 7}), fault])
    assert (run.state.usage.input_tokens, run.state.usage.output_tokens) == (30, 7)


def test_c08_a_paused_turn_goes_back_unchanged_and_nobody_says_go_on():
    run = Simulation()
    first, second = says("searching", search("s1"), stop="pause_turn"), says(search("s2"), stop="pause_turn")
    run.run([first, second, says("found")])
    assert run.bodies[1]["messages"][1:] == [{"role": "assistant", "content": list(first.content)}]
    assert run.bodies[2]["messages"][2:] == [{"role": "assistant", "content": list(second.content)}]


def test_c09_the_journal_keeps_the_refused_reply_and_the_history_does_not():
    run = Simulation((LIST,))
    refused = says("half", stop="refusal")
    run.run([says(("t1", "list", {})), refused])
    assert refused in [getattr(event, "reply", None) for event in run.events]
    assert "half" not in str(run.closed)


def test_c13b_polling_is_not_stopped_while_it_brings_news():
    percent = iter(range(1, 101))
    poll = FakeTool("poll", lambda arguments: f"{next(percent)}%", polls=True)
    run = Simulation((poll,), Limits(max_turns=100, max_calls=None, max_tokens_total=None))
    stop = run.run(lambda body: says((f"c{len(run.bodies)}", "poll", {})))
    assert (stop.kind, run.results[-2]["content"]) == ("max_turns", "100%")


def test_c13e_results_that_differ_in_a_timestamp_alone_are_not_seen_as_equal():
    """Documented, and not claimed: only a tool that says ``volatile=True`` is seen through."""
    numbers = iter(range(1_000))
    clock = FakeTool("clock", lambda arguments: f"12:00:{next(numbers)}")
    run = Simulation((READ, clock))
    stop = run.run(lambda body: says((f"c{len(run.bodies)}", ("read", "clock")[len(run.bodies) % 2], {})))
    assert stop.kind == "max_turns"


def test_c14_twenty_calls_at_once_all_run_once():
    counter: list[Any] = []

    def count(arguments):
        counter.append(arguments["n"])
        return "done"

    bump = FakeTool("bump", count)
    run = Simulation((bump,), Limits(max_calls=20))
    assert run.run([says(*((f"c{n}", "bump", {"n": n}) for n in range(20))), DONE]).kind == "completed"
    assert counter == list(range(20))


def test_c17_another_run_asks_again():
    for _ in range(2):
        run = Simulation((WRITE,), answer=lambda question: (True, True, ""))
        run.run([says(("a", "write", {})), DONE])
        assert len(run.questions) == 1


def test_the_exit_codes_of_the_cases():
    kinds = {"truncated": 5, "refused": 4, "max_turns": 3, "unknown_stop_reason": 5, "completed": 0}
    assert {kind: Stop(kind).exit_code for kind in kinds} == kinds
