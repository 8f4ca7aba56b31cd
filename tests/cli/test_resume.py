# mypy: disable-error-code="index"
"""A run outlives its process: killed, parked, answered from elsewhere, steered, stopped, resumed."""

import json
import os
import signal
import time

import pexpect
import pytest

from support.folders import Folders
from support.process import command, environment
from support.script import asks, says, tool_use
from support.server import Server

TOOLS = """
import os, time
from pathlib import Path
from brida import current_call, tool

def act(name):
    with open("effects", "a") as file:
        file.write(f"{name} {current_call().idempotency_key}\\n")
    if not Path("go").exists():
        Path("acting").touch()
        time.sleep(60)
    return name + " is done"

@tool(impact="idempotent")
def put(order: int) -> str:
    "Put an order."
    return act("put")

@tool
def pay(amount: int) -> str:
    "Pay."
    return act("pay")
"""


def script(tool, arguments, *more):
    """Asks for one call, then says what came of it."""

    def answer(_at, body):
        last = body["messages"][-1]["content"]
        results = [block for block in last if block["type"] == "tool_result"]
        if not results:
            return asks(tool_use(f"toolu_{len(body['messages'])}", tool, arguments))
        return says("heard: " + json.dumps([result["content"] for result in results]))

    return answer


@pytest.fixture
def folders(tmp_path):
    folders = Folders(tmp_path)
    (folders.project / "mine.py").write_text(TOOLS)
    return folders


def flags(server, *more):
    return [
        "--base-url",
        server.base_url,
        "--model",
        "m",
        "--tools",
        "none",
        "--tools",
        "mine:put",
        "--tools",
        "mine:pay",
        *more,
    ]


def wait_for(path):
    for _ in range(2_000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} does not appear")


def effects(folders):
    return (folders.project / "effects").read_text().splitlines()


@pytest.mark.parametrize("tool,arguments", [("put", {"order": 1}), ("pay", {"amount": 5})])
def test_killed_while_a_tool_runs_a_run_goes_on_with_resume(folders, tool, arguments):
    with Server(script(tool, arguments), require_key=False) as server:
        killed = folders.start("do it", *flags(server, "--yes-to", tool))
        wait_for(folders.project / "acting")
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        (folders.project / "go").touch()
        listed = folders.run("runs", "--json").object["runs"]
        assert [row["state"] for row in listed] == ["unfinished"]
        resumed = folders.run("resume", "-", "--json")
    assert (resumed.code, resumed.object["stop"]["kind"]) == (0, "completed")
    if tool == "put":
        assert resumed.object["text"] == 'heard: ["put is done"]'
        assert len(set(effects(folders))) == 1, "the same key"
    else:
        assert "outcome unknown" in resumed.object["text"]
        assert len(effects(folders)) == 1
    assert folders.run("replay", "-").code == 0


def test_a_parked_run_is_answered_from_elsewhere_and_goes_on(folders):
    (folders.project / "go").touch()
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        parked = folders.run("pay five", *flags(server, "--park", "--json"))
        assert (parked.code, parked.object["stop"]["kind"]) == (6, "waiting")
        run_id = parked.object["run_id"]
        assert f"brida approve {run_id}" in parked.err
        assert [call["tool"] for call in parked.object["questions"]] == ["pay"]
        pending = folders.run("pending", "--json").object["pending"]
        assert [one["call"]["arguments"] for one in pending] == [{"amount": 5}]
        assert "amount  5" in folders.run("pending").out
        assert folders.run("resume", "-", "--json").code == 6, "nothing was answered"
        assert not (folders.project / "effects").exists()
        first, second = folders.run("approve", run_id[:8]), folders.run("approve", run_id[:8], "toolu_1")
        assert (first.code, second.code) == (0, 0)
        assert "approved: pay" in first.err
        assert "answered" in second.err
        events = folders.run("show", run_id, "--json").out
        assert events.count('"kind": "Answered"') == 1
        resumed = folders.run("resume", run_id, "--json")
    assert (resumed.code, resumed.object["text"]) == (0, 'heard: ["pay is done"]')
    assert len(effects(folders)) == 1
    assert folders.run("pending", "--json").object["pending"] == []
    assert folders.run("approve", run_id, "toolu_1").code == 0


def test_a_declined_call_does_not_run_and_the_model_hears_why(folders):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        folders.run("pay five", *flags(server, "--park"))
        assert folders.run("decline", "-", "1", "--reason", "not today").code == 0
        resumed = folders.run("resume", "-", "--json")
    assert "not today" in resumed.object["text"]
    assert not (folders.project / "effects").exists()


def test_an_edited_approval_runs_with_the_new_arguments_and_the_model_is_told(folders):
    (folders.project / "go").touch()
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        folders.run("pay five", *flags(server, "--park"))
        wrong = folders.run("approve", "-", "--edit", '{"amount": "much"}')
        assert (wrong.code, "amount" in wrong.err) == (2, True)
        assert folders.run("approve", "-", "--edit", "{").code == 2
        assert folders.run("approve", "-", "--edit", '{"amount": 4}').code == 0
        resumed = folders.run("resume", "-", "--json")
    assert '{\\"amount\\":4}' in resumed.object["text"].replace("\\\\", "\\")
    assert resumed.code == 0


