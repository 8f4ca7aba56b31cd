"""The clock, and the tools for one file, as a model and a person use them."""

import datetime
import io
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.wording import Say
from brida.tools import Tool, ToolError, builtin
from brida.tools.builtin import builtin_tools
from brida.tools.context import CallContext, call_context
from brida.tools.output import RESULT_LIMIT, render


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Tool]:
    return builtin_tools(tmp_path)


def test_there_are_seven_with_their_impact_declared(tools: dict[str, Tool]) -> None:
    assert {name: (made.impact, made.impact_declared, made.volatile) for name, made in tools.items()} == {
        "get_time": ("read", True, True),
        "read_file": ("read", True, False),
        "write_file": ("high", True, False),
        "delete_file": ("high", True, False),
        "list_files": ("read", True, False),
        "search_text": ("read", True, False),
        "file_info": ("read", True, False),
    }
    for made in tools.values():
        assert made.description
        for described in made.input_schema["properties"].values():  # type: ignore[attr-defined]
            assert described["description"]


def test_the_time_is_iso_8601_with_an_offset_and_seconds(tools: dict[str, Tool]) -> None:
    told = tools["get_time"]()
    moment = datetime.datetime.fromisoformat(told)
    assert moment.utcoffset() is not None
    assert moment.microsecond == 0
    assert abs(datetime.datetime.now(datetime.UTC) - moment) < datetime.timedelta(minutes=1)


