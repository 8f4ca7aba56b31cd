# mypy: disable-error-code="arg-type,index,method-assign,union-attr"
"""An agent with a journal: what is kept, resuming, waiting, steering, and a journal that fails."""

import asyncio
import json
import sqlite3
import threading
import time

import pytest

from brida import (
    Agent,
    Answer,
    ConfigurationError,
    Limits,
    Policy,
    ScriptedModel,
    current_call,
    reply,
    tool,
    tool_use,
)
from brida.core.events import Answered, CallFinished, CallStarted, Decided, Received, Said
from brida.core.replay import fork, places_to_fork, replay
from brida.core.state import fold
from brida.errors import JournalError, LeaseLost, ResumeRefused, RunBusy, UnknownRun
from brida.journal.sqlite import SqliteJournal
from brida.runtime.questions import answered
from brida.tools.reconcile import DID_NOT_HAPPEN, Happened
from support.agents import check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def events_of(path, run_id="-"):
    journal = SqliteJournal(path)
    return [record.event for record in journal.read(journal.find(run_id))]


def answer(path, run_id, said, which=0, age=0.0):
    """Answers a question of a run as another process does, or did ``age`` seconds ago."""
    journal = SqliteJournal(path)
    writer = journal.hold(run_id)
    try:
        state = fold(record.event for record in journal.read(run_id))
        question = state.questions[which].question
        writer.append([answered(question, said, time.time() - age)], state)
    finally:
        writer.release()


def kinds(events):
    return [type(event).__name__ for event in events]


@tool
def pay(amount: int = 1) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(impact="read")
def look(p: int = 0) -> str:
    """Look."""
    return f"seen {p}"


def make(path, script, *tools, **settings):
    model = ScriptedModel(script)
    agent = Agent(model=model, tools=tools or (pay, look), language="en", journal=path, **settings)
    return agent, model


# -- what is kept


def test_every_event_of_a_run_is_in_the_journal_as_it_was(path):
    agent, model = make(path, [reply(tool_use("a", "look")), reply("so")])
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert events_of(path) == list(outcome.events)
    assert replay(outcome.events).same == 2


def test_an_agent_without_a_journal_keeps_nothing_and_cannot_resume(tmp_path):
    agent, _ = make(None, [reply("so")])
    outcome = agent.run_sync("go")
    with pytest.raises(ConfigurationError, match="journal: this agent keeps none"):
        agent.resume_sync(outcome.run_id)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_reply_is_in_the_journal_and_not_in_the_history(path):
    refused = reply(stop_reason="refusal", stop_details={"category": "x", "explanation": "no"})
    agent, _ = make(path, [reply(tool_use("a", "look")), refused])
    outcome = agent.run_sync("go")
    assert (outcome.stop.kind, outcome.stop.detail["category"]) == ("refused", "x")
    replies = [event.reply for event in events_of(path) if isinstance(event, Received)]
    assert replies[-1].stop_reason == "refusal"
    assert outcome.messages[-1]["role"] == "user"


def test_a_decision_is_kept_with_its_rule_its_digest_and_its_time(path):
    agent, _ = make(path, [reply(tool_use("a", "pay")), reply("so")], policy=Policy({"pay": "allow"}))
    agent.run_sync("go")
    (decided,) = (event for event in events_of(path) if isinstance(event, Decided))
    assert decided.verdict == "allow"
    assert "pay" in decided.rule
    assert len(decided.digest) == 64
    assert decided.at == pytest.approx(time.time(), abs=60)


def test_the_intent_is_in_the_journal_before_the_effect(path):
    seen = []

    @tool
    def act() -> str:
        seen.append(kinds(events_of(path)))
        return "done"

    agent, _ = make(path, [reply(tool_use("a", "act")), reply("so")], act, yes_to=["act"])
    agent.run_sync("go")
    assert seen[0][-1] == "CallStarted"


