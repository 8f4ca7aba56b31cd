"""``@tool``: a Python function becomes something that a model can call."""

import copy
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, TypeAlias, get_args, overload

from brida.core.wording import Say
from brida.tools import docstrings
from brida.tools.change import Change, Changes, change_of
from brida.tools.problems import problems_of
from brida.tools.reconcile import Reconcile
from brida.tools.schema import Arguments, arguments_of
from brida.tools.signature import is_async, parameters_of, scope_of, target_of
from brida.tools.text import error_text, short

Impact: TypeAlias = Literal["read", "idempotent", "high"]
AsksAnyway: TypeAlias = Callable[[Mapping[str, object], Say], str | None]

DEFAULT_TIMEOUT = 120.0
"""Seconds that a call may take where its tool says nothing else."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function with what a model and the policy need to know of it. Made by :func:`tool`.

    Calling it calls the function, as if it had not been declared. ``impact_declared`` is False where the
    author said nothing; then ``impact`` is ``high``. ``timeout`` is in seconds. ``reconcile`` finds out what
    became of a call whose process died.
    """

    name: str
    description: str
    input_schema: Mapping[str, object]
    impact: Impact
    impact_declared: bool
    polls: bool
    volatile: bool
    timeout: float
    function: Callable[..., object]
    is_async: bool
    _arguments: Arguments = field(repr=False)
    _asks: AsksAnyway | None = field(repr=False)
    _changes: Changes | None = field(repr=False, default=None)
    reconcile: Reconcile | None = field(repr=False, default=None)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """What the function returns; a coroutine where it is async. Nothing is checked or limited."""
        return self.function(*args, **kwargs)

    @property
    def definition(self) -> dict[str, object]:
        """What goes on the wire; a copy, which the caller may change."""
        described = {"description": self.description} if self.description else {}
        return {"name": self.name, **described, "input_schema": copy.deepcopy(dict(self.input_schema))}

    def problems(self, arguments: Mapping[str, object], say: Say) -> tuple[str, ...]:
        """What is wrong with the arguments, one text per field; empty where nothing is. Never raises.

        They are checked as strictly as JSON allows: ``"5"`` is no integer, an ISO 8601 text is a date.
        """
        return problems_of(self._arguments, arguments, say)

    def asks_anyway(self, arguments: Mapping[str, object], say: Say) -> str | None:
        """Why this call needs a person's answer whatever the rules allow; None for most calls.

        Call it after :meth:`problems` found none. A check that raises asks: unknown means stop.
        """
        if self._asks is None:
            return None
        try:
            reason: object = self._asks(arguments, say)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return say("its own check failed: {error}", error=short(error_text(error)))
        if not reason:
            return None
        return reason if isinstance(reason, str) else say("its own check says so")

    @property
    def reconciles(self) -> bool:
        """Whether it can find out what became of a call whose process died."""
        return self.reconcile is not None

    def change(self, arguments: Mapping[str, object], say: Say) -> Change | None:
        """What this call would change, with what that is based on; None where the tool does not say.

        Call it after :meth:`problems` found none, in a thread where a large file may be read. Never raises:
        a check that fails gives a change whose basis begins with ``unknown: ``, on which no tool of ours
        writes.
        """
        return change_of(self._changes, arguments, say)

    def bind(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The values for ``function(**values)``. Parameters that were not given keep the function's defaults.

        Raises ``ValueError`` for arguments in which :meth:`problems` finds something.
        """
        try:
            return self._arguments.validate(arguments)
        except (ValueError, TypeError) as error:
            raise ValueError(f"the arguments of {self.name} are not valid: ask problems() first") from error


@dataclass(frozen=True, slots=True)
class _Options:
    impact: Impact | None
    polls: bool
    volatile: bool
    timeout: float
    name: str | None
    description: str | None
    asks_anyway: AsksAnyway | None
    changes: Changes | None
    reconcile: Reconcile | None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    impact: Impact | None = None,
    polls: bool = False,
    volatile: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    name: str | None = None,
    description: str | None = None,
    asks_anyway: AsksAnyway | None = None,
    changes: Changes | None = None,
    reconcile: Reconcile | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    impact: Impact | None = None,
    polls: bool = False,
    volatile: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    name: str | None = None,
    description: str | None = None,
    asks_anyway: AsksAnyway | None = None,
    changes: Changes | None = None,
    reconcile: Reconcile | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a tool of a function, sync or async: ``@tool`` or ``@tool(impact="read")``.

    The schema comes from the type hints, the description from the docstring, in the Google, NumPy or Sphinx
    style; ``Annotated[int, Field(description=...)]`` works too. Also taken: bound methods, static methods,
    objects with ``__call__`` (give a ``name``), and ``functools.partial``, whose bound arguments the model
    does not see.

    ``impact``: ``read`` changes nothing, ``idempotent`` may be repeated, ``high`` is everything else and
    what is assumed where nothing is said. ``polls``: the same call again is no sign of walking in place.
    ``volatile``: its results differ by themselves, as the clock's do. ``timeout``: seconds.
    ``asks_anyway(arguments, say)``: the reason why a call needs a person's answer whatever the rules allow,
    or None; ``arguments`` is the JSON that the model sent, without defaults. ``changes(arguments, say)``:
    the :class:`brida.tools.change.Change` that a call would make, or None; the tool then compares
    ``current_call().basis``. ``reconcile(call)``: what became of a ``high`` call whose process died, see
    :mod:`brida.tools.reconcile`; others run again with the same ``current_call().idempotency_key``.

    Raises ``TypeError`` for what cannot be a tool, ``ValueError`` for a name or an option that cannot be.
    """
    options = _Options(
        _impact(impact),
        polls,
        volatile,
        _seconds(timeout),
        name,
        description,
        asks_anyway,
        changes,
        reconcile,
    )
    if function is not None:
        return _declare(function, options, sys._getframe(1))

    def declare(function: Callable[..., Any], /) -> Tool:
        return _declare(function, options, sys._getframe(1))

    return declare


def _declare(candidate: object, options: _Options, frame: FrameType) -> Tool:
    if isinstance(candidate, Tool):
        raise TypeError(f"{candidate.name} is a tool already")
    target = target_of(candidate)
    name = _name(options.name if options.name is not None else target.name)
    try:
        scope = scope_of(target, frame)
        parameters = parameters_of(target, scope)
        told = docstrings.read(target.doc, [parameter.name for parameter in parameters])
        arguments = arguments_of(parameters, told.parameters, scope)
        asynchronous = is_async(target)
    except TypeError as error:
        raise TypeError(f"{name} cannot be a tool: {error}") from error.__cause__
    return Tool(
        name=name,
        description=told.description if options.description is None else options.description.strip(),
        input_schema=arguments.schema,
        impact=options.impact or "high",
        impact_declared=options.impact is not None,
        polls=options.polls,
        volatile=options.volatile,
        timeout=options.timeout,
        function=target.call,
        is_async=asynchronous,
        _arguments=arguments,
        _asks=options.asks_anyway,
        _changes=options.changes,
        reconcile=options.reconcile,
    )


def _name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be the name of a tool: 1 to 64 ASCII letters, digits, _ and - are needed;"
            " give one with tool(name=...)"
        )
    return name


def _impact(impact: Impact | None) -> Impact | None:
    if impact is not None and impact not in get_args(Impact):
        raise ValueError(f"impact is one of {', '.join(get_args(Impact))}, not {impact!r}")
    return impact


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of seconds, not {timeout!r}")
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout is a positive number of seconds, not {timeout!r}")
    return float(timeout)
