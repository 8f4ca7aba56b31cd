"""What a tool sees of the call it runs in."""

import asyncio
import contextvars
import threading
from contextlib import suppress

import pytest

from brida.core.wording import Say
from brida.tools.context import CallContext, call_context, current_call, running_call, say_of_call


def _call(say: Say, name: str = "c1") -> CallContext:
    return CallContext(call_id=name, tool="t", run_id="r", say=say)


def test_outside_a_call_there_is_none_and_the_error_says_so() -> None:
    with pytest.raises(RuntimeError, match="outside a tool call"):
        current_call()
    assert running_call() is None
    assert say_of_call()("hello {name}", name="you") == "hello you"


def test_the_block_sets_the_call_and_puts_the_outer_one_back(say: Say) -> None:
    outer, inner = _call(say, "outer"), _call(say, "inner")
    with call_context(outer):
        with suppress(KeyError), call_context(inner):
            assert current_call() is inner
            raise KeyError
        assert current_call() is outer
        assert say_of_call() is say
    assert running_call() is None


def test_a_thread_with_a_copy_of_the_context_sees_the_call_and_one_without_does_not(say: Say) -> None:
    seen: list[CallContext | None] = []

    def look() -> None:
        seen.append(running_call())

    with call_context(_call(say)) as call:
        copied = contextvars.copy_context()
        threads = [threading.Thread(target=copied.run, args=(look,)), threading.Thread(target=look)]
        for thread in threads:
            thread.start()
            thread.join()
    assert seen[0] is call
    assert seen[1] is None or seen[1] is call  # 3.14 may inherit the context


def test_calls_that_run_together_do_not_see_each_other(say: Say) -> None:
    async def tool(name: str) -> str:
        with call_context(_call(say, name)):
            await asyncio.sleep(0)
            return current_call().call_id

    async def both() -> list[str]:
        return list(await asyncio.gather(tool("a"), tool("b")))

    assert asyncio.run(both()) == ["a", "b"]


def test_each_call_has_its_own_signal(say: Say) -> None:
    first, second = _call(say), _call(say)
    first.cancelled.set()
    assert not second.cancelled.is_set()
