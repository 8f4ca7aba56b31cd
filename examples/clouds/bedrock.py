"""Claude on Amazon Bedrock: python examples/clouds/bedrock.py "What time is it?"

NOT RUN by this project's tests, which have no account there: they check the types, and that all of it can
be made without a network.

Needs pip install "anthropic[bedrock]", a region with the model switched on (AWS_REGION), and credentials
where AWS tools look for them, or a bearer token in AWS_BEARER_TOKEN_BEDROCK. The name of the model is
Bedrock's own.
"""

import os
import sys
from pathlib import Path

from anthropic import AsyncAnthropicBedrock

from brida import Agent, AnthropicModel
from brida.tools.builtin import builtin_tools


def make_agent(client: AsyncAnthropicBedrock, name: str) -> Agent:
    """The client is yours: brida uses it as it is, and you close it."""
    return Agent(model=AnthropicModel(name, client=client), tools=builtin_tools(Path.cwd()).values())


if __name__ == "__main__":
    client = AsyncAnthropicBedrock(aws_region=os.environ.get("AWS_REGION", "us-east-1"))
    outcome = make_agent(client, os.environ["BRIDA_MODEL"]).run_sync(sys.argv[1])
    print(outcome.text)
    sys.exit(outcome.stop.exit_code)