def test_a_short_file_is_read_whole_and_as_it_is(tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one\r\ntwó\n\u2028".encode())
    assert tools["read_file"]("a.txt") == "one\r\ntwó\n\u2028"


def test_a_long_file_says_that_there_is_more_and_how_to_go_on(tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é" * 2_000 + "ñ" * 500)
    assert tools["read_file"]("a.txt") == "é" * 2_000 + (
        "\n[2,000 characters shown; there are more: go on with offset=2000]"
    )
    assert tools["read_file"]("a.txt", offset=2_000) == "ñ" * 500
    assert tools["read_file"]("a.txt", offset=1_999, limit=2) == (
        "éñ\n[2 characters shown; there are more: go on with offset=2001]"
    )
    assert tools["read_file"]("a.txt", offset=2_500) == "(the file a.txt has no more than 2,500 characters)"
    assert tools["read_file"]("a.txt", offset=10**12) == "(the file a.txt has no more than 2,500 characters)"


def test_empty_blank_and_marked_files_say_so(tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "blank").write_bytes(b" \n\n")
    (tmp_path / "marked").write_bytes("\ufefftext".encode())
    assert tools["read_file"]("empty") == "(the file empty is empty)"
    assert tools["read_file"]("blank") == "(nothing but white space)"
    assert tools["read_file"]("marked") == "text"


@pytest.mark.parametrize(
    "content, kind",
    [(b"\x1f\x8b\x08\x00", "application/gzip"), (b"a\x00b", "application/octet-stream"),
     (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
     ("a".encode("utf-16"), "application/octet-stream")],
)  # fmt: skip
def test_binary_files_give_a_note(content: bytes, kind: str, tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(content)
    assert (
        tools["read_file"]("b") == f"(the file b is not text but binary data: {len(content)} bytes, {kind})"
    )


def test_text_that_begins_as_a_format_does_is_text(tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"MZ is a mark")
    assert tools["read_file"]("b") == "MZ is a mark"


def test_bytes_that_are_not_utf_8_are_replaced_with_a_note(tools: dict[str, Tool], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("año".encode("latin-1"))
    assert tools["read_file"]("a") == "a\ufffdo\n[some bytes are not UTF-8 and are shown as \ufffd]"
    assert tools["read_file"]("a", offset=2) == "o"


@pytest.mark.parametrize(
    "offset, limit", [(-1, 10), (10**12 + 1, 10), (0, 0), (0, -5), (0, 20_001), (10**30, 10**30)]
)
def test_an_absurd_offset_or_limit_is_refused_before_and_in_the_call(
    offset: int, limit: int, tools: dict[str, Tool], tmp_path: Path, say: Say
) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(ToolError, match="should be from"):
        tools["read_file"]("a", offset, limit)
    assert tools["read_file"].problems({"path": "a", "offset": offset, "limit": limit}, say)


def test_a_huge_file_is_not_read_whole(
    tools: dict[str, Tool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.write(b"x" * 10_000)
        file.truncate(10 * 2**30)
    read: list[int] = []

    class Counted(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            read.append(len(data))
            return data

    def counted(root: Path, path: str, *, say: Say) -> Counted:
        return Counted(io.FileIO(root / path))

    monkeypatch.setattr(builtin, "open_inside", counted)
    assert tools["read_file"]("huge").startswith("x" * 2_000 + "\n[2,000")
    assert sum(read) < 200_000


def test_a_call_that_is_cancelled_stops_reading(tools: dict[str, Tool], tmp_path: Path, say: Say) -> None:
    (tmp_path / "a").write_text("x" * 10**6)
    call = CallContext(call_id="c", tool="read_file", run_id="r", say=say)
    call.cancelled.set()
    with call_context(call), pytest.raises(ToolError, match="cancelled"):
        tools["read_file"]("a", offset=500_000)


@pytest.mark.parametrize("limit", [1_024, 4_096, None])
def test_the_way_to_go_on_is_not_cut_off(
    limit: int | None, tools: dict[str, Tool], tmp_path: Path, say: Say
) -> None:
    text = "😀é" * 20_000
    (tmp_path / "a").write_text(text)
    whole, offset = "", 0
    with call_context(CallContext("c", "read_file", "r", say, result_limit=limit)):
        while offset < len(text):
            page = tools["read_file"]("a", offset, 20_000)
            assert render(page, limit=limit or RESULT_LIMIT, say=say) == page
            part, _, _ = page.partition("\n[")
            whole += part
            offset += len(part)
    assert whole == text


@given(st.binary(max_size=60), st.integers(0, 30), st.integers(1, 30))
def test_any_file_gives_text_within_the_limits(content: bytes, offset: int, limit: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "a").write_bytes(content)
        text = builtin.read_text(Path(place), "a", offset, limit)
        assert isinstance(text, str)
        assert text.strip()
        assert text.encode()


def test_writing_says_how_much_and_whether_the_file_was_there(tools: dict[str, Tool], tmp_path: Path) -> None:
    made = tools["write_file"]("sub/a.txt", "hé\n")
    assert made == "sub/a.txt is written. It is a new file. Its size in bytes: 4"
    assert tools["write_file"]("sub/a.txt", "") == "sub/a.txt is replaced. Its size in bytes: 0"
    assert (tmp_path / "sub" / "a.txt").read_bytes() == b""
    tools["write_file"]("sub/a.txt", "a\r\nb")
    assert (tmp_path / "sub" / "a.txt").read_bytes() == b"a\r\nb"


def test_half_a_surrogate_pair_is_not_written(tools: dict[str, Tool], tmp_path: Path, say: Say) -> None:
    with pytest.raises(ToolError, match="surrogate"):
        tools["write_file"]("a", "\ud83d")
    assert tools["write_file"].problems({"path": "a", "content": "\ud83d"}, say)
    assert os.listdir(tmp_path) == []


def test_outside_is_refused(tools: dict[str, Tool]) -> None:
    with pytest.raises(ToolError, match="outside the project directory"):
        tools["read_file"]("../x")
    with pytest.raises(ToolError, match="outside the project directory"):
        tools["write_file"]("../sub/x", "x")


def test_the_file_tools_ask_for_secrets_and_for_nothing_else(
    tools: dict[str, Tool], tmp_path: Path, say: Say
) -> None:
    (tmp_path / "harmless").symlink_to(".env")
    for name in ("read_file", "write_file", "delete_file", "list_files", "search_text", "file_info"):
        assert tools[name].asks_anyway({"path": "harmless", "content": ""}, say) is not None
        assert tools[name].asks_anyway({"path": "README.md", "content": ""}, say) is None
        assert tools[name].asks_anyway({"path": 3}, say) is None
    assert tools["get_time"].asks_anyway({}, say) is None


def test_the_root_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    monkeypatch.chdir(tmp_path)
    tools = builtin_tools(Path("."))
    monkeypatch.chdir("/")
    assert tools["read_file"]("a") == "x"


def test_the_call_is_answered_in_its_language(tools: dict[str, Tool]) -> None:
    said: list[str] = []

    def spanish(text: str, /, **facts: object) -> str:
        said.append(text)
        return "en español"

    with (
        call_context(CallContext("c", "read_file", "r", spanish)),
        pytest.raises(ToolError, match="en español"),
    ):
        tools["read_file"]("nothing")
    assert said