def test_an_unknown_call_or_run_is_named_with_what_is_there(folders):
    assert folders.run("approve", "-").code == 2
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        folders.run("pay five", *flags(server, "--park"))
        wrong = folders.run("approve", "-", "7")
    assert (wrong.code, "pay" in wrong.err) == (2, True)
    assert folders.run("show", "zzz").code == 2


def test_a_lost_call_that_is_settled_from_elsewhere_goes_on_with_what_was_said(folders):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        killed = folders.start("do it", *flags(server, "--yes-to", "pay", "--park"))
        wait_for(folders.project / "acting")
        killed.kill()
        killed.communicate()
        assert folders.run("resume", "-").code == 6
        assert folders.run("pending", "--json").object["pending"][0]["lost"] is True
        assert folders.run("settle", "-", "--happened", "paid, I saw it").code == 0
        resumed = folders.run("resume", "-", "--json")
    assert resumed.object["text"] == 'heard: ["paid, I saw it"]'
    assert len(effects(folders)) == 1


def test_a_run_at_work_is_busy_for_others_and_hears_what_they_say(folders):
    with Server(script("put", {"order": 1}), require_key=False) as server:
        working = folders.start("do it", *flags(server, "--yes-to", "put", "--json"))
        wait_for(folders.project / "acting")
        busy = folders.run("resume", "-", "--json")
        assert (busy.code, busy.object["stop"]["kind"]) == (7, "busy")
        assert f"process {working.pid} on" in busy.err
        assert folders.run("rm", "-", "--yes").code == 7
        assert folders.run("steer", "-", "  ").code == 2
        assert folders.run("steer", "-", "and be quick").code == 0
        assert folders.run("stop", "-").code == 0
        working.send_signal(signal.SIGTERM)
        out, _ = working.communicate(timeout=30)
        assert json.loads(out)["stop"]["kind"] == "stopped"
        again = folders.run("resume", "-", "--json")
    texts = [block.get("text") for message in server.bodies[-1]["messages"] for block in message["content"]]
    assert "and be quick" in texts
    assert again.code == 0
    assert folders.run("stop", "-").code == 0


