"""Text as it may be sent: valid UTF-8, cut between characters, and the texts that stand for other things."""

import codecs
import re

from brida.core.wording import Say
from brida.tools.context import without_secrets

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
# Anything but white space, controls and characters without a shape. NUL and half surrogate pairs are
# visible: they are sent as U+FFFD.
_VISIBLE = re.compile(
    "[^\\s\x01-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
_CHUNK = 1 << 20
_ERROR_LENGTH = 4_096

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)


def clean(text: str) -> str:
    """``text`` as UTF-8 can hold it: half surrogate pairs and NUL become U+FFFD, all else stays."""
    return _UNSENDABLE.sub("\ufffd", text)


def is_visible(text: str) -> bool:
    """Whether anything of ``text`` can be seen. White space and zero-width characters cannot."""
    return _VISIBLE.search(text) is not None


def head(text: str, size: int) -> str:
    """The beginning of ``text``, cleaned: whole characters, at most ``size`` bytes of UTF-8."""
    return clean(text[: max(0, size)]).encode()[: max(0, size)].decode("utf-8", "ignore")


def visible(text: str) -> str:
    """``text`` as one line: what could break or hide a line of ours is written as an escape."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_binary(start: bytes) -> bool:
    """A NUL tells, and so does the mark of a binary format where the rest is not text either."""
    if b"\0" in start:
        return True
    if media_type(start) is None:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return True
    return False


def size_of(text: str) -> int:
    """The bytes that ``text`` has once it is clean, counted without a copy of a large one."""
    if text.isascii():
        return len(text) + 2 * text.count("\0")
    return sum(len(clean(text[at : at + _CHUNK]).encode()) for at in range(0, len(text), _CHUNK))


def cut(text: str, limit: int, say: Say, *, more: bool = False) -> str:
    """``text``, cleaned and cut to ``limit`` bytes between two characters, the notice of the cut included.

    ``more``: it is the beginning of something longer, whose size nobody knows.
    """
    text = without_secrets(text, limit)
    total = 0 if more else size_of(text)
    if not more and total <= limit:
        return clean(text)

    def notice(shown: int) -> str:
        if more:
            return "\n" + say("... cut: {shown:,} bytes shown, the rest left out", shown=shown)
        return "\n" + say("... cut: {shown:,} of {total:,} bytes shown", shown=shown, total=total)

    kept = head(text, limit - len(clean(notice(limit)).encode()))
    return head(kept + notice(len(kept.encode())), limit)


def short(text: str, length: int = 200) -> str:
    """``text`` for a sentence of ours: cleaned, at most ``length`` characters."""
    return clean(text if len(text) <= length else text[: length - 1] + "…")


def text_of(value: object) -> str | None:
    """``str(value)``, exactly a ``str``; None where it raises or gives something else.

    ``KeyboardInterrupt`` goes through: it may be a person's Ctrl-C.
    """
    try:
        return str.__str__(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def type_name(value: object) -> str:
    """The name of the value's class."""
    try:
        return clean(str.__str__(type(value).__name__))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "object"


def error_text(error: BaseException) -> str:
    """``ValueError: what it says``; the type alone where it says nothing."""
    message = without_secrets(text_of(error) or "", _ERROR_LENGTH)
    return f"{type_name(error)}: {message}" if message and is_visible(message) else type_name(error)


def binary_note(value: bytes | bytearray | memoryview, say: Say) -> str:
    """What is said instead of bytes: how many there are, and of what kind where their beginning tells."""
    try:
        size = memoryview(value).nbytes
        start = bytes(value[:16])
    except (ValueError, TypeError, NotImplementedError):  # a released or a many-dimensional view
        return say("(binary data)")
    kind = media_type(start)
    if kind:
        return say("(binary data: {size:,} bytes, {kind})", size=size, kind=kind)
    return say("(binary data: {size:,} bytes)", size=size)


def media_type(start: bytes) -> str | None:
    """The media type of a file that begins with ``start``, where its first 16 bytes tell."""
    if start[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(start[8:12])
    if start[4:8] == b"ftyp":
        return "video/mp4"
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), None)
