"""An agent worth testing. Its tests are in ``test_refunds.py`` beside it."""

from brida import Agent, Limits, Policy, ToolError, tool
from brida.models.base import Model

PAID = {4412: 120.0, 4413: 30.0}


@tool(impact="read")
def paid(order: int) -> float:
    """How much was paid for an order, in US dollars."""
    if order not in PAID:
        raise ToolError(f"there is no order {order}")
    return PAID[order]


@tool
def refund(order: int, amount: float) -> str:
    """Give the customer of an order money back, in US dollars."""
    if amount > PAID.get(order, 0):
        raise ToolError(f"order {order} was paid with {PAID.get(order, 0):.2f}, not more")
    return f"refunded {amount:.2f}"


def make_agent(model: str | Model, **settings: object) -> Agent:
    """The agent, on a model of your choice: that is all that testing it asks for."""
    return Agent(
        model=model,
        tools=[paid, refund],
        limits=Limits(max_turns=4),
        policy=Policy({"refund": "ask"}),
        **settings,  # type: ignore[arg-type]
    )