def test_a_run_that_goes_on_by_its_outcome_is_one_run_in_the_journal(path):
    agent, _ = make(path, [reply("noon"), reply("one")])
    second = agent.run_sync("now?").continue_sync("and in an hour?")
    assert events_of(path) == list(second.events)
    assert len(SqliteJournal(path).runs()) == 1


def test_an_outcome_from_which_the_run_went_on_already_does_not_go_on_again(path):
    agent, _ = make(path, [reply("noon"), reply("one"), reply("two")])
    first = agent.run_sync("now?")
    first.continue_sync("and in an hour?")
    with pytest.raises(ConfigurationError, match="fork it"):
        first.continue_sync("and an hour ago?")


# -- resume


def test_a_complete_run_goes_on_with_a_text_alone(path):
    agent, model = make(path, [reply("noon"), reply("one")])
    run_id = agent.run_sync("now?").run_id
    with pytest.raises(ConfigurationError, match="say what to do next"):
        agent.resume_sync(run_id)
    outcome = agent.resume_sync(run_id[:8], "and in an hour?")
    check(outcome, model)
    assert (outcome.text, outcome.run_id) == ("one", run_id)


def test_a_run_that_its_turns_stopped_goes_on_with_more_of_them(path):
    """C07: the call stays answered, nothing is run twice, the counts go on."""
    script = [reply(tool_use(f"c{n}", "look", {"p": n})) for n in range(5)]
    agent, model = make(path, script, limits=Limits(max_turns=1))
    stopped = agent.run_sync("go")
    assert (stopped.stop.kind, stopped.turns) == ("max_turns", 1)
    more = Agent(model=model, tools=(pay, look), language="en", journal=path, limits=Limits(max_turns=3))
    outcome = more.resume_sync("-")
    check(outcome, model)
    assert (outcome.stop.kind, outcome.turns) == ("max_turns", 3)
    last = model.requests[2]["messages"][-1]["content"]
    assert [block["content"] for block in last] == ["did not run: turn limit"]


def test_an_agent_that_is_not_the_same_is_refused_and_what_differs_is_named(path):
    agent, model = make(path, [reply(tool_use("a", "pay"))], on_ask="park")
    agent.run_sync("go")
    before = events_of(path)

    @tool(name="pay", impact="read")
    def other(amount: str) -> str:
        return amount

    for tools, what in (((look,), "tool pay: was there, is gone"), ((other, look), "tool pay: impact")):
        changed = Agent(model=model, tools=tools, language="en", journal=path)
        with pytest.raises(ResumeRefused, match=what) as refused:
            changed.resume_sync("-")
        assert refused.value.outcome.stop.kind == "definition_changed"
    assert events_of(path) == before


def test_a_tool_that_was_added_does_not_matter(path):
    agent, model = make(path, [reply("noon"), reply("one")], look)
    agent.run_sync("now?")
    more = Agent(model=model, tools=(look, pay), language="en", journal=path)
    assert more.resume_sync("-", "and then?").completed
    assert [one["name"] for one in model.requests[1]["tools"]] == ["look"]


def test_a_run_that_is_not_there_or_is_busy_is_said(path):
    agent, _ = make(path, [reply("noon")])
    with pytest.raises(UnknownRun):
        agent.resume_sync("-")
    run_id = agent.run_sync("now?").run_id
    with pytest.raises(UnknownRun, match="no run zz"):
        agent.resume_sync("zz", "more")
    holder = SqliteJournal(path).hold(run_id)
    with pytest.raises(RunBusy, match="busy"):
        agent.resume_sync(run_id, "more")
    holder.release()
    assert fold(events_of(path)).stop.kind == "completed"


# -- waiting (C16)


