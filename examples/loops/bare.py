"""An agent loop with no valve: python examples/loops/bare.py "What time is it?"

It asks the server at ANTHROPIC_BASE_URL, or Anthropic's. It is here to be compared with ``with_brida.py``
and to be measured, not to be put to work: it has no limit, runs whatever it is told to, and forgets
everything when it fails.
"""

import datetime
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic

MODEL = os.environ.get("BRIDA_MODEL", "claude-sonnet-5")


def get_time() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")[:2000]


def write_file(path: str, content: str) -> str:
    Path(path).write_text(content, encoding="utf-8")
    return f"{path} is written"


def schema(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": [*names],
    }


FUNCTIONS: dict[str, Callable[..., str]] = {
    "get_time": get_time,
    "read_file": read_file,
    "write_file": write_file,
}
TOOLS: list[Any] = [
    {"name": "get_time", "description": "Get the current date and time.", "input_schema": schema()},
    {"name": "read_file", "description": "Read a text file.", "input_schema": schema("path")},
    {"name": "write_file", "description": "Write a text file.", "input_schema": schema("path", "content")},
]


def loop(client: anthropic.Anthropic, task: str, model: str = MODEL) -> str:
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        reply = client.messages.create(model=model, max_tokens=4096, messages=messages, tools=TOOLS)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        results = []
        for block in reply.content:
            if block.type == "tool_use":
                result = FUNCTIONS[block.name](**block.input)
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": result})
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    os.environ.setdefault("ANTHROPIC_API_KEY", "none")
    print(loop(anthropic.Anthropic(), sys.argv[1]))
