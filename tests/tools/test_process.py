"""Child processes of tools: what they are given, what is kept of their output, and how they end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from brida import Agent, ScriptedModel, reply, run_process, tool, tool_use
from brida.core.events import CallFinished
from brida.tools.process import INHERITED, Finished

PRELUDE = "import os, signal, subprocess, sys, time\nfrom pathlib import Path\n"

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 2:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]])
Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(300)
"""
"""A process that ignores SIGTERM, and a child of it that does too; each leaves its id in a folder."""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + code, *arguments]


def run(*command: str, **how) -> Finished:
    return asyncio.run(run_process(command, **how))


@pytest.fixture
def pids(tmp_path) -> Iterator[Path]:
    """A folder in which processes leave their ids; none of them outlives the test."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for left in folder.iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(left.name), signal.SIGKILL)


def alive(folder: Path) -> list[int]:
    return [int(one.name) for one in folder.iterdir() if is_alive(int(one.name))]


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def seen(folder: Path, count: int) -> None:
    """Waits until so many processes have left their id."""
    while len(list(folder.iterdir())) < count:
        await asyncio.sleep(0.01)


# --- what it is given, and what comes back ----------------------------------------------------------------


def test_a_program_runs_to_its_end_and_says_how():
    code = "print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    assert run(*python(code)) == Finished(3, "out\nerr\n")


def test_a_program_that_a_signal_ended_has_a_negative_exit_code():
    assert run(*python("os.kill(os.getpid(), signal.SIGKILL)")).exit_code == -signal.SIGKILL


def test_it_runs_where_it_is_told(tmp_path):
    assert run(*python("print(os.getcwd())"), directory=tmp_path).output == f"{tmp_path.resolve()}\n"


def test_its_environment_is_what_was_given_and_what_holds_no_secret(monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    ours = {"PATH": os.defpath, "HOME": "/", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TMPDIR": "/tmp"}
    secret = {"ANTHROPIC_API_KEY": "sk-ant-canary", "LC_SECRET": "sk-ant-canary", "PYTHONPATH": "/nowhere"}
    for name, value in {**ours, **secret}.items():
        monkeypatch.setenv(name, value)
    code = "print(sorted(name for name in os.environ if name != 'LC_CTYPE'))"
    assert run(*python(code)).output == f"{sorted(ours)}\n"
    code = "print(os.environ['TZ'], os.environ['GIVEN'])"
    assert run(*python(code), environment={"TZ": "Asia/Tokyo", "GIVEN": "yes"}).output == "Asia/Tokyo yes\n"


def test_no_variable_that_is_inherited_has_a_name_that_looks_secret():
    from brida.texts.masking import Mask

    assert Mask.of(dict.fromkeys(INHERITED, "sk-ant-canary")).names == ()


@pytest.mark.parametrize("given", ["olá\n", "olá\n".encode(), "", b"", "x" * 1_000_000])
def test_its_input_is_what_was_given(given):
    data = given if isinstance(given, bytes) else given.encode()
    done = run(*python("print(len(sys.stdin.buffer.read()))"), input=given)
    assert done.output == f"{len(data)}\n"


def test_without_an_input_its_stdin_is_empty():
    assert run(*python("print(repr(sys.stdin.read()))")).output == "''\n"


def test_a_program_that_reads_no_input_ends_all_the_same():
    assert run(*python("os.close(0); print('done')"), input="x" * 5_000_000).output == "done\n"


def test_it_has_no_terminal():
    assert run(*python("print(os.getsid(0) == os.getpid())")).output == "True\n"


@pytest.mark.parametrize("limit, kept, dropped", [(0, "", 6), (3, "ab", 4), (4, "abñ", 2), (6, "abñcd", 0)])
def test_output_beyond_the_limit_is_counted_and_dropped(limit, kept, dropped):
    done = run(*python("sys.stdout.buffer.write('abñcd'.encode())"), output_limit=limit)
    assert (done.output, done.dropped) == (kept, dropped)


def test_a_flood_is_counted_and_holds_nobody_up():
    code = "for _ in range(200): sys.stdout.buffer.write(b'x' * 1_000_000)"
    assert run(*python(code), output_limit=10) == Finished(0, "x" * 10, 199_999_990)


def test_output_that_is_no_utf8_is_still_text():
    assert run(*python(r"sys.stdout.buffer.write(b'a\xff\xe9')")).output == "a\ufffd\ufffd"


def test_a_program_that_closes_its_output_is_waited_for():
    code = "os.close(1); os.close(2); time.sleep(0.3); os._exit(7)"
    assert run(*python(code)) == Finished(7, "")


def test_what_stays_in_the_background_with_the_output_open_is_not_waited_for(pids):
    code = "print('x', flush=True); subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]])"
    began = time.monotonic()
    done = run(*python(code, str(pids), PRELUDE + STUBBORN))
    assert done == Finished(0, "x\n")
    assert time.monotonic() - began < 60  # it would be 300
    asyncio.run(asyncio.wait_for(seen(pids, 1), 20))
    assert len(alive(pids)) == 1


# --- what makes no sense ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, how, error, words",
    [
        ("ls -l", {}, TypeError, "one text"),
        (b"ls", {}, TypeError, "one text"),
        ([], {}, ValueError, "nothing"),
        ([3], {}, TypeError, "int"),
        (["a\0b"], {}, ValueError, "null"),
        (["ls"], {"input": 3}, TypeError, "got int"),
        (["ls"], {"output_limit": -1}, ValueError, "output_limit"),
        (["ls"], {"output_limit": True}, ValueError, "output_limit"),
        (["ls"], {"environment": {"A=B": "x"}}, ValueError, "illegal"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, how, error, words):
    with pytest.raises(error, match=words):
        asyncio.run(run_process(arguments, **how))


@pytest.mark.parametrize("how", [{}, {"directory": "/no/such/folder"}])
def test_a_program_that_cannot_be_started_is_an_os_error(how):
    with pytest.raises(FileNotFoundError, match=r"no-such-program|no/such"):
        asyncio.run(run_process(["/no-such-program"], **how))


# --- its end ----------------------------------------------------------------------------------------------


async def started(folder: Path) -> asyncio.Task[Finished]:
    """A process that ignores SIGTERM, with a child that does too, both under way."""
    task = asyncio.create_task(run_process(python(STUBBORN, str(folder), PRELUDE + STUBBORN)))
    await asyncio.wait_for(seen(folder, 2), 20)
    return task


def test_cancelled_it_ends_the_whole_group_however_stubborn(pids):
    async def main() -> None:
        task = await started(pids)
        assert len(alive(pids)) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert alive(pids) == []


def test_cancelled_twice_it_leaves_nothing(pids):
    async def main() -> None:
        task = await started(pids)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])

    asyncio.run(main())
    assert alive(pids) == []


def test_a_program_gets_a_moment_to_clean_up(tmp_path):
    code = """
