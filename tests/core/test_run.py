"""The call gate and the order of work: what is decided, by whom, and when it runs."""

from dataclasses import replace

import pytest

from brida.core.events import Answered, Asked, CallFinished, Decided, Received, Said, Sent, StopRequested
from brida.core.limits import Limits
from brida.core.policy import Policy, Rule
from brida.core.run import Execute, next_step
from brida.core.state import State
from brida.core.stops import Stop
from support.loop import INTERRUPTED, FakeTool, Simulation, says, started

READ = FakeTool("read", lambda arguments: f"content of {arguments.get('p')}")
WRITE = FakeTool("write", impact="high")
SEND = FakeTool("send", impact="high")


def secret(arguments):
    return "a key file" if arguments.get("p") == ".env" else None


CAREFUL = FakeTool("careful", raises_tier=secret)


def never(question):
    raise AssertionError(f"nobody is to be asked: {question}")


def one_turn(run, *calls):
    """A reply with these calls, then an answer; what was decided for each call."""
    kind = run.run([says(*((f"c{n}", *call) for n, call in enumerate(calls))), says("done")]).kind
    assert kind == "completed"
    return [(event.verdict, event.rule) for event in run.events if isinstance(event, Decided)]


# --- the call gate ----------------------------------------------------------------------------------------


def test_a_tool_that_only_reads_runs_without_a_question():
    assert one_turn(Simulation((READ,), answer=never), ("read", {})) == [("allow", "impact = read")]


def test_a_denied_call_does_not_run_and_the_model_hears_that_it_stays_so():
    run = Simulation((READ,), settings={"policy": Policy({"read": "deny"})}, answer=never)
    assert one_turn(run, ("read", {})) == [("denied", "deny read (Policy)")]
    assert run.ran == []
    assert "forbidden by policy" in run.results[0]["content"]
    assert run.results[0]["is_error"] is True
    assert [call.tool for call in run.state.denied] == ["read"]


def test_a_tool_that_is_not_registered_can_be_denied_by_name():
    run = Simulation((READ,), settings={"policy": Policy({"send_*": "deny"})})
    assert one_turn(run, ("send_email", {"any": 1})) == [("denied", "deny send_* (Policy)")]


def test_a_call_of_no_tool_hears_which_tools_there_are():
    run = Simulation((WRITE, READ), answer=never)
    assert one_turn(run, ("reed", {})) == [("unknown_tool", "known tools")]
    assert run.results[0]["content"].endswith("The tools are: read, write.")
    assert [call.tool for call in run.state.failed_calls] == ["reed"]


def test_arguments_against_the_schema_are_answered_before_anybody_is_asked():
    tool = FakeTool("write", impact="high", required=("path", "text"), raises_tier=never)
    run = Simulation((tool,), answer=never)
    assert one_turn(run, ("write", {})) == [("invalid", "schema")]
    assert run.results[0]["content"].endswith("path: missing; text: missing")
    assert [call.tool for call in run.state.failed_calls] == ["write"]


def test_deny_by_name_comes_before_the_schema_and_the_schema_before_the_default():
    tool = FakeTool("write", impact="high", required=("path",))
    run = Simulation((tool,), settings={"policy": Policy({"write": "deny"}, default="deny")})
    assert one_turn(run, ("write", {})) == [("denied", "deny write (Policy)")]
    run = Simulation((tool,), settings={"policy": Policy(default="deny")})
    assert one_turn(run, ("write", {}), ("write", {"path": "x"})) == [
        ("invalid", "schema"),
        ("denied", "default = deny"),
    ]


@pytest.mark.parametrize("part", ["problems", "asks_anyway"])
def test_a_tool_that_cannot_judge_its_arguments_is_a_configuration_error(part):
    class Broken(FakeTool):
        pass

    def fails(self, arguments, say):
        raise OSError("no such schema")

    setattr(Broken, part, fails)
    run = Simulation((READ, Broken("write", impact="high")))
    stop = run.run([says(("a", "read", {}), ("b", "write", {}))])
    assert (stop.kind, stop.exit_code) == ("configuration_error", 2)
    assert stop.detail == {"where": "tool write", "error": "OSError: no such schema"}
    assert run.ran == []


