"""A tool that returns an :class:`Image` shows the model a picture."""

import base64
from dataclasses import dataclass, field
from typing import Final

from brida.core.encoding import Block
from brida.core.wording import Say
from brida.tools.images import MEDIA_TYPES, MediaType, size_in_pixels

IMAGE_LIMIT: Final = 3_750_000
"""The most bytes of an image that is sent: 5,000,000 once they are base64."""

SIDE_LIMIT: Final = 8_000
"""The most pixels of a side of an image that is sent."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model, as the bytes of its file.

    Raises ``TypeError`` where ``data`` is not ``bytes``, ``ValueError`` for another media type.
    """

    data: bytes = field(repr=False)
    media_type: MediaType

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise TypeError(f"data: expected bytes, got {type(self.data).__name__}")
        if self.media_type not in MEDIA_TYPES:
            expected = ", ".join(sorted(MEDIA_TYPES))
            raise ValueError(f"media_type: expected one of {expected}, got {self.media_type!r}")

    def fault(self, say: Say) -> str | None:
        """Why a server would refuse it, in words for the model; None where nothing is known against it."""
        if len(self.data) > IMAGE_LIMIT:
            return say("it is larger than {most:,} bytes", most=IMAGE_LIMIT)
        size = size_in_pixels(self.data, self.media_type)
        if size is None:
            return say("it is damaged, or no {kind}", kind=self.media_type)
        if not all(1 <= side <= SIDE_LIMIT for side in size):
            width, height = size
            return say(
                "it is {width} by {height} pixels, and a side may have 1 to {most:,}",
                width=width,
                height=height,
                most=SIDE_LIMIT,
            )
        return None

    def blocks(self, say: Say) -> tuple[Block, ...]:
        """The image block that the model is sent; a text block that says why where it cannot be sent."""
        if fault := self.fault(say):
            return ({"type": "text", "text": self.note(say, fault)},)
        data = base64.standard_b64encode(self.data).decode("ascii")
        return ({"type": "image", "source": {"type": "base64", "media_type": self.media_type, "data": data}},)

    def note(self, say: Say, reason: str = "") -> str:
        """What stands where the image itself cannot: its size and type, and ``reason``."""
        size, kind = len(self.data), self.media_type
        if not reason:
            return say("(an image: {size:,} bytes, {kind})", size=size, kind=kind)
        return say(
            "(an image: {size:,} bytes, {kind}; it is not shown: {reason})",
            size=size,
            kind=kind,
            reason=reason,
        )
