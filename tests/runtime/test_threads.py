"""Daemon threads for jobs that block: to itself while it runs, used again, ended when nobody needs it."""

import asyncio
import contextvars
import threading
import time

import pytest

from brida.runtime import threads
from brida.runtime.threads import run_in_daemon_thread


def ident() -> int:
    return threading.get_ident()


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in ("brida idle", "brida job")]


@pytest.fixture(autouse=True)
def no_thread_of_an_earlier_test():
    for thread in ours():
        thread.join(10)


def test_a_thread_is_used_again():
    async def main() -> set[object]:
        return {await run_in_daemon_thread(ident, name="brida job") for _ in range(20)}

    assert len(asyncio.run(main())) == 1


def test_jobs_at_once_have_a_thread_each():
    meeting = threading.Barrier(5, timeout=10)

    def meet() -> int:
        meeting.wait()
        return ident()

    async def main() -> list[object]:
        return await asyncio.gather(*(run_in_daemon_thread(meet, name="brida job") for _ in range(5)))

    assert len(set(asyncio.run(main()))) == 5


def test_a_job_that_was_left_behind_keeps_its_thread_from_others():
    release, running = threading.Event(), threading.Event()
    holders: list[int] = []

    def hold() -> int:
        holders.append(ident())
        running.set()
        release.wait(10)
        return ident()

    async def main() -> tuple[object, object]:
        held = asyncio.ensure_future(run_in_daemon_thread(hold, name="brida job"))
        await asyncio.to_thread(running.wait, 10)
        held.cancel()
        await asyncio.wait([held])
        other = await run_in_daemon_thread(ident, name="brida job")
        release.set()
        return holders[0], other

    holder, other = asyncio.run(main())
    assert holder != other


def test_a_thread_is_named_after_its_job_and_is_a_daemon():
    def name() -> tuple[str, bool]:
        return threading.current_thread().name, threading.current_thread().daemon

    async def main() -> list[object]:
        return [await run_in_daemon_thread(name, name=f"brida {tool}") for tool in ("one", "two")]

    assert asyncio.run(main()) == [("brida one", True), ("brida two", True)]


def test_each_job_sees_the_context_of_its_caller():
    here = contextvars.ContextVar("here", default="nowhere")

    def change() -> str:
        seen = here.get()
        here.set("left by another job")
        return seen

    async def main() -> list[object]:
        seen = [await run_in_daemon_thread(change, name="brida job")]
        here.set("caller")
        return [*seen, await run_in_daemon_thread(change, name="brida job")]

    assert asyncio.run(main()) == ["nowhere", "caller"]


def test_an_idle_thread_ends_and_the_next_job_has_a_new_one(monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 0.02)

    async def main() -> None:
        for _ in range(3):
            assert await run_in_daemon_thread(lambda: "done", name="brida job") == "done"
            until = time.monotonic() + 10
            while ours() and time.monotonic() < until:
                await asyncio.sleep(0.005)
            assert ours() == []

    asyncio.run(main())


def test_no_job_is_lost_while_threads_end(monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 0.001)

    async def main() -> None:
        for number in range(300):
            await asyncio.sleep(0.0005 * (number % 5))
            assert (
                await asyncio.wait_for(run_in_daemon_thread(lambda: "done", name="brida job"), 10) == "done"
            )

    asyncio.run(main())


def test_loops_share_no_thread():
    async def main() -> object:
        return await run_in_daemon_thread(threading.current_thread, name="brida job")

    assert len({asyncio.run(main()) for _ in range(3)}) == 3
