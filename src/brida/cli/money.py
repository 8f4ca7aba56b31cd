"""Money as a person reads it."""

from decimal import Decimal
from typing import Final

from brida.core.prices import Number
from brida.texts.catalogue import Catalogue

WARNING: Final = Decimal("0.8")
"""The share of a budget from which on it is worth a word."""


def dollars(amount: Number, say: Catalogue) -> str:
    """US dollars, with as many digits as say something: two at least, six at most."""
    digits = next((digits for digits in range(2, 6) if amount == round(amount, digits)), 6)
    return f"${say.decimal(float(amount), 4 if digits > 4 and amount >= 1 else digits)}"
