# mypy: disable-error-code="index"
"""Money on the command line: a ceiling that holds, alone and shared, and what it came to."""

import itertools
import json
import os
import re
import signal
import threading
from decimal import Decimal

import pytest

from brida.delegating import child_id
from brida.journal.sqlite import SqliteJournal
from support.folders import Folders
from support.script import Slow, asks, rate_limited, says, tool_use, usage
from support.server import Server

PRICES = '[prices."dear"]\ninput = 0\noutput = 39.0625\n'
"""Of 1,024 tokens of output, 0.04 US dollars."""

FULL = usage(10, 1_024)


@pytest.fixture
def folders(tmp_path):
    made = Folders(tmp_path)
    made.user_file.write_text(PRICES)
    return made


def flags(server, *more):
    model = ("--model", "dear", "--base-url", server.base_url, "--max-tokens", "1024", "--lang", "en")
    return (*model, "--tools", "none", "--tools", "get_time", *more)


def new_calls(*, used=FULL):
    """Asks for another tool each time, so that it does not walk in place."""
    numbers = itertools.count()

    def answer(_at, _body):
        number = next(numbers)
        name = ("get_time", "no_tool")[number % 2]
        return asks(tool_use(f"toolu_{number}", name, {"n": number} if number % 2 else {}), usage=used)

    return answer


def posts(server):
    return len([one for one in server.requests if one.path == "/v1/messages"])


def journal_of(folders):
    return SqliteJournal(folders.home / "state" / "brida" / "journal.db")


def test_exactly_the_requests_that_fit_are_made_and_never_one_more(folders):
    with Server(new_calls(), require_key=False) as server:
        ran = folders.run("go", *flags(server, "--max-cost", "0.10", "--json"))
        assert posts(server) == 2
        again = folders.run("resume", "-")
        assert (again.code, posts(server)) == (3, 2)
        more = folders.run("resume", "-", "--max-cost", "0.13")
        assert (more.code, posts(server)) == (3, 3)
    assert (ran.code, ran.object["stop"]["kind"], ran.object["cost"]) == (3, "cost_budget", 0.08)
    words = "cost budget: $0.08 of $0.10 used, and the next request may cost $0.04; --max-cost raises it"
    assert words in again.err


def killed(process, reached):
    """Kills the process once the server has been reached."""
    assert reached.wait(30)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)


def test_what_a_killed_process_had_under_way_stays_counted(folders):
    reached, script = threading.Event(), new_calls()

    def answer(at, body):
        if at == 1:
            reached.set()
            return Slow(script(at, body), 30)
        return script(at, body)

    with Server(answer, require_key=False, allow_violations=True) as server:
        killed(folders.start("go", *flags(server, "--max-cost", "0.10")), reached)
        ran = folders.run("resume", "-", "--json")
        assert posts(server) == 2
    assert ran.object["stop"]["kind"] == "cost_budget"
    assert (ran.object["cost"], ran.object["held_cost"]) == (0.04, 0.04)


def test_a_child_spends_what_its_parent_has_left_and_one_run_ends_once(folders):
    script = new_calls()

    def answer(at, body):
        first = body["messages"][0]["content"][0]["text"]
        if first == "go" and len(body["messages"]) == 1:
            return asks(tool_use("toolu_parent", "delegate", {"task": "dig"}), usage=FULL)
        return script(at, body)

    with Server(answer, require_key=False) as server:
        ran = folders.run("go", *flags(server, "--tools", "delegate", "--max-cost", "0.13", "--json"))
        assert posts(server) == 3
    assert ran.object["cost"] == 0.12
    assert ran.object["stop"]["kind"] == "cost_budget"
    journal = journal_of(folders)
    rows = {row.run_id: row.stop for row in journal.runs()}
    child = child_id(ran.object["run_id"], "toolu_parent")
    assert rows == {ran.object["run_id"]: "cost_budget", child: "cost_budget"}
    for run_id in rows:
        kinds = [type(record.event).__name__ for record in journal.read(run_id)]
        assert kinds.count("Stopped") == 1


def test_a_parent_killed_in_its_childs_request_never_spends_more(folders):
    reached, script = threading.Event(), new_calls()

    def answer(at, body):
        first = body["messages"][0]["content"][0]["text"]
        if first == "go" and len(body["messages"]) == 1:
            return asks(tool_use("toolu_parent", "delegate", {"task": "dig"}), usage=FULL)
        if not reached.is_set():
            reached.set()
            return Slow(script(at, body), 30)
        return script(at, body)

    with Server(answer, require_key=False, allow_violations=True) as server:
        killed(folders.start("go", *flags(server, "--tools", "delegate", "--max-cost", "0.13")), reached)
        parent = next(row.run_id for row in journal_of(folders).runs() if row.task == "go")
        ran = folders.run("resume", parent, "--json")
        assert posts(server) == 3  # the parent's, the one that was killed, and one more of the child
    assert (ran.object["cost"], ran.object["held_cost"]) == (0.08, 0.04)


