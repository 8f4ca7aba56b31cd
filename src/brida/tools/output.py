"""What becomes of a tool's return value or error: text for the model, valid, bounded, never blank.

================================  =======================================================================
text                              as it is; half surrogate pairs and NUL become U+FFFD
None, nothing visible             ``(no output)``
Image (brida.tools.image)         its image block where it is the whole result, the model takes images, and it
                                  is whole, at most 3,750,000 bytes and 8,000 pixels a side; else a note
bytes                             ``(binary data: 120 bytes, image/png)``, never the bytes; inside values too
True, 5, 2.5, {...}, [...]        JSON; NaN and infinities are the texts NaN, Infinity, -Infinity
tuple, set, deque, range, views   a JSON list; a set in order where it can be sorted
iterator, generator               a JSON list of its first 1,000 items; an error that ends it is its last item
date, time, Decimal, Path, UUID   its text (dates in ISO 8601)
enum                              its value
dataclass, named tuple            a JSON object of its fields
pydantic model                    a JSON object, as ``model_dump(mode="json")`` gives it
mapping                           a JSON object; keys that are no text are written as text
exception                         ``ValueError: what it says``
coroutine, future                 a note that nobody awaited it
anything else                     its ``str()``; where that fails or tells only an address, its type
================================  =======================================================================

What is text by this table stands without quotes where it is the whole result. A value inside itself, and
anything more than 32 levels deep, is replaced by a note. No more of a value is looked at than fits.
"""

from collections.abc import Iterator

from brida.core.encoding import Block
from brida.core.wording import Say
from brida.tools.context import running_call
from brida.tools.image import Image
from brida.tools.jsonable import Full, Writer, simplify
from brida.tools.text import cut, error_text, is_visible, text_of

RESULT_LIMIT = 32_768
"""The most that one result may have, in bytes of UTF-8, the notice of a cut included."""

TURN_LIMIT = 131_072
"""The most that all results of one turn may have together, in bytes of UTF-8."""

_SMALLEST_SHARE = 1_024
_SMALLEST_LIMIT = 64
_ERROR_LIMIT = 4_000
_ERRORS_SHOWN = 5


class ToolError(Exception):
    """Raise this in a tool to tell the model what went wrong: it reads the message as it is.

    Of any other exception it reads the type and the message.
    """


def share(calls: int) -> int:
    """The limit of each result in a turn of ``calls`` calls, in bytes.

    At least 1,024, so that each still says something: a turn of more than 128 calls can therefore be
    larger than :data:`TURN_LIMIT`.
    """
    return min(RESULT_LIMIT, max(_SMALLEST_SHARE, TURN_LIMIT // max(1, calls)))


def render(value: object, *, limit: int = RESULT_LIMIT, say: Say) -> str | tuple[Block, ...]:
    """The text of ``value`` for the model: at most ``limit`` bytes (64 at the least), never blank.

    An :class:`Image` becomes its blocks, which have a limit of their own; a note in a call whose model
    takes no images.
    Never raises, whatever the value does; only ``KeyboardInterrupt`` goes through. The code of a
    generator runs in here, so call this where the tool itself ran, under its timeout.
    """
    if limit < _SMALLEST_LIMIT:
        raise ValueError(f"a result needs room for at least {_SMALLEST_LIMIT} bytes, not {limit}")
    if type(value) is Image:  # isinstance would run code of the value's own
        fault = value.fault(say) or no_images(say)
        return cut(value.note(say, fault), limit, say) if fault else value.blocks(say)
    simple = simplify(value, say)
    if simple is None or (isinstance(simple, str) and not is_visible(simple)):
        return cut(say("(no output)"), limit, say)
    if isinstance(simple, str):
        return cut(simple, limit, say)
    writer = Writer(limit, say)
    try:
        writer.write(value, simple)
    except Full:
        return cut(writer.text, limit, say, more=True)
    return cut(writer.text, limit, say)


def no_images(say: Say) -> str | None:
    """Why the model of this call cannot be shown an image; None where it can, and outside a call."""
    call = running_call()
    return say("the model takes no images") if call is not None and not call.takes_images else None


def describe_error(error: BaseException, say: Say) -> str:
    """What the model is told of a tool's exception: type and message, no traceback, at most 4,000 bytes.

    A :class:`ToolError` gives its message alone; an exception group, its first five exceptions too.
    """
    if isinstance(error, ToolError):
        message = text_of(error)
        if message is None or not is_visible(message):
            return say("the tool failed and did not say why")
        return cut(message, _ERROR_LIMIT, say)
    text = error_text(error)
    if isinstance(error, BaseExceptionGroup):
        inner = [error_text(leaf) for leaf, _ in zip(_leaves(error), range(_ERRORS_SHOWN), strict=False)]
        text = f"{text}: {'; '.join(inner)}"
    return cut(text, _ERROR_LIMIT, say)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions in a group that are no groups, from left to right."""
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(error.exceptions))
        else:
            yield error