# --- approval ---------------------------------------------------------------------------------------------


def test_a_question_shows_exactly_what_would_run_and_by_which_rule_it_is_asked():
    run = Simulation((WRITE,), answer=lambda question: True)
    assert one_turn(run, ("write", {"b": 1, "a": "é"})) == [("allow", "answered by test")]
    (question,) = run.questions
    assert (question.tool, question.arguments, question.impact) == ("write", {"b": 1, "a": "é"}, "high")
    assert (question.rule, question.raised) == ("default = ask", False)
    assert run.ran == [("write", question.arguments)]
    (decided,) = (event for event in run.events if isinstance(event, Decided))
    assert decided.digest == question.digest


@pytest.mark.parametrize(
    "reason, heard", [("", "declined write. The"), ("not today.", "declined write: not today. The")]
)
def test_a_declined_call_does_not_run_and_the_model_hears_why(reason, heard):
    run = Simulation((WRITE,), answer=lambda question: (False, False, reason))
    assert one_turn(run, ("write", {})) == [("declined", "answered by test")]
    assert run.ran == []
    assert heard in run.results[0]["content"]
    assert [call.tool for call in run.state.declined] == ["write"]


def test_where_nobody_is_there_what_needs_an_answer_is_declined():
    run = Simulation((WRITE, READ), settings={"on_ask": "decline"}, answer=never)
    assert one_turn(run, ("write", {}), ("read", {})) == [
        ("declined", "nobody there"),
        ("allow", "impact = read"),
    ]
    assert "nobody is there" in run.results[0]["content"]
    assert [call.tool for call in run.state.declined] == ["write"]


def test_a_yes_in_advance_answers_every_question_of_its_tool_and_no_other():
    run = Simulation((WRITE, SEND), settings={"yes_to": frozenset({"write"}), "on_ask": "decline"})
    assert one_turn(run, ("write", {}), ("send", {})) == [
        ("allow", "--yes-to write"),
        ("declined", "nobody there"),
    ]


def test_a_yes_in_advance_never_opens_what_is_denied():
    for policy in (Policy({"write": "deny"}), Policy(default="deny")):
        run = Simulation((WRITE,), settings={"policy": policy, "yes_to": frozenset({"write"})})
        assert one_turn(run, ("write", {}))[0][0] == "denied"
        assert run.ran == []


def test_an_answer_for_the_session_holds_for_its_tool_in_this_run():
    run = Simulation((WRITE, SEND), answer=lambda question: (True, question.tool == "write", ""))
    replies = [
        says(("a", "write", {"n": 1}), ("b", "send", {"n": 1})),
        says(("c", "write", {"n": 2}), ("d", "send", {"n": 2})),
        says("done"),
    ]
    assert run.run(replies).kind == "completed"
    assert [question.call_id for question in run.questions] == ["a", "b", "d"]
    rules = [event.rule for event in run.events if isinstance(event, Decided) and event.call_id == "c"]
    assert rules == ["allowed this session"]


def test_an_answer_for_the_session_settles_the_other_calls_of_its_turn():
    run = Simulation((WRITE,), answer=lambda question: (True, True, ""))
    assert one_turn(run, ("write", {"n": 1}), ("write", {"n": 2})) == [
        ("allow", "answered by test"),
        ("allow", "allowed this session"),
    ]
    assert len(run.questions) == 1


def test_a_no_for_the_session_declines_one_call_only():
    answers = iter([(False, True, ""), True])
    run = Simulation((WRITE,), answer=lambda question: next(answers))
    assert one_turn(run, ("write", {"n": 1}), ("write", {"n": 2})) == [
        ("declined", "answered by test"),
        ("allow", "answered by test"),
    ]


def test_all_questions_of_a_turn_are_put_at_once_and_only_once():
    run = Simulation((WRITE, SEND))
    one_turn(run, ("write", {}), ("send", {}))
    asked = [event for event in run.events if isinstance(event, Asked)]
    assert [[question.tool for question in event.questions] for event in asked] == [["write", "send"]]


def test_an_answer_given_for_other_arguments_is_refused():
    run = Simulation((WRITE,), answer=never)

    def answers(question):
        other = Answered(0, question.call_id, "0" * 64, True, "test")
        with pytest.raises(
            ValueError, match="digest: the answer for call 'c0' was given for other arguments"
        ):
            run.state.copy().apply(other)
        return False

    run.answer = answers
    assert one_turn(run, ("write", {}))[0][0] == "declined"


