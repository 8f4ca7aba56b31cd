"""What the tests of tools share: English texts."""

import pytest

from brida.core.wording import Say


@pytest.fixture
def say() -> Say:
    def english(text: str, /, **facts: object) -> str:
        return text.format(**facts)

    return english
