# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""What a person changes, what an approval is bound to, and what the model is told of it."""

import asyncio
import json
import struct
import threading
import zlib

import pytest

from brida import (
    Agent,
    Answer,
    Change,
    ConfigurationError,
    Image,
    ScriptedModel,
    current_call,
    reply,
    tool,
    tool_use,
)
from brida.core.events import Asked, Edited
from brida.tools.builtin import builtin_tools
from support.agents import check, make, results


def png() -> bytes:
    """A picture of one dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b"")


PNG = png()


@tool
def write(path: str, content: str = "") -> str:
    return f"wrote {content!r} to {path}"


def asking(arguments, approve, *tools):
    name = tools[0].name if tools else "write"
    agent, model = make(
        [reply(tool_use("t1", name, arguments)), reply("done")], *(tools or (write,)), approve=approve
    )
    outcome = agent.run_sync("go")
    check(outcome, model)
    ((_, heard, is_error),) = results(model.requests[1]["messages"][-1])
    return outcome, heard, is_error


def test_what_a_person_wrote_runs_and_the_model_is_told():
    outcome, heard, is_error = asking(
        {"path": "wrong", "content": "x"}, lambda q: Answer(True, arguments={**q.arguments, "path": "right"})
    )
    assert heard == (
        "A person changed the arguments of write before it ran. "
        'It ran with {"path":"right"}.\nwrote \'x\' to right'
    )
    assert not is_error
    assert [event.by for event in outcome.events if isinstance(event, Edited)] == ["a person"]


def test_what_a_person_left_out_is_told_too():
    _, heard, _ = asking({"path": "a", "content": "x"}, lambda q: Answer(True, arguments={"path": "a"}))
    assert heard.endswith("It ran without content.\nwrote '' to a")


def test_arguments_that_are_those_shown_change_nothing():
    outcome, heard, _ = asking({"path": "a"}, lambda q: Answer(True, arguments={"path": "a"}))
    assert heard == "wrote '' to a"
    assert not any(isinstance(event, Edited) for event in outcome.events)


def test_a_no_is_a_no_whatever_arguments_come_with_it():
    _, heard, is_error = asking({"path": "a"}, lambda q: Answer(False, arguments={"path": "b"}))
    assert is_error
    assert "declined" in heard


def test_changed_arguments_that_do_not_fit_are_put_again_with_the_problems():
    shown = []

    def approve(question):
        shown.append((question.arguments, question.problems))
        return Answer(True, arguments={"path": 7} if len(shown) == 1 else {"path": "b"})

    _, heard, _ = asking({"path": "a"}, approve)
    assert [arguments for arguments, _ in shown] == [{"path": "a"}, {"path": 7}, {"path": "b"}]
    assert [bool(problems) for _, problems in shown] == [False, True, False]
    assert heard.endswith("wrote '' to b")


def test_a_long_change_leaves_room_for_the_result():
    _, heard, _ = asking(
        {"path": "a"}, lambda q: Answer(True, arguments={"path": "b", "content": "x" * 90_000})
    )
    assert len(heard.encode()) <= 32_768
    assert "wrote 'xxx" in heard
    assert "cut: " in heard


@pytest.mark.parametrize("arguments", ["path", 7, {"path": {1, 2}}, {"path": float("nan")}])
def test_arguments_that_json_does_not_have_are_a_configuration_error(arguments):
    agent, _ = make(
        [reply(tool_use("t1", "write", {"path": "a"}))],
        write,
        approve=lambda q: Answer(True, arguments=arguments),
    )
    with pytest.raises(ConfigurationError, match="arguments"):
        agent.run_sync("go")


def test_whoever_changed_the_arguments_cannot_change_them_afterwards():
    given = {"path": "b"}

    def approve(question):
        if question.asked is None:
            return Answer(True, arguments=given)
        given["path"] = "c"
        return True

    _, heard, _ = asking({"path": "a"}, approve)
    assert heard.endswith("wrote '' to b")


# --- what an approval is bound to -------------------------------------------------------------------------


def test_a_file_that_changed_after_the_question_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("as it was shown")

    def approve(question):
        assert question.basis.startswith("sha256:")
        path.write_text("changed meanwhile")
        return True

    outcome, heard, is_error = asking(
        {"path": "notes.txt", "content": "new"}, approve, builtin_tools(tmp_path)["write_file"]
    )
    assert is_error
    assert "changed since it was approved" in heard
    assert path.read_text() == "changed meanwhile"
    (asked,) = [event for event in outcome.events if isinstance(event, Asked)]
    assert asked.questions[0].basis.startswith("sha256:")


def test_a_file_that_is_as_it_was_is_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("old")
    asking({"path": "notes.txt", "content": "new"}, lambda q: True, builtin_tools(tmp_path)["write_file"])
    assert path.read_text() == "new"


def test_after_an_edit_the_approval_is_bound_to_the_file_of_the_new_path(tmp_path):
    (tmp_path / "b.txt").write_text("b")
    bases = []

    def approve(question):
        bases.append(question.basis)
        return Answer(True, arguments={"path": "b.txt", "content": "new"})

    asking({"path": "a.txt", "content": "new"}, approve, builtin_tools(tmp_path)["write_file"])
    assert bases[0] == "absent"
    assert bases[1].startswith("sha256:")
    assert (tmp_path / "b.txt").read_text() == "new"


def test_an_answer_for_the_session_is_bound_to_nothing(tmp_path):
    tools = builtin_tools(tmp_path)
    model = ScriptedModel(
        [
            reply(tool_use("t1", "write_file", {"path": "a", "content": "1"})),
            reply(tool_use("t2", "write_file", {"path": "a", "content": "2"})),
            reply("done"),
        ]
    )
    agent = Agent(model=model, tools=[tools["write_file"]], approve=lambda q: Answer(True, session=True))
    assert agent.run_sync("go").failed_calls == ()
    assert (tmp_path / "a").read_text() == "2"


def test_what_a_call_would_change_is_looked_at_in_a_thread():
    seen = []

    def changes(arguments, say):
        seen.append(threading.current_thread() is threading.main_thread())
        return Change("v1", lambda say: "a diff")

    @tool(changes=changes)
    def replace() -> str:
        return f"replaced {current_call().basis}"

    assert asking({}, lambda q: True, replace)[1] == "replaced v1"
    assert seen == [False]


def test_ctrl_c_while_a_change_is_looked_at_stops_the_run():
    def changes(arguments, say):
        raise KeyboardInterrupt

    @tool(changes=changes)
    def replace() -> str:
        return "replaced"

    agent, model = make([reply(tool_use("t1", "replace"))], replace, approve=lambda q: True)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.stop.kind, [note.tool for note in outcome.pending]) == ("interrupted", ["replace"])


def test_a_look_that_takes_too_long_does_not_hold_the_run():
    begun, ended = threading.Event(), threading.Event()

    def changes(arguments, say):
        begun.set()
        ended.wait(30)

    @tool(changes=changes)
    def replace() -> str:
        return "replaced"

    agent, model = make([reply(tool_use("t1", "replace"))], replace, approve=lambda q: True)

    async def main():
        run = agent.start("go")
        await asyncio.to_thread(begun.wait, 10)
        run.interrupt()
        return await run

    try:
        outcome = asyncio.run(main())
    finally:
        ended.set()
    check(outcome, model)
    assert outcome.stop.kind == "interrupted"


# --- several calls at once --------------------------------------------------------------------------------


class Watching:
    """An approver that wants to see all questions of a turn first."""

    def __init__(self, fails=False):
        self.seen, self.fails = [], fails

    def announce(self, questions):
        if self.fails:
            raise RuntimeError("no screen")
        self.seen.append([question.call_id for question in questions])

    def __call__(self, question):
        self.seen.append(question.call_id)
        return True


def two_calls(approve):
    calls = [tool_use("t1", "write", {"path": "a"}), tool_use("t2", "write", {"path": "b"})]
    return make([reply(*calls), reply("done")], write, approve=approve)


def test_all_questions_of_a_turn_are_announced_once_before_the_first_is_put():
    approve = Watching()
    two_calls(approve)[0].run_sync("go")
    assert approve.seen == [["t1", "t2"], "t1", "t2"]


def test_one_question_alone_is_not_announced():
    approve = Watching()
    asking({"path": "a"}, approve)
    assert approve.seen == ["t1"]


def test_an_announcement_that_fails_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="approve: RuntimeError: no screen"):
        two_calls(Watching(fails=True))[0].run_sync("go")


# --- images -----------------------------------------------------------------------------------------------


@tool(impact="read")
def look() -> Image:
    return Image(PNG, "image/png")


class SeeingModel(ScriptedModel):
    """A scripted model that can be shown images."""

    takes_images = True


def shown(model_type, *tools, **settings):
    model = model_type([reply(tool_use("t1", tools[0].name)), reply("done")])
    outcome = Agent(model=model, tools=tools, **settings).run_sync("go")
    check(outcome, model)
    ((_, heard, _),) = results(model.requests[1]["messages"][-1])
    return outcome, heard


def test_an_image_reaches_a_model_that_can_be_shown_one():
    _, heard = shown(SeeingModel, look)
    assert heard[0]["type"] == "image"
    assert heard[0]["source"]["media_type"] == "image/png"


def test_a_model_that_takes_no_images_gets_a_note():
    _, heard = shown(ScriptedModel, look)
    assert heard.startswith("(an image: ")


def test_an_image_after_a_change_of_arguments_comes_with_what_was_changed():
    @tool
    def see(path: str = "") -> Image:
        return Image(PNG, "image/png")

    outcome, heard = shown(SeeingModel, see, approve=lambda q: Answer(True, arguments={"path": "b"}))
    assert [block["type"] for block in heard] == ["text", "image"]
    json.dumps(outcome.to_json())


def test_images_count_as_results_when_turns_are_compared():
    model = SeeingModel(lambda body: reply(tool_use(f"t{len(body['messages'])}", "look")))
    assert Agent(model=model, tools=[look]).run_sync("go").stop.kind == "no_progress"