def three_calls(path):
    ran = []

    @tool(impact="read")
    def free() -> str:
        ran.append("free")
        return "free"

    @tool
    def ask1() -> str:
        ran.append("ask1")
        return "one"

    @tool
    def ask2() -> str:
        ran.append("ask2")
        return "two"

    calls = [tool_use("a", "free"), tool_use("b", "ask1"), tool_use("c", "ask2")]
    agent, model = make(path, [reply(*calls), reply("so")], free, ask1, ask2, on_ask="park")
    return agent, model, ran


def test_nothing_of_a_turn_runs_before_all_its_questions_are_answered(path):
    agent, model, ran = three_calls(path)
    parked = agent.run_sync("go")
    assert (parked.stop.kind, ran) == ("waiting", [])
    assert [call.id for call in parked.questions] == ["b", "c"]
    check(parked, model)
    answer(path, parked.run_id, Answer(True))
    again = agent.resume_sync("-")
    assert (again.stop.kind, ran, [call.id for call in again.questions]) == ("waiting", [], ["c"])
    answer(path, parked.run_id, Answer(False, reason="no"))
    outcome = agent.resume_sync("-")
    check(outcome, model)
    assert (outcome.stop.kind, ran) == ("completed", ["free", "ask1"])
    results = outcome.messages[2]["content"]
    assert [block["tool_use_id"] for block in results] == ["a", "b", "c"]
    assert [block.get("is_error", False) for block in results] == [False, False, True]


def test_an_answer_for_other_arguments_is_refused_and_changes_nothing(path):
    agent, _, ran = three_calls(path)
    parked = agent.run_sync("go")
    state = fold(parked.events)
    with pytest.raises(ValueError, match="given for other arguments"):
        state.apply(Answered(state.at, "b", "0" * 64, True, "x"))
    assert ran == []


def test_an_answer_that_is_too_old_is_asked_for_again(path):
    agent, _ = make(path, [reply(tool_use("a", "pay")), reply("so")], on_ask="park", approval_ttl=60)
    parked = agent.run_sync("go")
    answer(path, parked.run_id, Answer(True), age=61)
    assert agent.resume_sync("-").stop.kind == "waiting"
    answer(path, parked.run_id, Answer(True))
    assert agent.resume_sync("-").completed


def test_an_answer_for_the_session_holds_when_the_run_is_resumed_and_in_no_other(path):
    script = [reply(tool_use(f"p{n}", "pay", {"amount": n})) if n % 2 == 0 else reply("so") for n in range(6)]
    asked = []

    def approve(question):
        asked.append(question.call_id)
        return Answer(True, session=True)

    agent, _ = make(path, script, approve=approve)
    run_id = agent.run_sync("pay").run_id
    assert agent.resume_sync(run_id, "pay again").completed
    assert asked == ["p0"]
    agent.run_sync("another session")
    assert asked == ["p0", "p4"]


def test_a_fork_is_a_session_of_its_own(path):
    script = [reply(tool_use("p0", "pay")), reply("so"), reply(tool_use("p1", "pay")), reply("so")]
    asked = []

    def approve(question):
        asked.append(question.call_id)
        return Answer(True, session=True)

    agent, _ = make(path, script, approve=approve)
    events = agent.run_sync("pay").events
    made = fork(events, places_to_fork(events)[-1], "fork")
    assert made[0].forked_from == f"{events[0].run_id}:{len(events)}"
    writer = agent.journal.begin("fork")
    writer.append(made, fold(made))
    writer.release()
    assert agent.resume_sync("fork", "again").completed
    assert asked == ["p0", "p1"]


def test_nothing_is_forked_where_something_is_under_way():
    agent, _ = make(None, [reply(tool_use("p0", "look")), reply("so")])
    events = agent.run_sync("go").events
    started = next(n for n, event in enumerate(events, 1) if isinstance(event, CallStarted))
    assert started not in places_to_fork(events)
    with pytest.raises(ValueError, match="no place to fork"):
        fork(events, started, "fork")


# -- a call whose process died


