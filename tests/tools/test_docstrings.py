"""Three styles of docstring, and any other text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.tools.docstrings import read

GOOGLE = """Find things.

    Looks everywhere.

    Args:
        query (str): What to look for,
            in plain words.
        limit (Optional[tuple(int, int)], optional): How many: at most.
        *rest: not ours
    Returns:
        What was found.

    Raises:
        ValueError: never.
    """

NUMPY = """Find things.

    Looks everywhere.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.
    limit, size : int, optional
        How many: at most.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    ValueError
        Never.
    """

SPHINX = """Find things.

    Looks everywhere.

    :param str query: What to look for,
        in plain words.
    :param limit: How many: at most.
    :type limit: int
    :raises ValueError: never.
    :returns: What was found.
    :rtype: str
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same_parameters_and_keeps_what_the_model_needs(text: str) -> None:
    told = read(text, ["query", "limit"])
    assert told.parameters == {"query": "What to look for, in plain words.", "limit": "How many: at most."}
    assert told.description.startswith("Find things.\n\nLooks everywhere.")
    assert "What was found." in told.description
    assert "ValueError" not in told.description
    assert "query" not in told.description


def test_names_that_share_a_line_share_the_text() -> None:
    assert read(NUMPY, ["limit", "size"]).parameters["size"] == "How many: at most."


def test_text_after_the_parameters_stays_in_the_description() -> None:
    told = read("One.\n\nArgs:\n    a: first\n\nTwo: more.\n", ["a"])
    assert (told.description, told.parameters) == ("One.\n\nTwo: more.", {"a": "first"})
    told = read("One.\n\nParameters\n----------\na : int\n    first\n\nTwo is more.\n", ["a"])
    assert (told.description, told.parameters) == ("One.\n\nTwo is more.", {"a": "first"})


def test_a_line_that_only_looks_like_an_entry_belongs_to_the_one_before() -> None:
    assert read("One.\n\nArgs:\n    a: first\n        b: not a name\n", ["a", "b"]).parameters == {
        "a": "first b: not a name"
    }


@pytest.mark.parametrize("text", [None, "", "   "])
def test_no_docstring_is_an_empty_one(text: str | None) -> None:
    assert read(text, ["a"]).description == ""


_lines = st.lists(
    st.sampled_from(["Args:", "Parameters", "-----", ":param a: x", "    a: b", "  a (int): c", "", "a : int",
                     "text", "Returns:", ":returns:", ":type", "\ta:"]) | st.text(max_size=20),
    max_size=15,
)  # fmt: skip


@given(_lines)
def test_any_text_is_read_without_an_error(lines: list[str]) -> None:
    told = read("\n".join(lines), ["a"])
    assert set(told.parameters) <= {"a"}
    assert all(part.strip() for part in told.parameters.values())
