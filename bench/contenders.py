"""What is compared: the same tools, the same server, the same number of turns.

Each contender is a function of a server's address that gives its ``Runner``; the runner is called with a
number of turns and does them all. Tools and clients are made before, since a program makes them once; but
brida's model, which is named after the number of turns, makes its client within the run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import anthropic
from examples.loops import bare

from brida import Agent, AnthropicModel, Limits, Policy, tool

Runner: TypeAlias = Callable[[int], Awaitable[None]]

TASK: Final = "Say every turn once."
RESULT: Final = 500
"""Characters that a result has: a screenful of text, little for a tool that reads files."""

LIMITS: Final = Limits(
    max_turns=1_000, max_requests=10_000, max_calls=10_000, max_tokens_total=10**9, deadline=3_600
)
"""Every limit is on, and none trips."""


def echo(text: str) -> str:
    """Say it again, and again."""
    return (f"{text}. " * (RESULT // len(text)))[:RESULT]


FUNCTIONS: Final = [*bare.FUNCTIONS.values(), echo]
"""The tools of ``examples/loops/bare.py`` and the one that the server's model calls."""


def bench_model(turns: int) -> str:
    """The name under which the server asks for one call a turn, for so many turns."""
    return f"bench-{turns}"


# -- brida


def brida(url: str, runs: int = 1, *, stream: bool) -> Runner:
    """``Agent.run`` with every limit on, so many times at once."""
    tools = [tool(impact="high", description="A tool of the benchmark.")(f) for f in FUNCTIONS]
    policy = Policy({"echo": "allow", "write_*": "ask", "delete_*": "deny"})

    async def run(turns: int) -> None:
        model = AnthropicModel(bench_model(turns), base_url=url, api_key="none", stream=stream)
        agent = Agent(model=model, tools=tools, limits=LIMITS, policy=policy)
        for outcome in await asyncio.gather(*(agent.run(TASK) for _ in range(runs))):
            _check(outcome, turns)
        await model.close()

    return run


def _check(outcome: Any, turns: int) -> None:
    if (outcome.stop.kind, outcome.turns) != ("completed", turns):
        raise RuntimeError(f"expected {turns} turns, got {outcome.turns} and {outcome.stop}")


# -- the plain loop


def loop(url: str) -> Runner:
    """The loop of ``examples/loops/bare.py``, as it stands there."""
    client = _client(url)
    _offer_echo()

    async def run(turns: int) -> None:
        bare.loop(client, TASK, bench_model(turns))

    return run


def streaming_loop(url: str) -> Runner:
    """The same loop on the streaming call of the SDK."""
    client = _client(url)
    _offer_echo()

    async def run(turns: int) -> None:
        messages: list[Any] = [{"role": "user", "content": TASK}]
        while True:
            with client.messages.stream(
                model=bench_model(turns), max_tokens=4096, messages=messages, tools=bare.TOOLS
            ) as stream:
                reply = stream.get_final_message()
            if not _add_reply(messages, reply):
                return

    return run


def loop_in_tasks(url: str, runs: int) -> Runner:
    """So many plain loops at once, as tasks on the async client of the SDK."""
    client = _async_client(url)
    _offer_echo()

    async def one(turns: int) -> None:
        messages: list[Any] = [{"role": "user", "content": TASK}]
        more = True
        while more:
            reply = await client.messages.create(
                model=bench_model(turns), max_tokens=4096, messages=messages, tools=bare.TOOLS
            )
            more = _add_reply(messages, reply)

    async def run(turns: int) -> None:
        await asyncio.gather(*(one(turns) for _ in range(runs)))

    return run


def loop_in_threads(url: str, runs: int) -> Runner:
    """So many plain loops at once, each in a thread, on one client."""
    client = _client(url)
    _offer_echo()

    async def run(turns: int) -> None:
        with ThreadPoolExecutor(runs) as threads:
            list(threads.map(lambda _: bare.loop(client, TASK, bench_model(turns)), range(runs)))

    return run


def _add_reply(messages: list[Any], reply: anthropic.types.Message) -> bool:
    """Adds a reply and the results of its calls, as ``bare.loop`` does; False where it was the last."""
    messages.append({"role": "assistant", "content": reply.content})
    if reply.stop_reason != "tool_use":
        return False
    results = []
    for block in reply.content:
        if block.type == "tool_use":
            result = bare.FUNCTIONS[block.name](**block.input)
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": result})
    messages.append({"role": "user", "content": results})
    return True


def _offer_echo() -> None:
    if "echo" not in bare.FUNCTIONS:
        bare.FUNCTIONS["echo"] = echo
        bare.TOOLS.append(
            {"name": "echo", "description": "A tool of the benchmark.", "input_schema": bare.schema("text")}
        )


# -- the SDK's own loop


def tool_runner(url: str, *, stream: bool) -> Runner:
    """``client.beta.messages.tool_runner``, with what it has on by default."""
    client = _client(url)
    tools = [anthropic.beta_tool(f, description="A tool of the benchmark.") for f in FUNCTIONS]

    async def run(turns: int) -> None:
        settings: dict[str, Any] = {"stream": True} if stream else {}
        client.beta.messages.tool_runner(
            model=bench_model(turns),
            max_tokens=4096,
            messages=[{"role": "user", "content": TASK}],
            tools=tools,
            **settings,
        ).until_done()

    return run


def _client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none")


def _async_client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="none")


BRIDA: Final = "brida, streaming"
"""What ``Agent("...")`` does where nothing else is said."""

ALONE: Final[dict[str, Callable[[str], Runner]]] = {
    "brida, whole replies": lambda url: brida(url, stream=False),
    "plain loop, whole replies": loop,
    "tool_runner, whole replies": lambda url: tool_runner(url, stream=False),
    BRIDA: lambda url: brida(url, stream=True),
    "plain loop, streaming": streaming_loop,
    "tool_runner, streaming": lambda url: tool_runner(url, stream=True),
}
"""One run after another."""

AT_ONCE: Final[dict[str, Callable[[str, int], Runner]]] = {
    "brida, whole replies": lambda url, runs: brida(url, runs, stream=False),
    BRIDA: lambda url, runs: brida(url, runs, stream=True),
    "plain loop, tasks": loop_in_tasks,
    "plain loop, threads": loop_in_threads,
}
"""Many runs in one process."""