def died(path, script, act, **settings):
    """A run whose process died after its effect: the journal ends with the intent."""
    agent, model = make(path, script, act, yes_to=["act"], **settings)
    agent.run_sync("go")
    events = events_of(path)
    end = next(n for n, event in enumerate(events) if isinstance(event, CallFinished))
    cut = events[:end]
    journal = SqliteJournal(path.with_name("died.db"))
    writer = journal.begin(events[0].run_id)
    writer.append(cut, fold(cut))
    writer.release()
    agent.journal = journal
    return agent, model


@pytest.mark.parametrize(
    "found,heard", [(Happened("arrived"), "arrived"), (DID_NOT_HAPPEN, "acted"), (None, "outcome unknown")]
)
def test_the_tool_itself_says_what_became_of_its_call(path, found, heard):
    seen = []

    def reconcile(call):
        seen.append((call.tool, call.arguments, call.idempotency_key))
        return found

    @tool(reconcile=reconcile)
    def act(n: int) -> str:
        keys.append(current_call().idempotency_key)
        return "acted"

    keys: list[str] = []
    agent, model = died(path, [reply(tool_use("a", "act", {"n": 3})), reply("so"), reply("so")], act)
    outcome = agent.resume_sync("-")
    check(outcome, model)
    assert heard in json.dumps(outcome.messages)
    assert seen == [("act", {"n": 3}, keys[0])]
    assert len(set(keys)) == 1


def test_a_check_that_fails_cannot_tell(path):
    def reconcile(call):
        raise OSError("no network")

    @tool(reconcile=reconcile)
    def act() -> str:
        return "acted"

    agent, _ = died(path, [reply(tool_use("a", "act")), reply("so"), reply("so")], act)
    assert "outcome unknown" in json.dumps(agent.resume_sync("-").messages)


def test_an_approver_that_says_yes_to_everything_repeats_nothing(path):
    ran = []

    @tool
    def act() -> str:
        ran.append(1)
        return "acted"

    agent, _ = died(
        path, [reply(tool_use("a", "act")), reply("so"), reply("so")], act, approve=lambda question: True
    )
    assert "outcome unknown" in json.dumps(agent.resume_sync("-").messages)
    assert ran == [1]


# -- steering


def test_a_text_that_steers_follows_the_results_of_the_turn(path):
    go, acting = threading.Event(), threading.Event()

    @tool(impact="read")
    def act() -> str:
        acting.set()
        go.wait(10)
        return "acted"

    agent, model = make(path, [reply(tool_use("a", "act")), reply("so")], act)

    async def main():
        run = agent.start("go")
        await asyncio.to_thread(acting.wait, 10)
        run.steer("and be quick")
        go.set()
        return await run

    outcome = asyncio.run(main())
    check(outcome, model)
    last = model.requests[1]["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[1]["text"] == "and be quick"
    assert any(isinstance(event, Said) and event.steering for event in outcome.events)


def test_what_was_said_after_the_end_is_not_lost():
    agent, _ = make(None, [reply("so")])

    async def main():
        run = agent.start("go")
        await run
        run.steer("one more thing")
        return run.unheard

    assert asyncio.run(main()) == ("one more thing",)


@pytest.mark.parametrize("text,error", [("  ", ValueError), (3, TypeError)])
def test_what_says_nothing_steers_nothing(text, error):
    agent, _ = make(None, [reply("so")])

    async def main():
        run = agent.start("go")
        with pytest.raises(error, match="expected a text"):
            run.steer(text)
        await run

    asyncio.run(main())


# -- a journal that fails


class Failing:
    """A writer that fails at one kind of event."""

    def __init__(self, writer, kind, error):
        self._writer, self._kind, self._error = writer, kind, error

    def append(self, events, state, *, taken=(), charge=None):
        if any(type(event).__name__ == self._kind for event in events):
            raise self._error
        self._writer.append(events, state, taken=taken, charge=charge)

    def __getattr__(self, name):
        return getattr(self._writer, name)


class FailingJournal(SqliteJournal):
    kind, error = "", JournalError("the disk is full")

    def begin(self, run_id):
        return Failing(super().begin(run_id), self.kind, self.error)


@pytest.mark.parametrize("kind", ["Started", "Said", "Sent", "Received", "CallStarted", "CallFinished"])
def test_a_run_whose_record_cannot_be_kept_ends_before_anything_else_is_done(path, kind):
    ran = []

    @tool
    def act() -> str:
        ran.append(1)
        return "acted"

    journal = FailingJournal(path)
    journal.kind = kind
    agent, model = make(journal, [reply(tool_use("a", "act")), reply("so")], act, yes_to=["act"])
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.stop.kind, outcome.stop.detail["error"]) == ("journal_error", "the disk is full")
    assert outcome.journal_error == outcome.stop
    assert len(model.requests) == (0 if kind in ("Started", "Said", "Sent") else 1)
    assert ran == ([1] if kind == "CallFinished" else [])