def test_a_price_that_is_not_known_is_asked_for_with_the_lines_to_write(folders):
    with Server([], require_key=False) as server:
        ran = folders.run("go", "--max-cost", "1", "--model", "unknown-model", "--base-url", server.base_url)
        assert server.requests == []
    assert ran.code == 2
    *_, name, input_, output = ran.err.splitlines()
    assert (name, input_, output) == ('[prices."unknown-model"]', "input = 3.00", "output = 15.00")
    folders.project_file.write_text("\n".join((name, input_, output)))
    with Server([says("ok")], require_key=False) as server:
        ran = folders.run("go", "--max-cost", "1", "--model", "unknown-model", "--base-url", server.base_url)
    assert ran.code == 0
    assert f"unknown-model costs $3.00 in and $15.00 out a million tokens ({folders.project_file})" in ran.err


def test_two_terminals_under_one_budget_stop_together(folders):
    assert folders.run("budget", "create", "team", "--limit", "0.30", "--per", "day").code == 0
    with Server(new_calls(), require_key=False) as server:
        both = [
            folders.start("go", *flags(server, "--budget", "team", "--max-turns", "20")) for _ in range(2)
        ]
        ended = [process.communicate(timeout=50) for process in both]
        assert posts(server) == 7
    assert [process.returncode for process in both] == [3, 3]
    for _, err in ended:
        assert re.search(r"budget team: \$0.2\d of \$0.30 used", err.decode())
    assert any(re.search(r"\d\d % of the budget team is used", err.decode()) for _, err in ended)
    row = journal_of(folders).budget("team")
    assert (row.spent, row.reserved) == (Decimal("0.28"), 0)
    shown = folders.run("budget", "list").out
    assert "! team: $0.28 of $0.30 spent (93 %), $0.02 left" in shown
    used = folders.run("usage", "--by", "day", "--json").object
    assert [(line["requests"], line["cost"]) for line in used["rows"]] == [(7, 0.28)]
    drawn = folders.run("usage", "--by", "day", "--plot").out
    assert "▇" in drawn
    assert "cost, US dollars" in drawn
    by_budget = folders.run("usage", "--by", "budget", "--json").object
    assert [(line["key"], line["cost"]) for line in by_budget["rows"]] == [("team", 0.28)]


def test_a_budget_that_is_not_there_keeps_a_run_from_starting(folders):
    with Server([], require_key=False) as server:
        ran = folders.run("go", *flags(server, "--budget", "nope"))
        assert server.requests == []
    assert ran.code == 2
    assert "there is no budget nope; brida budget create nope --limit 50 makes one" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "team"), "--limit"),
        (("create", "team", "--limit", "x"), "expected US dollars above 0, such as 50, got 'x'"),
        (("create", "team", "--limit", "0"), "expected US dollars above 0, such as 50, got '0'"),
        (("create", "a b", "--limit", "1"), "cannot be the name of a budget"),
        (("create", "team", "--limit", "1", "--per", "year"), "year"),
        (("change", "team", "--limit", "1"), "there is no budget team"),
        (("remove", "team"), "there is no budget team"),
    ],
)
def test_a_wrong_budget_is_refused_in_words(folders, arguments, words):
    ran = folders.run("budget", *arguments)
    assert ran.code == 2
    assert words in ran.err


def test_budgets_are_made_listed_changed_and_removed(folders):
    assert "there are no budgets" in folders.run("budget", "list").err
    assert "team: $0.00 of $5.00 spent (0 %)" in folders.run("budget", "create", "team", "--limit", "5").err
    assert "of $7.50 spent" in folders.run("budget", "change", "team", "--limit", "7.5").err
    (row,) = folders.run("budget", "list", "--json").object["budgets"]
    assert (row["name"], row["limit"], row["left"], row["per"], row["ends"]) == (
        "team",
        7.5,
        7.5,
        "total",
        None,
    )
    assert "the budget team is removed" in folders.run("budget", "remove", "team").err
    assert folders.run("budget", "list", "--json").object["budgets"] == []


def test_the_closing_line_says_what_it_cost_and_what_the_cache_did(folders):
    folders.user_file.write_text(
        '[prices."dear"]\ninput = 3\noutput = 15\ncache_read = 0.3\ncache_write = 3.75\n'
    )
    used = usage(100, 10, cache_write=1_000, cache_read=9_000)
    with Server([says("ok", usage=used)], require_key=False) as server:
        ran = folders.run("go", *flags(server))
    assert "$0.0069 · cache: 1,000 tokens written, 9,000 read (89 % of the input), $0.02355 saved" in ran.err


@pytest.mark.long
def test_the_embedded_model_says_that_it_costs_nothing(folders):
    ran = folders.run("What time is it?", "--model", "embedded", "--tools", "none", "--tools", "get_time")
    assert "no cost: the model runs here" in ran.err