signal.signal(signal.SIGTERM, lambda *_: (Path(sys.argv[1], 'cleaned').touch(), sys.exit(0)))
Path(sys.argv[1], 'ready').touch()
time.sleep(300)
"""

    async def main() -> None:
        task = asyncio.create_task(run_process(python(code, str(tmp_path))))
        await asyncio.wait_for(seen(tmp_path, 1), 20)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert (tmp_path / "cleaned").exists()


def test_where_the_leader_has_ended_the_rest_of_its_group_is_ended_too(pids):
    code = "subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]]); time.sleep(300)"

    async def main() -> None:
        task = asyncio.create_task(run_process(python(code, str(pids), PRELUDE + STUBBORN)))
        await asyncio.wait_for(seen(pids, 1), 20)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert alive(pids) == []


@pytest.mark.parametrize("turns", range(12))
def test_cancelled_while_it_starts_it_leaves_nothing(pids, turns):
    async def main() -> None:
        task = asyncio.create_task(run_process(python(STUBBORN, str(pids))))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert psutil.Process().children() == []
    assert alive(pids) == []


def test_a_timeout_of_the_tool_ends_it(pids):
    @tool(impact="high", timeout=3)
    async def slow() -> str:
        return (await run_process(python(STUBBORN, str(pids), PRELUDE + STUBBORN))).output

    model = ScriptedModel([reply(tool_use("t", "slow")), reply("done")])
    outcome = Agent(model=model, tools=[slow], yes_to=["slow"], language="en").run_sync("go")
    (heard,) = (event for event in outcome.events if isinstance(event, CallFinished))
    assert (heard.outcome, str(heard.content)[:32]) == ("unknown", "slow did not finish within 3 s; ")
    assert outcome.completed
    assert alive(pids) == []


def test_a_run_that_is_cancelled_leaves_no_process(pids):
    @tool(impact="high")
    async def slow() -> str:
        return (await run_process(python(STUBBORN, str(pids), PRELUDE + STUBBORN))).output

    async def main() -> str:
        model = ScriptedModel([reply(tool_use("t", "slow")), reply("done")])
        run = Agent(model=model, tools=[slow], yes_to=["slow"], language="en").start("go")
        waiting = asyncio.ensure_future(run)
        await asyncio.wait_for(seen(pids, 2), 20)
        run.cancel()
        return (await waiting).stop.kind

    assert asyncio.run(main()) == "interrupted"
    assert alive(pids) == []


def test_it_works_in_the_loop_of_another_thread():
    @tool(impact="read")
    async def hello() -> str:
        return (await run_process(python("print('hello')"))).output

    async def main() -> list[object]:
        model = ScriptedModel([reply(tool_use("t", "hello")), reply("done")])
        outcome = Agent(model=model, tools=[hello], language="en").run_sync("go")
        return [event.content for event in outcome.events if isinstance(event, CallFinished)]

    assert asyncio.run(main()) == ["hello\n"]


def test_many_at_once_do_not_mix():
    async def main() -> list[str]:
        done = await asyncio.gather(*(run_process(python(f"print({n})")) for n in range(8)))
        return [one.output for one in done]

    assert asyncio.run(main()) == [f"{n}\n" for n in range(8)]