def test_an_answer_that_is_there_is_given_though_its_end_could_not_be_kept(path):
    journal = FailingJournal(path)
    journal.kind = "Stopped"
    agent, _ = make(journal, [reply("so")])
    outcome = agent.run_sync("go")
    assert (outcome.stop.kind, outcome.text, outcome.journal_error.kind) == (
        "completed",
        "so",
        "journal_error",
    )


def test_a_real_full_disk_stops_the_run_before_the_call(path):
    ran = []

    @tool
    def act() -> str:
        ran.append(1)
        return "acted"

    @tool(impact="read")
    def fill() -> str:
        connection = sqlite3.connect(path)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.close()
        agent.journal.full_at = pages
        return "x" * 30_000

    class Full(SqliteJournal):
        full_at = None

        def begin(self, run_id):
            writer = super().begin(run_id)
            connection = writer._connection
            append = writer.append

            def limited(events, state, *, taken=(), charge=None):
                if self.full_at is not None:
                    connection.execute(f"PRAGMA max_page_count = {self.full_at}")
                append(events, state, taken=taken, charge=charge)

            writer.append = limited
            return writer

    agent, _ = make(
        Full(path),
        [reply(tool_use("f", "fill")), reply(tool_use("a", "act")), reply("so")],
        fill,
        act,
        yes_to=["act"],
    )
    outcome = agent.run_sync("go")
    assert outcome.stop.kind == "journal_error"
    assert "full" in outcome.stop.detail["error"]
    assert ran == []
    assert replay(events_of(path)).holds


def test_a_run_that_was_taken_over_ends_and_its_record_is_late(path):
    taken = []

    @tool(impact="read")
    def act() -> str:
        taken.append(SqliteJournal(path).hold(SqliteJournal(path).find("-"), take_over=True))
        return "acted"

    agent, _ = make(path, [reply(tool_use("a", "act")), reply("so")], act)
    outcome = agent.run_sync("go")
    taken[0].release()
    assert outcome.stop.kind == "journal_error"
    journal = SqliteJournal(path)
    assert kinds(record.event for record in journal.late(outcome.run_id)) == ["CallFinished"]
    assert isinstance(LeaseLost("x"), JournalError)


def test_what_was_said_to_a_run_after_its_end_is_what_it_goes_on_with(path):
    agent, model = make(path, [reply("noon"), reply("one")])
    run_id = agent.run_sync("now?").run_id
    agent.journal.post(run_id, "steer", "and in an hour?", "another terminal")
    agent.journal.post(run_id, "stop", "", "another terminal")
    outcome = agent.resume_sync(run_id)
    check(outcome, model)
    assert (outcome.text, outcome.turns) == ("one", 0)
    assert model.requests[1]["messages"][-1]["content"][0]["text"] == "and in an hour?"
    with pytest.raises(ConfigurationError, match="say what to do next"):
        agent.resume_sync(run_id)