def test_usage_of_a_run_shows_the_dear_turn(folders):
    replies = [
        asks(tool_use("toolu_1", "get_time"), usage=usage(10, 100)),
        asks(tool_use("toolu_2", "no_tool"), usage=usage(10, 1_000)),
        says("done", usage=usage(10, 200)),
    ]
    with Server(replies, require_key=False) as server:
        folders.run("go", *flags(server))
    rows = folders.run("usage", "-", "--json").object["rows"]
    assert [row["key"] for row in rows] == ["turn 1", "turn 2", "turn 3"]
    assert max(rows, key=lambda row: row["cost"])["key"] == "turn 2"
    drawn = folders.run("usage", "-", "--plot").out
    bars = {line[:6]: line.count("▇") for line in drawn.splitlines() if "▇" in line}
    assert max(bars, key=lambda key: bars[key]) == "turn 2"
    tools = folders.run("usage", "--by", "tool", "--json").object["rows"]
    assert [row["key"] for row in tools] == ["(a person's text)", "get_time", "no_tool"]
    models = folders.run("usage", "--by", "model").out
    assert re.search(r"^dear +3 ", models, re.MULTILINE)
    assert folders.run("usage", "--since", "1h", "--json").object["total"]["requests"] == 3
    assert folders.run("usage", "--since", "2100-01-01", "--json").object["rows"] == []


@pytest.mark.parametrize("since", ["x", "7", "2026-13-01", "٧d"])
def test_a_wrong_time_is_refused(folders, since):
    ran = folders.run("usage", "--since", since)
    assert ran.code == 2
    assert "expected an age such as 12h or 7d, or a day such as 2026-11-30" in ran.err


def test_a_fork_does_not_count_what_it_was_forked_from(folders):
    with Server([says("one", usage=FULL), says("two", usage=FULL)], require_key=False) as server:
        first = folders.run("go", *flags(server, "--json")).object
        folders.run("fork", first["run_id"], "--at", "4")
        total = folders.run("usage", "--json").object["total"]
    assert total["cost"] == 0.04


def test_without_the_cache_nothing_is_marked_and_with_it_all_that_stays_is(folders):
    (folders.project / "mine.py").write_text(
        "from brida import Agent, AnthropicModel, tool\n"
        "@tool(impact='read')\ndef look() -> str:\n    'Look.'\n    return 'x'\n"
        "import os\n"
        "model = AnthropicModel('dear', base_url=os.environ['URL'], caches_prompts=True)\n"
        "agent = Agent(model=model, tools=[look], system='be brief')\n"
    )
    with Server(lambda *_: says("ok"), require_key=False) as server:
        folders.run("go", "--agent", "mine:agent", URL=server.base_url)
        folders.run("go", "--agent", "mine:agent", "--no-cache", URL=server.base_url)
        marked, plain = (json.dumps(body) for body in server.bodies)
    assert (marked.count("cache_control"), plain.count("cache_control")) == (3, 0)
    assert "cache_control" not in json.dumps(server.bodies[0]["messages"])


def test_a_rate_limit_is_waited_out_with_a_countdown_and_ctrl_c_ends_it_at_once(folders):
    with Server([rate_limited(1), says("ok")], require_key=False) as server:
        ran = folders.run("go", *flags(server, "--wait-rate-limit", "10m", "--json"))
    assert ran.code == 0
    assert 0.9 < ran.object["seconds_waited"] <= ran.object["seconds"]
    with Server([rate_limited(300), says("ok")], require_key=False) as server:
        child = folders.spawn("go", *flags(server, "--wait-rate-limit", "10m", "--no-journal"))
        child.expect("another attempt in 300 s .rate_limited.")
        child.expect("another attempt in 299 s")
        child.sendintr()
        child.expect("interrupted")
        child.wait()
        assert child.exitstatus == 130


def test_a_rate_limit_that_is_too_long_ends_the_run_as_before(folders):
    with Server([rate_limited(300)], require_key=False) as server:
        ran = folders.run("go", *flags(server, "--json"))
    assert ran.object["stop"]["kind"] == "model_error"


def test_a_run_that_waits_for_its_child_says_which_to_answer_and_which_to_resume(folders):
    def answer(_at, body):
        first, again = body["messages"][0]["content"][0]["text"], len(body["messages"]) > 1
        if first == "go":
            return says("all done") if again else asks(tool_use("toolu_p", "delegate", {"task": "dig"}))
        call = tool_use("toolu_w", "write_file", {"path": "x.txt", "content": "hi"})
        return says("dug") if again else asks(call)

    with Server(answer, require_key=False) as server:
        where = ("--model", "dear", "--base-url", server.base_url, "--lang", "en")
        ran = folders.run("go", *where, "--tools", "delegate", "--park")
        assert ran.code == 6
        parent = next(row.run_id for row in journal_of(folders).runs() if row.task == "go")
        child = child_id(parent, "toolu_p")
        assert f"brida approve {child}" in ran.err
        assert f"belongs to run {parent}" in folders.run("resume", child).err
        assert f"brida resume {parent}" in folders.run("approve", child).err
        assert folders.run("resume", parent).out == "all done\n"
    assert (folders.project / "x.txt").read_text() == "hi"
    forked = folders.run("fork", child, "--at", "3")
    assert forked.code == 0
