"""Pictures that a tool gives: a block where a server will take them, a note where it would not."""

import base64
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.wording import Say, english
from brida.tools import Image
from brida.tools.builtin import builtin_tools
from brida.tools.context import CallContext, call_context
from brida.tools.image import IMAGE_LIMIT
from brida.tools.images import size_in_pixels
from brida.tools.output import render


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 2, height: int = 3, extra: bytes = b"") -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 16)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + (_chunk(b"tEXt", extra) if extra else b"")
        + _chunk(b"IDAT", pixels)
        + _chunk(b"IEND", b"")
    )


def jpeg(width: int = 2, height: int = 3) -> bytes:
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\x01\x00\x00\x3f\x00"
    return (
        b"\xff\xd8\xff\xe0" + struct.pack(">H", 4) + b"JF" + frame + scan + b"\x12\xff\x00\x34" + b"\xff\xd9"
    )


def gif(width: int = 2, height: int = 3) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0" * 6
    note = b"\x21\xfe\x02hi\x00"
    return head + note + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00\x3b"


def webp(width: int = 2, height: int = 3, kind: str = "VP8 ") -> bytes:
    if kind == "VP8L":
        data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0"
        body = b"VP8L" + struct.pack("<I", len(data)) + data
    else:
        data = b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)
        body = b"VP8 " + struct.pack("<I", len(data)) + data
    if kind == "VP8X":
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        body = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size + body
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


KINDS: dict[str, Callable[[int, int], bytes]] = {
    "image/png": png,
    "image/jpeg": jpeg,
    "image/gif": gif,
    "image/webp": webp,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_every_kind_is_read(kind: str) -> None:
    assert size_in_pixels(KINDS[kind](640, 480), kind) == (640, 480)


@pytest.mark.parametrize("kind", ["VP8 ", "VP8L", "VP8X"])
def test_the_three_kinds_of_webp_are_read(kind: str) -> None:
    assert size_in_pixels(webp(640, 480, kind), "image/webp") == (640, 480)


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_that_is_cut_anywhere_is_damaged(kind: str) -> None:
    whole = KINDS[kind](2, 3)
    assert not [end for end in range(len(whole)) if size_in_pixels(whole[:end], kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_of_another_kind_is_damaged(kind: str) -> None:
    for other, made in KINDS.items():
        assert (size_in_pixels(made(2, 3), kind) is not None) == (kind == other)


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=200), st.integers(0, 60))
def test_whatever_the_bytes_are_nothing_raises(kind: str, data: bytes, start: int) -> None:
    size_in_pixels(data, kind)
    size_in_pixels(KINDS[kind](2, 3)[:start] + data, kind)


def test_a_byte_of_a_png_that_flipped_is_noticed() -> None:
    whole = bytearray(png())
    whole[-20] ^= 1
    assert size_in_pixels(bytes(whole), "image/png") is None


def test_an_image_becomes_a_block_with_its_bytes_and_type(say: Say) -> None:
    data = png()
    assert render(Image(data, "image/png"), say=say, limit=64) == (
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": base64.b64encode(data).decode(),
            },
        },
    )


@pytest.mark.parametrize(
    "image, reason",
    [
        (Image(b"nothing", "image/png"), "it is damaged, or no image/png"),
        (Image(png(), "image/jpeg"), "it is damaged, or no image/jpeg"),
        (Image(png(8_001, 1), "image/png"), "it is 8001 by 1 pixels, and a side may have 1 to 8,000"),
        (Image(gif(0, 1), "image/gif"), "it is 0 by 1 pixels, and a side may have 1 to 8,000"),
        (Image(b"\0" * (IMAGE_LIMIT + 1), "image/png"), "it is larger than 3,750,000 bytes"),
    ],
    ids=["damaged", "other", "wide", "none", "large"],
)
def test_an_image_that_a_server_would_refuse_is_a_note(image: Image, reason: str, say: Say) -> None:
    note = f"(an image: {len(image.data):,} bytes, {image.media_type}; it is not shown: {reason})"
    assert render(image, say=say) == note
    assert image.blocks(say) == ({"type": "text", "text": note},)


def test_the_largest_image_that_is_sent_has_five_million_characters(say: Say) -> None:
    padding = IMAGE_LIMIT - len(png(extra=b"x")) + 1
    (block,) = Image(png(extra=b"x" * padding), "image/png").blocks(say)
    assert len(block["source"]["data"]) == 5_000_000  # type: ignore[index]


def test_an_image_inside_a_value_is_a_note(say: Say) -> None:
    data = png()
    assert render({"a": [Image(data, "image/png")]}, say=say) == (
        f'{{"a": ["(an image: {len(data)} bytes, image/png)"]}}'
    )


def test_a_model_that_takes_no_images_gets_a_note(say: Say) -> None:
    with call_context(CallContext("c", "t", "r", say)):
        note = render(Image(png(), "image/png"), say=say)
    assert isinstance(note, str)
    assert note.endswith("it is not shown: the model takes no images)")
    with call_context(CallContext("c", "t", "r", say, takes_images=True)):
        assert isinstance(render(Image(png(), "image/png"), say=say), tuple)


def test_what_is_no_image_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="data: expected bytes, got str"):
        Image("text", "image/png")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"media_type: expected one of .*, got 'image/bmp'"):
        Image(b"", "image/bmp")  # type: ignore[arg-type]
    assert "PNG" not in repr(Image(png(), "image/png"))


# --- read_file --------------------------------------------------------------------------------------


def _read(root: Path, path: str, *, takes_images: bool = True) -> object:
    with call_context(CallContext("c", "read_file", "r", english, takes_images=takes_images)):
        return builtin_tools(root)["read_file"](path)


@pytest.mark.parametrize("kind", KINDS)
def test_read_file_gives_an_image_as_an_image(kind: str, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(KINDS[kind](2, 3))
    assert _read(tmp_path, "picture") == Image(KINDS[kind](2, 3), kind)  # type: ignore[arg-type]


def test_read_file_says_why_an_image_is_not_shown(tmp_path: Path) -> None:
    size = len(png())
    (tmp_path / "whole").write_bytes(png())
    (tmp_path / "cut").write_bytes(png()[:-1])
    (tmp_path / "large").write_bytes(png(extra=b"x" * IMAGE_LIMIT))
    assert _read(tmp_path, "whole", takes_images=False) == (
        f"(the file whole is an image: {size} bytes, image/png; it is not shown: the model takes no images)"
    )
    assert _read(tmp_path, "cut") == (
        f"(the file cut is an image: {size - 1} bytes, image/png; it is not shown:"
        " it is damaged, or no image/png)"
    )
    assert str(_read(tmp_path, "large")).endswith("it is not shown: it is larger than 3,750,000 bytes)")


def test_a_picture_that_is_text_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "picture.svg").write_text("<svg/>")
    assert _read(tmp_path, "picture.svg") == "<svg/>"