def test_whoever_is_asked_cannot_change_what_runs():
    def answers(question):
        question.arguments["paths"].append("/etc/passwd")
        return True

    run = Simulation((WRITE,), answer=answers)
    one_turn(run, ("write", {"paths": ["notes.txt"]}))
    assert run.ran == [("write", {"paths": ["notes.txt"]})]
    assert run.messages[1]["content"][0]["input"] == {"paths": ["notes.txt"]}


def test_a_no_is_not_forgotten_where_the_rules_have_changed_since():
    def answers(question):
        run.env = replace(run.env, policy=Policy({"write": "allow"}))
        return False

    run = Simulation((WRITE,), answer=answers)
    assert one_turn(run, ("write", {})) == [("declined", "answered by test")]


# --- raised tiers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Policy(), Policy({"careful": "allow"}), Policy({"*": "allow"})])
def test_a_raised_call_is_asked_whatever_the_rules_allow(policy):
    run = Simulation((CAREFUL,), settings={"policy": policy})
    assert one_turn(run, ("careful", {"p": ".env"}), ("careful", {"p": "x"}))[0] != (
        "allow",
        "answered by test",
    )
    (question,) = run.questions
    assert (question.arguments, question.rule, question.raised) == ({"p": ".env"}, "a key file", True)
    assert len(run.ran) == 2


def test_a_raised_call_is_not_covered_by_an_answer_for_the_session():
    answers = iter([(True, True, ""), (False, False, "no")])
    run = Simulation(
        (CAREFUL,), settings={"policy": Policy({"careful": "ask"})}, answer=lambda q: next(answers)
    )
    assert one_turn(run, ("careful", {"p": "x"}), ("careful", {"p": ".env"}), ("careful", {"p": "y"})) == [
        ("allow", "answered by test"),
        ("allow", "allowed this session"),
        ("declined", "answered by test"),
    ]
    assert [question.raised for question in run.questions] == [False, True]


def test_a_raised_call_is_declined_where_nobody_is_there():
    run = Simulation((CAREFUL,), settings={"policy": Policy({"careful": "allow"}), "on_ask": "decline"})
    assert one_turn(run, ("careful", {"p": ".env"})) == [("declined", "nobody there")]


def test_a_raised_call_is_covered_by_a_yes_in_advance():
    run = Simulation((CAREFUL,), settings={"yes_to": frozenset({"careful"})}, answer=never)
    assert one_turn(run, ("careful", {"p": ".env"})) == [("allow", "--yes-to careful")]


def test_a_raised_call_that_is_denied_is_not_asked():
    policy = Policy([Rule("careful", "deny", "--deny"), Rule("careful", "allow")])
    run = Simulation((CAREFUL,), settings={"policy": policy}, answer=never)
    assert one_turn(run, ("careful", {"p": ".env"})) == [("denied", "deny careful (--deny)")]


# --- what runs when ---------------------------------------------------------------------------------------


def test_nothing_runs_before_all_is_decided():
    def answers(question):
        assert run.ran == []
        return question.tool == "write"

    run = Simulation((READ, WRITE, SEND), answer=answers)
    one_turn(run, ("read", {}), ("write", {}), ("send", {}), ("gone", {}))
    assert [name for name, _ in run.ran] == ["read", "write"]
    assert ["is_error" in result for result in run.results] == [False, False, True, True]


def test_reads_in_a_row_run_together_and_any_other_call_alone_and_in_order():
    again = FakeTool("again", impact="idempotent")
    run = Simulation((READ, WRITE, again), settings={"yes_to": frozenset({"write", "again"})})
    names = ("read", "read", "write", "read", "again", "again", "gone", "read", "gone", "read")
    one_turn(run, *((name, {"n": n}) for n, name in enumerate(names)))
    assert run.groups == [["read", "read"], ["write"], ["read"], ["again"], ["again"], ["read", "read"]]
    assert [result["tool_use_id"] for result in run.results] == [f"c{n}" for n in range(len(names))]