def test_a_text_that_steers_is_heard_in_the_next_request(folders):
    with Server(script("put", {"order": 1}), require_key=False) as server:
        working = folders.start("do it", *flags(server, "--yes-to", "put", "--json"))
        wait_for(folders.project / "acting")
        folders.run("steer", "-", "and be quick")
        (folders.project / "go").touch()
        working.send_signal(signal.SIGKILL)
        working.communicate()
        folders.run("resume", "-", "--json")
    last = server.bodies[-1]["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[-1]["text"] == "and be quick"


def test_a_complete_run_needs_a_message_and_goes_on_with_it(folders):
    with Server([says("noon"), says("one")], require_key=False) as server:
        folders.run("what time is it?", *flags(server))
        assert folders.run("resume", "-").code == 2
        assert folders.run("resume", "-", "  ").code == 2
        resumed = folders.run("resume", "-", "and in an hour?", "--json")
    assert (resumed.code, resumed.object["text"]) == (0, "one")
    assert len(server.bodies[1]["messages"]) == 3


def test_a_limit_is_raised_and_the_run_goes_on(folders):
    (folders.project / "go").touch()
    with Server(script("put", {"order": 1}), require_key=False) as server:
        stopped = folders.run("do it", *flags(server, "--yes-to", "put", "--max-turns", "0"))
        assert stopped.code == 3
        assert "brida resume" in stopped.err
        resumed = folders.run("resume", "-", "--max-turns", "2", "--json")
    assert (resumed.code, "did not run: turn limit" in resumed.object["text"]) == (0, True)


def test_a_tool_that_changed_is_refused_and_the_difference_shown(folders):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        folders.run("pay five", *flags(server, "--park"))
        (folders.project / "mine.py").write_text(TOOLS.replace("amount: int", "amount: str"))
        refused = folders.run("resume", "-", "--json")
    assert (refused.code, refused.object["stop"]["kind"]) == (5, "definition_changed")
    assert "tool pay: schema" in refused.err
    assert "waiting" in folders.run("runs").out


def test_nothing_of_todays_settings_changes_a_run_of_yesterday(folders):
    with Server([says("noon"), says("one")], require_key=False) as server:
        folders.run("what time is it?", *flags(server, "--system", "be brief"))
        folders.user_file.write_text('system = "be long"\nmodel = "other"\n[limits]\nmax_turns = 0\n')
        assert folders.run("resume", "-", "again", BRIDA_MODEL="third").code == 0
    assert (server.bodies[1]["system"], server.bodies[1]["model"]) == ("be brief", "m")


def test_without_a_journal_nothing_is_kept(folders):
    with Server([says("noon")], require_key=False) as server:
        assert folders.run("what time is it?", *flags(server, "--no-journal")).code == 0
    assert "there are no runs" in folders.run("runs").err
    assert not any(folders.home.rglob("*.db"))


def test_a_journal_that_cannot_be_used_stops_the_command_before_anything_runs(folders):
    with Server([says("noon")], require_key=False) as server:
        for path in (str(folders.project), "/dev/null/x"):
            ran = folders.run("what time is it?", *flags(server, "--journal", path))
            assert (ran.code, "--no-journal" in ran.err) == (2, True)
    assert server.bodies == []


def test_after_ctrl_c_a_person_says_something_and_the_run_goes_on(folders):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        child = folders.spawn("do it", *flags(server))
        child.expect("allow once")
        child.sendintr()
        child.expect("Enter ends it")
        child.send("s never mind\r")
        child.expect("heard: ")
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    last = server.bodies[-1]["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert "did not run: interrupted" in json.dumps(last[0])


@pytest.mark.parametrize("typed,code", [("p", 6), ("", 130), ("e", 130)])
def test_after_ctrl_c_a_run_is_parked_or_ended(folders, typed, code):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        child = folders.spawn("do it", *flags(server))
        child.expect("allow once")
        child.sendintr()
        child.expect("Enter ends it")
        child.send(f"{typed}\r")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code
        assert folders.run("resume", "-").code == 0


def test_at_a_terminal_a_person_says_what_became_of_a_lost_call(folders):
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        killed = folders.start("do it", *flags(server, "--yes-to", "pay"))
        wait_for(folders.project / "acting")
        killed.kill()
        killed.communicate()
        child = folders.spawn("resume", "-")
        child.expect("nobody knows whether it took effect")
        child.send("h it arrived\r")
        child.expect("heard: ")
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    assert "it arrived" in json.dumps(server.bodies[-1])


def test_always_is_shown_written_and_holds_from_then_on(folders):
    (folders.project / "go").touch()
    folders.user_file.write_text("# mine\n[limits]\nmax_turns = 9\n")
    with Server(script("pay", {"amount": 5}), require_key=False) as server:
        child = folders.spawn("do it", *flags(server))
        child.expect("a always")
        child.send("a\r")
        child.expect("Write it")
        assert "# mine" in child.before
        child.send("y\r")
        child.expect("heard: ")
        child.expect(pexpect.EOF)
        child.close()
        assert folders.run("do it again", *flags(server)).code == 0
    text = folders.user_file.read_text()
    assert text.startswith("# mine\n[limits]\nmax_turns = 9\n")
    assert 'allow = ["pay"]' in text
    assert len(effects(folders)) == 2


def test_a_conversation_goes_on_in_another_process(folders):
    with Server([says("It is noon."), says("It is one.")], require_key=False) as server:
        talk(folders, server, "what time is it?", "noon", *flags(server))
        talk(folders, server, "and in an hour?", "one", "--continue")
    assert len(server.bodies[1]["messages"]) == 3


def talk(folders, server, text, answer, *arguments):
    first, *rest = command("chat", *arguments)
    child = pexpect.spawn(
        first,
        rest,
        cwd=str(folders.project),
        env=environment(**folders.env, PROMPT_TOOLKIT_NO_CPR="1"),
        encoding="utf-8",
        timeout=20,
        dimensions=(40, 200),
    )
    child.expect("/help lists the commands")
    child.expect_exact("\x1b[?2004h") if os.environ.get("TERM") == "xterm" else child.expect("> ")
    child.send(text + "\r")
    child.expect(f"It is {answer}")
    child.expect("1 model request")
    child.send("/end\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_number_means_the_same_call_however_often_it_is_answered(folders):
    def answer(_at, body):
        if len(body["messages"]) > 1:
            return says("done")
        return asks(tool_use("toolu_a", "pay", {"amount": 1}), tool_use("toolu_b", "pay", {"amount": 2}))

    (folders.project / "go").touch()
    with Server(answer, require_key=False) as server:
        folders.run("pay twice", *flags(server, "--park"))
        assert folders.run("approve", "-").code == 2, "two wait"
        for _ in range(2):
            assert folders.run("approve", "-", "1").code == 0
        assert folders.run("resume", "-").code == 6, "nothing runs before all are answered"
        assert not (folders.project / "effects").exists()
        waiting = folders.run("pending", "--json").object["pending"]
        assert [(one["number"], one["call"]["arguments"]) for one in waiting] == [(2, {"amount": 2})]
        contrary = folders.run("decline", "-", "1")
        assert (contrary.code, "that stands" in contrary.err) == (2, True)
        folders.run("decline", "-", "2")
        assert "goes on with this run" in folders.run("pending").out
        resumed = folders.run("resume", "-")
        assert resumed.code == 0
        assert "[turn 1] pay returned" in resumed.err
    assert len(effects(folders)) == 1
