"""Claude on Google Cloud Vertex AI: python examples/clouds/vertex.py "What time is it?"

NOT RUN by this project's tests, which have no account there: they check the types, and that all of it can
be made without a network.

Needs pip install "anthropic[vertex]", a project with the model switched on (ANTHROPIC_VERTEX_PROJECT_ID), a
region (CLOUD_ML_REGION, or global), and credentials where Google's tools look for them: gcloud auth
application-default login. The name of the model is Vertex's own.
"""

import os
import sys
from pathlib import Path

from anthropic import AsyncAnthropicVertex

from brida import Agent, AnthropicModel
from brida.tools.builtin import builtin_tools


def make_agent(client: AsyncAnthropicVertex, name: str) -> Agent:
    """The client is yours: brida uses it as it is, and you close it."""
    return Agent(model=AnthropicModel(name, client=client), tools=builtin_tools(Path.cwd()).values())


if __name__ == "__main__":
    project = os.environ["ANTHROPIC_VERTEX_PROJECT_ID"]
    client = AsyncAnthropicVertex(project_id=project, region=os.environ.get("CLOUD_ML_REGION", "global"))
    outcome = make_agent(client, os.environ["BRIDA_MODEL"]).run_sync(sys.argv[1])
    print(outcome.text)
    sys.exit(outcome.stop.exit_code)
