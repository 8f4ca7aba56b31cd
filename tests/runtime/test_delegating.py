# mypy: ignore-errors
"""Runs that start runs: they spend what their parent has left, stop when it stops, and go on with it."""

import asyncio
import functools
import time
from decimal import Decimal

import pytest

from brida import Agent, ConfigurationError, JournalError, Limits, Policy, ScriptedModel, tool
from brida.core.events import CallFinished, ChildSent, ChildSettled, Resumed, Sent, Started, Stopped
from brida.core.prices import Prices
from brida.core.replay import replay
from brida.core.state import State, fold
from brida.delegating import child_id, delegate_tool
from brida.journal.sqlite import SqliteJournal
from brida.models.scripted import reply, tool_use

DEAR = Prices.of(input="0", output="40")  # 0.04 for 1,000 tokens of output
FULL = {"input_tokens": 10, "output_tokens": 1_000}


@tool(impact="read")
def look(place: int = 0) -> str:
    """Look."""
    return "seen"


@tool
def write(text: str) -> str:
    """Write."""
    written.append(text)
    return "written"


written: list[str] = []


@pytest.fixture(autouse=True)
def nothing_written():
    written.clear()


def async_test(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


def asks(call_id="c1", task="look around"):
    return reply(tool_use(call_id, "delegate", {"task": task}))


def journal_of(tmp_path):
    return SqliteJournal(tmp_path / "journal.db")


def events_of(journal, run_id):
    return [record.event for record in journal.read(run_id)]


def child(script, *, tools=(look,), **more):
    return Agent(
        model=ScriptedModel(script, name="child", prices=DEAR), tools=tools, max_tokens=1_000, **more
    )


def parent(script, worker=None, **more):
    given = {"max_tokens": 1_000, "language": "en", **more}
    tools = given.pop("tools", [delegate_tool(worker)])
    return Agent(model=ScriptedModel(script, name="parent", prices=DEAR), tools=tools, **given)


def test_the_parent_reads_what_the_child_said():
    worker = child([reply(tool_use("x", "look")), reply("it is green")])
    agent = parent([asks(), reply("the child says it is green")], worker)
    outcome = agent.run_sync("go")
    assert outcome.completed
    result = outcome.messages[2]["content"][0]
    assert (result["content"], result.get("is_error")) == ("it is green", None)
    assert worker.model.requests[0]["messages"][0]["content"][0]["text"] == "look around"


def test_the_parents_total_is_its_own_and_its_childrens():
    worker = child([reply("done", usage=FULL)])
    outcome = parent([asks(), reply("ok", usage=FULL)], worker).run_sync("go")
    assert outcome.usage.output_tokens == 5 + 1_000 + 1_000
    assert outcome.cost == Decimal("0.0802")
    assert outcome.spending.children.usage.output_tokens == 1_000
    assert outcome.spending.own.usage.output_tokens == 1_005


def test_a_child_stops_within_what_its_parent_has_left(tmp_path):
    worker = child(
        lambda body: reply(
            tool_use(f"x{len(body['messages'])}", "look", {"place": len(body["messages"])}), usage=FULL
        )
    )
    limits = Limits(max_cost="0.10", max_tokens_total=None)
    agent = parent([asks(), reply("ok")], worker, limits=limits, journal=journal_of(tmp_path))
    outcome = agent.run_sync("go")
    assert len(worker.model.requests) == 2  # each is 0.04 at worst
    assert outcome.cost == Decimal("0.0802")
    assert outcome.stop.kind == "cost_budget"
    heard = outcome.messages[2]["content"][0]
    assert heard["is_error"]
    assert "The agent stopped before it was done" in heard["content"]
    stops = [e for e in outcome.events if isinstance(e, Stopped)]
    assert len(stops) == 1


def test_two_children_at_once_share_what_is_left(tmp_path):
    workers = child(
        lambda body: reply(
            tool_use(f"x{len(body['messages'])}", "look", {"place": len(body["messages"])}), usage=FULL
        )
    )
    both = reply(tool_use("a", "delegate", {"task": "1"}), tool_use("b", "delegate", {"task": "2"}))
    limits = Limits(max_cost="0.21", max_tokens_total=None)
    outcome = parent([both, reply("ok")], workers, limits=limits).run_sync("go")
    assert len(workers.model.requests) == 5
    assert outcome.cost == Decimal("0.2002")


def test_a_child_of_unknown_price_is_not_started_under_a_limit_of_money():
    worker = Agent(model=ScriptedModel([], name="free?"))
    outcome = parent([asks(), reply("ok")], worker, limits=Limits(max_cost=1)).run_sync("go")
    assert outcome.completed
    assert "the price of free? is not known" in outcome.messages[2]["content"][0]["content"]
    assert worker.model.requests == []


def test_the_policy_of_a_child_can_only_be_narrower():
    worker = child([reply(tool_use("w", "write", {"text": "x"})), reply("tried")], tools=[write])
    worker = worker.replaced(policy=Policy({"write": "allow"}))
    agent = parent([asks(), reply("ok")], worker, policy=Policy({"write": "deny"}))
    assert agent.run_sync("go").completed
    assert written == []


def test_a_yes_in_advance_of_a_child_is_none_where_its_parent_asks():
    worker = child(
        [reply(tool_use("w", "write", {"text": "x"})), reply("tried")], tools=[write], yes_to=["write"]
    )
    parent([asks(), reply("ok")], worker).run_sync("go")
    assert written == []


def test_the_person_of_the_parent_is_asked_for_the_child():
    asked = []
    worker = child([reply(tool_use("w", "write", {"text": "x"})), reply("tried")], tools=[write])
    agent = parent([asks(), reply("ok")], worker, approve=lambda q: asked.append(q.tool) or True)
    assert agent.run_sync("go").completed
    assert (asked, written) == (["write"], ["x"])


def test_runs_start_runs_so_deep_and_no_deeper():
    def model(body):
        if len(body["messages"]) > 1:
            return reply(str(body["messages"][-1]["content"][0].get("content")))
        return reply(tool_use("c", "delegate", {"task": "deeper"}))

    agent = Agent(
        model=ScriptedModel(model), tools=[delegate_tool()], limits=Limits(max_depth=2), language="en"
    )
    outcome = agent.run_sync("go")
    assert outcome.completed
    depths = [len(body["messages"]) for body in agent.model.requests]
    tools = [bool(body.get("tools")) for body in agent.model.requests]
    assert len(depths) == 6  # three runs, of two requests each
    assert tools == [True, True, False, False, True, True]


def test_depth_none_starts_no_run():
    worker = child([reply("no")])
    outcome = parent([asks(), reply("ok")], worker, limits=Limits(max_depth=0)).run_sync("go")
    assert outcome.messages[2]["content"][0]["is_error"]
    assert worker.model.requests == []


def test_an_agent_is_a_tool_by_its_own_name():
    worker = child([reply("ok")])
    made = worker.as_tool(name="research", description="Looks things up.")
    assert (made.name, made.impact, made.description) == ("research", "read", "Looks things up.")
    agent = parent([reply(tool_use("c", "research", {"task": "x"})), reply("done")], tools=[made])
    assert agent.run_sync("go").completed


async def with_a_child_that_waits_for_its_model(journal):
    begun = asyncio.Event()

    class Never(ScriptedModel):
        async def complete(self, request, on_delta):
            begun.set()
            await asyncio.Event().wait()

    worker = Agent(model=Never([], name="never", prices=DEAR))
    run = parent([asks()], worker, journal=journal).start("go")
    await asyncio.wait_for(begun.wait(), 10)
    return run


@async_test
async def test_stopping_a_parent_stops_its_children(tmp_path):
    journal = journal_of(tmp_path)
    run = await with_a_child_that_waits_for_its_model(journal)
    run.interrupt()
    outcome = await run
    assert outcome.stop.kind == "interrupted"
    ended = fold(events_of(journal, child_id(run.id, "c1")))
    assert ended.stop.kind == "interrupted"
    held = [e for e in outcome.events if isinstance(e, ChildSettled)]
    assert held[-1].held_cost > 0  # what the abandoned request may have cost stays counted


@async_test
async def test_cancelling_a_parent_ends_its_children_first(tmp_path):
    journal = journal_of(tmp_path)
    run = await with_a_child_that_waits_for_its_model(journal)
    run.cancel()
    outcome = await run
    assert outcome.stop.kind == "interrupted"
    assert fold(events_of(journal, child_id(run.id, "c1"))).stop is not None
    assert isinstance(events_of(journal, run.id)[-1], Stopped)


def test_a_child_that_waits_parks_its_parent_and_both_go_on(tmp_path):
    journal = journal_of(tmp_path)
    worker = child([reply(tool_use("w", "write", {"text": "x"})), reply("wrote it")], tools=[write])
    agent = parent([asks(), reply("all done")], worker, journal=journal, on_ask="park")
    outcome = agent.run_sync("go")
    run_id = child_id(outcome.run_id, "c1")
    assert (outcome.stop.kind, outcome.stop.detail["runs"]) == ("waiting", [run_id])
    assert [call.tool for call in outcome.questions] == ["delegate"]
    assert written == []
    again = agent.resume_sync(outcome.run_id)
    assert again.stop.kind == "waiting"  # nobody has answered
    answered = agent.replaced(approve=lambda question: True, on_ask="decline").resume_sync(outcome.run_id)
    assert answered.completed
    assert written == ["x"]
    assert answered.messages[2]["content"][0]["content"] == "wrote it"
    assert replay(answered.events).holds


def test_a_child_does_not_go_on_without_its_parent(tmp_path):
    journal = journal_of(tmp_path)
    worker = child([reply(tool_use("w", "write", {"text": "x"})), reply("wrote it")], tools=[write])
    outcome = parent([asks(), reply("all done")], worker, journal=journal, on_ask="park").run_sync("go")
    alone = worker.replaced(journal=journal)
    with pytest.raises(ConfigurationError, match="belongs to run"):
        alone.resume_sync(child_id(outcome.run_id, "c1"))


def crash_after(events, kind, number=1):
    places = [place for place, event in enumerate(events, 1) if isinstance(event, kind)]
    return events[: places[number - 1]]


def rewrite(path, journal, runs):
    """A journal that holds these events alone, as a process that died left it."""
    other = SqliteJournal(path)
    for run_id, events in runs.items():
        writer = other.begin(run_id)
        state = None
        for event in events:
            if isinstance(event, Started):
                state = State(event)
                writer.append((event,), state)
                continue
            writer.append((event,), state)
            state.apply(event)
        writer.release()
    return other


def test_a_parent_whose_process_died_goes_on_with_the_child_that_is_there(tmp_path):
    journal = journal_of(tmp_path)
    script = [reply(tool_use("x", "look"), usage=FULL), reply("green", usage=FULL)]
    worker = child(list(script))
    agent = parent([asks(), reply("ok")], worker, journal=journal)
    whole = agent.run_sync("go")
    below = child_id(whole.run_id, "c1")
    mine, its = events_of(journal, whole.run_id), events_of(journal, below)
    dead = rewrite(
        tmp_path / "dead.db",
        journal,
        {whole.run_id: crash_after(mine, ChildSettled), below: crash_after(its, CallFinished)},
    )
    worker = child(script[1:])
    outcome = parent([reply("ok")], worker, journal=dead).resume_sync(whole.run_id)
    assert outcome.completed
    assert len(worker.model.requests) == 1
    assert outcome.usage.output_tokens == whole.usage.output_tokens
    assert isinstance(events_of(dead, below)[len(crash_after(its, CallFinished))], Resumed)


def test_a_child_that_had_ended_is_not_run_again(tmp_path):
    journal = journal_of(tmp_path)
    agent = parent([asks(), reply("ok")], child([reply("green", usage=FULL)]), journal=journal)
    whole = agent.run_sync("go")
    below = child_id(whole.run_id, "c1")
    mine = events_of(journal, whole.run_id)
    dead = rewrite(
        tmp_path / "dead.db",
        journal,
        {whole.run_id: crash_after(mine, ChildSettled), below: events_of(journal, below)},
    )
    worker = child([])
    outcome = parent([reply("ok")], worker, journal=dead).resume_sync(whole.run_id)
    assert outcome.completed
    assert outcome.messages[2]["content"][0]["content"] == "green"
    assert worker.model.requests == []


def test_what_a_child_had_under_way_when_the_process_died_stays_counted(tmp_path):
    journal = journal_of(tmp_path)
    limits = Limits(max_cost="0.09", max_tokens_total=None)
    agent = parent([asks(), reply("ok")], child([reply("green", usage=FULL)]), journal=journal, limits=limits)
    whole = agent.run_sync("go")
    below = child_id(whole.run_id, "c1")
    mine, its = events_of(journal, whole.run_id), events_of(journal, below)
    dead = rewrite(
        tmp_path / "dead.db",
        journal,
        {whole.run_id: crash_after(mine, ChildSent), below: crash_after(its, Sent)},
    )
    worker = child([reply("green", usage=FULL)])
    outcome = parent([reply("ok")], worker, journal=dead, limits=limits).resume_sync(whole.run_id)
    assert len(worker.model.requests) == 1  # 0.04 held, 0.04 spent, and no more fits
    assert outcome.held_cost == Decimal("0.04")
    assert outcome.stop.kind == "cost_budget"
    assert outcome.cost + outcome.held_cost <= Decimal("0.09")


def test_a_child_may_not_let_the_server_work_where_its_parent_may_not():
    extra = {"mcp_servers": [{"name": "x"}]}
    worker = child([reply("no")], extra=extra, limits=Limits(server_tools=True))
    outcome = parent([asks(), reply("ok")], worker, limits=Limits(max_cost=1)).run_sync("go")
    assert "nothing bounds what a reply costs" in outcome.messages[2]["content"][0]["content"]
    assert worker.model.requests == []


def test_a_model_that_breaks_after_it_was_asked_may_have_been_paid_for():
    class Broken(ScriptedModel):
        async def complete(self, request, on_delta):
            raise RuntimeError("no")

    agent = Agent(model=Broken([], prices=DEAR), max_tokens=1_000)
    with pytest.raises(ConfigurationError) as raised:
        agent.run_sync("go")
    assert raised.value.outcome.held_cost == Decimal("0.04")


def test_a_run_keeps_the_budgets_that_it_began_with(tmp_path):
    journal = journal_of(tmp_path)
    journal.create_budget("team", Decimal(1), "total")
    outcome = parent([reply("x")], tools=[], journal=journal).run_sync("go")
    later = parent([reply("x")], tools=[], journal=journal, budgets=["team"])
    with pytest.raises(ConfigurationError, match="the run began with none, and a run keeps its budgets"):
        later.resume_sync(outcome.run_id, "and?")


def test_what_a_run_sends_is_looked_at_when_it_goes_on_under_a_limit(tmp_path):
    journal = journal_of(tmp_path)
    agent = parent([reply("x")], tools=[], journal=journal, extra={"speed": "fast"})
    outcome = agent.run_sync("go")
    with pytest.raises(ConfigurationError, match="speed"):
        agent.replaced(limits=Limits(max_cost=1)).resume_sync(outcome.run_id, "and?")


def test_what_a_child_worked_before_counts_once(tmp_path):
    journal = journal_of(tmp_path)

    @tool(impact="high")
    def slow() -> str:
        """Take a second."""
        time.sleep(1.0)
        return "done"

    script = [reply(tool_use("s", "slow")), reply(tool_use("w", "write", {"text": "x"})), reply("wrote it")]
    worker = child(script, tools=[slow, write], policy=Policy({"slow": "allow", "write": "ask"}))
    agent = parent(
        [asks(), reply("all done")],
        worker,
        journal=journal,
        on_ask="park",
        limits=Limits(deadline=1.9),
        policy=Policy({"slow": "allow"}),
    )
    outcome = agent.run_sync("go")
    assert outcome.stop.kind == "waiting"
    again = agent.replaced(approve=lambda question: True, on_ask="decline").resume_sync(outcome.run_id)
    assert (again.completed, written) == (True, ["x"])


def test_a_budget_that_is_gone_ends_the_run_in_order(tmp_path):
    journal = journal_of(tmp_path)
    journal.create_budget("team", Decimal(1), "total")

    @tool(impact="read")
    def gone() -> str:
        """Remove the budget."""
        journal.remove_budget("team")
        return "removed"

    agent = parent([reply(tool_use("g", "gone"))], tools=[gone], journal=journal, budgets=["team"])
    outcome = agent.run_sync("go")
    assert (outcome.stop.kind, outcome.journal_error) == ("stopped", None)
    assert "there is no budget team" in outcome.stop.detail["reason"]
    assert isinstance(events_of(journal, outcome.run_id)[-1], Stopped)


def test_nothing_leaves_whose_reserve_the_parent_could_not_record(tmp_path):
    journal = journal_of(tmp_path)
    worker = child([reply("never asked")])
    agent = parent([asks()], worker, journal=journal, limits=Limits(max_cost=1))
    begin = journal.begin

    def failing(run_id):
        writer = begin(run_id)
        append = writer.append

        def limited(events, state, **more):
            if any(isinstance(event, ChildSent) for event in events):
                raise JournalError("the disk is full")
            append(events, state, **more)

        writer.append = limited
        return writer

    journal.begin = failing
    outcome = agent.run_sync("go")
    assert outcome.stop.kind == "journal_error"
    assert worker.model.requests == []
