"""What a callable asks for: its parameters, their types resolved, its defaults.

Everything that cannot become a tool is refused here, with a ``TypeError`` that names the parameter and
the way out, when the tool is declared and not when a model calls it.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, get_type_hints

_FRAMES = 100  # how far up the stack the function's own scope is looked for


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that the model fills: ``hint`` is its resolved type."""

    name: str
    hint: object
    required: bool
    default: object


@dataclass(frozen=True, slots=True)
class Target:
    """What a tool calls, and the plain function inside it that carries names, hints and the docstring.

    They differ for ``functools.partial`` (``call`` is the partial, its bound parameters are hidden from
    the model), for methods and for objects with ``__call__``.
    """

    call: Callable[..., object]
    function: Callable[..., object]
    name: str
    doc: str | None
    hidden: frozenset[str]


def target_of(candidate: Any) -> Target:
    """Looks through partials, methods, static methods and callable objects."""
    if isinstance(candidate, staticmethod):
        return target_of(candidate.__func__)
    if isinstance(candidate, classmethod):
        raise TypeError(
            "a classmethod cannot be a tool before it is bound: pass the bound one, tool(C.method)"
        )
    if isinstance(candidate, type):
        raise TypeError(
            f"{candidate.__name__} is a class: make a tool of a function that returns an instance"
        )
    if isinstance(candidate, functools.partial):
        inner = target_of(candidate.func)
        return Target(
            candidate, inner.function, inner.name, inner.doc, inner.hidden | set(candidate.keywords)
        )
    if not callable(candidate):
        raise TypeError(f"a tool is made of a function, not of {type(candidate).__name__}")
    if inspect.isfunction(candidate) or inspect.ismethod(candidate):
        return Target(candidate, candidate, candidate.__name__, candidate.__doc__, frozenset())
    method = getattr(candidate, "__call__")  # noqa: B004, B009 (the bound method of an object, not a test)
    named = getattr(candidate, "__name__", "")
    if not inspect.ismethod(method):  # a function in C
        return Target(candidate, candidate, named, getattr(candidate, "__doc__", None), frozenset())
    told: str | None = method.__doc__
    return Target(candidate, method, named, told or type(candidate).__doc__, frozenset())


def is_async(target: Target) -> bool:
    """Whether a call gives a coroutine. Refuses async generators, whose items nobody could collect."""
    function = inspect.unwrap(target.function)
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(target.function):
        raise TypeError("an async generator cannot be a tool: collect its items and return them as a list")
    return inspect.iscoroutinefunction(target.function)


def parameters_of(target: Target, names: Mapping[str, object]) -> tuple[Parameter, ...]:
    """The parameters that the model fills. ``names``: what :func:`scope_of` found."""
    try:
        signature = inspect.signature(target.call)
    except (ValueError, TypeError) as error:
        raise TypeError(
            f"the signature cannot be read ({error}): wrap it in a function of your own"
        ) from None
    hints = _hints(target, names)
    return tuple(
        _parameter(parameter, hints)
        for parameter in signature.parameters.values()
        if parameter.name not in target.hidden
    )


def _parameter(parameter: inspect.Parameter, hints: Mapping[str, object]) -> Parameter:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise TypeError(f"{stars}{name} cannot be described to a model: name the parameters one by one")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(
            f"parameter {name} is positional-only, and a model gives arguments by name: drop the /"
        )
    if name not in hints:
        if name in ("self", "cls"):
            raise TypeError(
                f"parameter {name} has no type hint: this looks like a method; make a tool of the bound one,"
                " tool(instance.method)"
            )
        raise TypeError(
            f"parameter {name} has no type hint: the model needs its type, {name}: str for example"
        )
    required = parameter.default is parameter.empty
    return Parameter(name, hints[name], required, None if required else parameter.default)


def _hints(target: Target, names: Mapping[str, object]) -> dict[str, object]:
    """The types of the parameters. The return type is left alone: it may be what it likes."""
    function = getattr(target.function, "__func__", target.function)
    innermost = inspect.unwrap(function)
    try:
        written = dict(inspect.get_annotations(function))
    except NameError as error:
        raise TypeError(
            f"the type hint {error.name!r} cannot be resolved: is it defined or imported?"
        ) from None
    except TypeError:
        return {}
    written.pop("return", None)
    known = getattr(innermost, "__globals__", {})
    holder = SimpleNamespace(
        __annotations__=written, __type_params__=getattr(innermost, "__type_params__", ())
    )
    try:
        return dict(get_type_hints(holder, known, dict(names), include_extras=True))
    except NameError as error:
        raise TypeError(
            f"the type hint {_where(written, error.name)} cannot be resolved: {error.name!r} is not defined"
            " where the tool is declared (it may be imported under TYPE_CHECKING only)"
        ) from None
    except Exception as error:
        raise TypeError(f"the type hints cannot be read: {type(error).__name__}: {error}") from None


def _where(written: Mapping[str, object], missing: str | None) -> str:
    for name, hint in written.items():
        if isinstance(hint, str) and missing and missing in hint:
            return f"{name}: {hint}"
    return repr(missing)


def scope_of(target: Target, frame: FrameType | None) -> dict[str, object]:
    """The names of the functions and classes around the target, as its hints in quotes would see them.

    ``frame`` is the code that declares the tool.

    Found on the stack by their qualified names, so that the locals of a stranger who happens to declare
    the tool hide nothing; then what the function closes over.
    """
    function = inspect.unwrap(getattr(target.function, "__func__", target.function))
    names: dict[str, object] = {}
    home = getattr(function, "__globals__", None)
    around = list(_around(getattr(function, "__qualname__", "")))
    for code, found in _frames(frame, home):
        if code in around:
            around.remove(code)
            names = {**found, **names}
    closed: CodeType | None = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(closed.co_freevars if closed else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return names


def _around(qualname: str) -> Iterator[str]:
    scope = qualname.rpartition(".")[0]
    while scope:
        if not scope.endswith("<locals>"):
            yield scope
        scope = scope.rpartition(".")[0]


def _frames(frame: FrameType | None, home: object) -> Iterator[tuple[str, dict[str, object]]]:
    for _ in range(_FRAMES):
        if frame is None:
            return
        if frame.f_globals is home:
            yield frame.f_code.co_qualname, dict(frame.f_locals)
        frame = frame.f_back
