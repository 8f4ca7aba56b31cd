"""Ask for approval in a chat: python examples/approvals/by_chat.py "Refund order 4412"

CHAT_URL is a small service in front of your chat, which you write. It gets each question as

    POST CHAT_URL/questions   {"id": ..., "digest": ..., "text": ..., "seconds": ...}

shows it to the people who may answer, and says what they said to

    GET CHAT_URL/answers/ID   204 while nobody has answered, else
                              200 {"digest": ..., "allow": true, "by": ..., "reason": ...}

Nobody answers in time, the chat is down, the answer is malformed or belongs to other arguments: all of
that is a no, and the model hears why. Checking who answers is the task of that service.
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2  # comes with anthropic

from brida import Agent, Answer, Policy, Question, tool

POLL = 1.0


@tool  # nothing declared: impact is "high", so somebody is asked
def refund(order: int, amount: float) -> str:
    """Give a customer money back.

    Args:
        order: The number of the order.
        amount: How much, in US dollars.
    """
    return f"refunded {amount:.2f} dollars for order {order}"


def ask_in_chat(
    url: str, *, seconds: float = 300, poll: float = POLL
) -> Callable[[Question], Awaitable[Answer]]:
    """An approver that asks behind ``url`` and waits so many seconds for the answer.

    Where the run is stopped meanwhile, the waiting ends at once. The deadline of the run does not count
    the time that people take.
    """

    async def approve(question: Question) -> Answer:
        try:
            async with asyncio.timeout(seconds), httpx2.AsyncClient(timeout=10) as client:
                return read_answer(question, await answer_of(client, url, question, seconds, poll))
        except TimeoutError:
            return Answer(False, reason=f"nobody answered within {seconds:g} seconds")
        except (httpx2.HTTPError, ValueError) as error:
            return Answer(False, reason=f"nobody could be asked: {type(error).__name__}")

    return approve


async def answer_of(
    client: httpx2.AsyncClient, url: str, question: Question, seconds: float, poll: float
) -> Any:
    # JSON in ASCII: nothing that the model wrote can pass for another text, or for markup with a trick in it.
    text = f"May {question.tool} run with {json.dumps(question.arguments)}? ({question.impact} impact)"
    asked = {"id": uuid.uuid4().hex, "digest": question.digest, "text": text, "seconds": seconds}
    (await client.post(f"{url}/questions", json=asked)).raise_for_status()
    while (response := await client.get(f"{url}/answers/{asked['id']}")).status_code == 204:
        await asyncio.sleep(poll)
    return response.raise_for_status().json()


def read_answer(question: Question, said: Any) -> Answer:
    """Only an answer to these very arguments counts, and only ``true`` is a yes."""
    if not isinstance(said, dict) or said.get("digest") != question.digest:
        raise ValueError("this answers something else")
    return Answer(
        said.get("allow") is True, reason=str(said.get("reason", "")), by=str(said.get("by", "chat"))
    )


def make_agent(model: str, url: str, *, seconds: float = 300) -> Agent:
    return Agent(
        model=model,
        tools=[refund],
        policy=Policy({"refund": "ask"}),
        approve=ask_in_chat(url, seconds=seconds),
    )


if __name__ == "__main__":
    model = os.environ.get("BRIDA_MODEL", "claude-sonnet-5")
    seconds = float(os.environ.get("CHAT_SECONDS", "300"))
    outcome = make_agent(model, os.environ["CHAT_URL"], seconds=seconds).run_sync(sys.argv[1])
    print(outcome.text)
    sys.exit(outcome.stop.exit_code)
