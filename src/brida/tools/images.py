"""Whether bytes are a whole image that a server will take: its structure is read, its pixels are not.

Read are PNG (W3C Portable Network Graphics, 3rd edition), JPEG (ITU-T T.81, annex B), GIF (89a) and WebP
(RFC 9649). An image that a server refuses would make every later request of the run fail, so in doubt
it is damaged.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

MediaType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
MEDIA_TYPES: Final = frozenset(get_args(MediaType))

Size: TypeAlias = tuple[int, int]

_NOT_WHOLE: Final = (struct.error, IndexError, ValueError)
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the JPEG markers that tell the size
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})  # JPEG markers without a length


def size_in_pixels(data: bytes, media_type: str) -> Size | None:
    """Width and height; None where ``data`` is no whole image of that type."""
    try:
        return _READERS[media_type](data)
    except _NOT_WHOLE:
        return None


def _png(data: bytes) -> Size:
    if not data.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"):
        raise ValueError
    at, pixels = 8, False
    while True:
        (length,) = struct.unpack_from(">I", data, at)
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        kind = data[at + 4 : at + 8]
        if zlib.crc32(memoryview(data)[at + 4 : at + 8 + length]) != checksum:
            raise ValueError
        pixels = pixels or kind == b"IDAT"
        if kind == b"IEND":
            break
        at += 12 + length
    if not pixels:
        raise ValueError
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg(data: bytes) -> Size:
    if not data.startswith(b"\xff\xd8\xff"):
        raise ValueError
    at, size = 2, None
    while True:
        if data[at] != 0xFF:
            raise ValueError
        marker = data[at + 1]
        if marker == 0xFF:  # a filler
            at += 1
            continue
        if marker in _ALONE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if length < 2:
            raise ValueError
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (width, height)
        at += 2 + length
        if marker == 0xDA:  # the pixels follow; in them FF is never followed by D9
            break
    if size is None or data.find(b"\xff\xd9", at) < 0:
        raise ValueError
    return size


def _gif(data: bytes) -> Size:
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        raise ValueError
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, pixels = 13 + _colours(flags), False
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at += 2
        elif data[at] == 0x2C:
            at += 11 + _colours(data[at + 9])
            pixels = True
        else:
            raise ValueError
        while length := data[at]:
            at += 1 + length
        at += 1
    if not pixels:
        raise ValueError
    return width, height


def _colours(flags: int) -> int:
    """The bytes of the colour table that the flags announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> Size:
    riff, length, webp, kind = struct.unpack_from("<4sI4s4s", data)
    end = 8 + length
    if riff != b"RIFF" or webp != b"WEBP" or end > len(data):
        raise ValueError
    at, kinds = 12, set()
    while at < end:
        chunk, inside = struct.unpack_from("<4sI", data, at)
        kinds.add(chunk)
        at += 8 + inside + inside % 2
    if at > end + 1 or not kinds & {b"VP8 ", b"VP8L", b"ANMF"}:
        raise ValueError
    return _webp_size(data, kind)


def _webp_size(data: bytes, kind: bytes) -> Size:
    if kind == b"VP8X":
        wide, high = data[24:27], data[27:30]
        return int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError


_READERS: Final[Mapping[str, Callable[[bytes], Size]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
