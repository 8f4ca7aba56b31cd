"""Running a coroutine from plain code, in an event loop of its own, and leaving it without being held.

``asyncio.run`` waits at its end for every task and every thread of the executor; one tool that ignores
being cancelled would hold the process. Here they get a moment, then they are left behind.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

LEAVING: Final = 1.0
"""Seconds that what is still running gets to end when the loop is left."""


def run(main: Callable[[], Coroutine[Any, Any, T]], *, handle_interrupt: bool = True) -> T:
    """The result of ``main()``, from code that is not async.

    Within a running event loop it works too: in a thread of its own, while the caller waits. Ctrl-C
    cancels ``main``, so that it can record its end, and ``KeyboardInterrupt`` is raised then; a second
    one does not wait. Without ``handle_interrupt`` the caller sees to Ctrl-C.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        inside = False
    else:
        inside = True
    return _run_in_thread(main) if inside else _run_here(main, handle_interrupt=handle_interrupt)


def _run_here(main: Callable[[], Coroutine[Any, Any, T]], *, handle_interrupt: bool) -> T:
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(main())
        with _cancel_on_interrupt(loop, task, wanted=handle_interrupt) as interrupted:
            try:
                return loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupted.is_set():
                    raise KeyboardInterrupt from None
                raise
    finally:
        _leave(loop)


def _run_in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []
    cancels: list[Callable[[], object]] = []

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            cancels.append(partial(loop.call_soon_threadsafe, task.cancel))
        return await main()

    def work() -> None:
        try:
            results.append(_run_here(cancellable, handle_interrupt=False))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="brida run_sync", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        with suppress(RuntimeError):  # it ended by itself
            for cancel in cancels:
                cancel()
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def _cancel_on_interrupt(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", *, wanted: bool
) -> Iterator[threading.Event]:
    """The first Ctrl-C cancels the task, the second is an ordinary one. Only where Ctrl-C is Python's own."""
    interrupted = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        loop.call_soon_threadsafe(task.cancel)

    ours = (
        wanted
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what is left of the loop's work, without waiting for what does not end."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=LEAVING))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), LEAVING))
    except TimeoutError:
        pass
    finally:
        loop.set_exception_handler(lambda _loop, _context: None)
        loop.close()