def test_a_tool_that_raises_does_not_end_the_run_and_the_others_keep_their_results():
    def fails(arguments):
        raise ValueError("no such page")

    run = Simulation((READ, FakeTool("fails", fails)))
    one_turn(run, ("read", {"p": 1}), ("fails", {}), ("read", {"p": 2}))
    assert [result["content"] for result in run.results] == [
        "content of 1",
        "ValueError: no such page",
        "content of 2",
    ]
    assert ["is_error" in result for result in run.results] == [False, True, False]
    assert [call.tool for call in run.state.failed_calls] == ["fails"]


def test_a_step_carries_what_must_be_remembered_before_it_is_done():
    state = State(started((READ,)))
    state.apply(Said(0, "task"))
    run = Simulation((READ,))
    step = next_step(state, run.env)
    assert [type(event) for event in step.events] == [Sent]
    for event in (*step.events, Received(0, says(("a", "read", {}), ("b", "read", {})))):
        state.apply(event)
    while not isinstance(step := next_step(state, run.env), Execute):
        for event in step.events:
            state.apply(event)
    assert [event.call_id for event in step.events] == ["a", "b"]  # type: ignore[union-attr]


def test_while_an_attempt_is_in_flight_there_is_no_next_step():
    run = Simulation()
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    with pytest.raises(RuntimeError, match="an attempt is in flight"):
        next_step(run.state, run.env)


# --- somebody wants out -----------------------------------------------------------------------------------


def busy_run(interrupt_after=None):
    """A run with a question, two groups, a call of no tool, and a pause."""
    run = Simulation((READ, WRITE), interrupt_after=interrupt_after)
    replies = [
        says("wait", stop="pause_turn"),
        says("look", ("a", "read", {}), ("b", "write", {}), ("c", "gone", {})),
        says(("d", "read", {"n": 2}), ("e", "read", {})),
        says("done"),
    ]
    return run, run.run(replies)


whole_run, whole_stop = busy_run()


@pytest.mark.parametrize("after", range(2, len(whole_run.events)))
def test_whenever_somebody_wants_out_the_run_stops_with_a_whole_history(after):
    run, stop = busy_run(interrupt_after=after)
    last = run.events[after - 1]
    if stop.kind == "completed":
        assert after >= len(whole_run.events) - 2, "the answer was there or under way"
        return
    assert (stop.kind, stop.stop_class) == ("interrupted", "interrupted")
    later = run.events[after + 1 :]
    assert not any(isinstance(event, Sent | Asked) for event in later) or isinstance(last, Sent | Asked)
    started_calls = {event.call_id for event in run.events if type(event).__name__ == "CallStarted"}
    finished = {event.call_id for event in run.events if isinstance(event, CallFinished)}
    assert started_calls == finished, "what was started was let end"
    for result in run.results:
        ran = result["tool_use_id"] in finished
        assert ("is_error" in result) is not ran
        if not ran and result["tool_use_id"] != "c":
            assert result["content"] == "did not run: interrupted"
    assert {call.id for call in run.state.not_run} <= {"a", "b", "c", "d", "e"} - finished


def test_the_first_wish_to_stop_is_the_one_that_counts():
    run = Simulation()
    run.learn(StopRequested(0, INTERRUPTED), StopRequested(0, Stop("stopped")))
    assert run.run([]).kind == "interrupted"


def test_an_answer_that_is_there_is_worth_more_than_the_wish_to_stop():
    run = Simulation(interrupt_after=4)
    assert run.run([says("done")]).kind == "completed"


def test_a_call_that_was_started_and_never_ended_has_an_unknown_outcome():
    run = Simulation((WRITE, READ), Limits(deadline=5), settings={"yes_to": frozenset({"write"})})
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    run.learn(Received(0, says(("a", "write", {}), ("b", "read", {}))))
    while not isinstance(step := next_step(run.state, run.env), Execute):
        run.learn(*step.events)
    run.learn(*step.events)
    run.learn(StopRequested(0, INTERRUPTED))
    done = next_step(run.state.copy(), run.env)
    run.learn(*done.events)
    assert [result["content"].split(":")[0] for result in run.results] == ["outcome unknown", "did not run"]
    assert [call.tool for call in run.state.not_run] == ["read"]
