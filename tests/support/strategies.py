"""What hypothesis draws from: JSON values, replies, faults, rules."""

from typing import Any

from hypothesis import strategies as st

texts = st.text(max_size=12)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


def shuffled(value: Any, draw: st.DrawFn) -> Any:
    """The same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}
    if isinstance(value, list):
        return [shuffled(item, draw) for item in value]
    return value


@st.composite
def respelled(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """An object, and the same object with its keys in another order."""
    value = draw(json_objects)
    return value, shuffled(value, draw)
