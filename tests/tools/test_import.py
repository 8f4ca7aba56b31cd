"""What importing the package costs, and what it offers."""

import subprocess
import sys

import pytest

import brida.tools


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, brida.tools; heavy = {'pydantic', 'anthropic', 'inspect', 'json'} & set(sys.modules);"
        "from brida.tools import tool, ToolError, current_call;"
        "assert 'pydantic' not in sys.modules; print(sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert "pydantic" not in ran.stdout


def test_every_public_name_is_there_and_sorted() -> None:
    assert brida.tools.__all__ == sorted(brida.tools.__all__)
    for name in brida.tools.__all__:
        assert callable(getattr(brida.tools, name))
        assert name in dir(brida.tools)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = brida.tools.nothing
