"""A model on your own machine: python examples/local/ask.py http://127.0.0.1:8080 my-model "What time is it?"

Any server that speaks the Messages API (POST /v1/messages) will do. These do, with a GGUF file or without:

* llama.cpp:  llama-server -m model.gguf --jinja          http://127.0.0.1:8080   (--jinja: for tools)
* Ollama:     ollama serve                                http://127.0.0.1:11434
* LM Studio:  lms server start                            http://127.0.0.1:1234
* vLLM:       vllm serve NAME                             http://127.0.0.1:8000
* LiteLLM:    litellm --config config.yaml                http://127.0.0.1:4000   (in front of others)

None of them needs a key unless you gave it one. Choose a model that was made for calling tools: one that
was not will answer from its own head, and the limits below are then what ends its detours.
"""

import sys
from pathlib import Path

from brida import Agent, AnthropicModel, Limits
from brida.tools.builtin import builtin_tools


def make_agent(url: str, name: str) -> Agent:
    tools = builtin_tools(Path.cwd())
    return Agent(
        model=AnthropicModel(name, base_url=url, timeout=300),  # seconds of silence: a slow machine may think
        tools=[tools["get_time"], tools["read_file"]],  # few tools: small models choose better among few
        max_tokens=1024,
        limits=Limits(
            max_turns=6, max_tokens_total=None, deadline=600
        ),  # tokens cost nothing here, time does
    )


if __name__ == "__main__":
    url, name, task = sys.argv[1:]
    outcome = make_agent(url, name).run_sync(task)
    print(outcome.text)
    sys.exit(outcome.stop.exit_code)
