"""Look up an order: python examples/orders/look_up.py "What is the status of order 4412?"

It asks the model named in BRIDA_MODEL, at ANTHROPIC_BASE_URL or at Anthropic's. BRIDA_MODEL=embedded needs
no key and no network.
"""

import os
import sys
from dataclasses import dataclass
from datetime import date

from brida import Agent, Limits, ToolError, tool


@dataclass(frozen=True)
class Order:
    """What the shop knows of an order. The model reads it as JSON."""

    number: int
    status: str
    placed: date
    items: tuple[str, ...]


ORDERS = {
    order.number: order
    for order in (
        Order(4411, "delivered", date(2026, 11, 3), ("kettle",)),
        Order(4412, "shipped", date(2026, 11, 27), ("saddle", "bridle")),
        Order(4413, "waiting for payment", date(2026, 11, 30), ("lamp",)),
    )
}


@tool(impact="read")  # it only looks, so it runs without asking anybody
def lookup_order(number: int) -> Order:
    """Look up an order by its number: its status, its date and its items.

    Args:
        number: The number of the order, such as 4411.
    """
    if number not in ORDERS:
        raise ToolError(f"there is no order {number}; ask the customer for the number again")
    return ORDERS[number]


def make_agent(model: str) -> Agent:
    return Agent(
        model=model,
        tools=[lookup_order],
        system="You answer customers of a shop about their orders, in one or two sentences.",
        limits=Limits(max_turns=4, max_tokens_total=20_000, deadline=60),
    )


if __name__ == "__main__":
    outcome = make_agent(os.environ.get("BRIDA_MODEL", "claude-sonnet-5")).run_sync(sys.argv[1])
    print(outcome.text)
    sys.exit(outcome.stop.exit_code)
