"""A conversation as a file: Markdown for a person, JSON for a program."""

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from brida.core.wording import Say
from brida.texts.terminal import escape

Message = Mapping[str, Any]


def save(path: Path, messages: Sequence[Message], say: Say) -> None:
    """Writes the messages into a new file, readable by its owner alone: JSON where it ends with ``.json``.

    Raises ``FileExistsError`` where the file is there, so that nothing is lost, and ``OSError``.
    """
    as_json = path.suffix.lower() == ".json"
    text = json.dumps(list(messages), ensure_ascii=False, indent=2) if as_json else markdown(messages, say)
    write_new(path, text if text.endswith("\n") else text + "\n")


def write_new(path: Path, text: str) -> None:
    """Writes a new file, readable by its owner alone, whole or not at all. Raises as :func:`save` does."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, text: str) -> None:
    """Writes a file as :func:`write_new` does, in the place of one that is there, if it is a regular file."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{path} is no regular file")
    beside = target.with_name(f".{uuid.uuid4().hex}")
    write_new(beside, text)
    try:
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def markdown(messages: Sequence[Message], say: Say) -> str:
    """The conversation for a person to read: who said what, each call with its result.

    What was said is quoted, and what ran is fenced, so that no text can pass for a part of the transcript;
    what shows nothing or moves a cursor is written as an escape.
    """
    return "\n\n".join(part for message in messages for part in _parts(message, say))


def _parts(message: Message, say: Say) -> Iterator[str]:
    who = say("You") if message["role"] == "user" else say("Model")
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    if texts:
        yield f"## {who}"
        yield from (_quoted(text) for text in texts)
    for block in blocks:
        if block.get("type") == "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False, indent=2)
            tool = escape(str(block["name"]))
            yield say("**The model asks for {tool}**", tool=tool) + "\n\n" + _fenced(arguments, "json")
        elif block.get("type") == "tool_result":
            head = say("**The call failed**") if block.get("is_error") else say("**Result**")
            yield head + "\n\n" + _fenced(_result(block.get("content", ""), say))


def _result(content: object, say: Say) -> str:
    if isinstance(content, str):
        return content
    blocks: Sequence[Message] = content if isinstance(content, list) else []
    images = say("(an image)")
    return "\n".join(str(b["text"]) if b.get("type") == "text" else images for b in blocks)


def _plain(text: str) -> str:
    """What a text shows; in a file a tab does no harm."""
    lines = text.replace("\r\n", "\n")
    return "\t".join(escape(part, multiline=True) for part in lines.split("\t"))


def _quoted(text: str) -> str:
    """A quotation: Markdown that is left open in it, be it a fence or a comment, ends where it ends."""
    return "\n".join(f"> {line}".rstrip(" ") for line in _plain(text).split("\n"))


def _fenced(text: str, language: str = "") -> str:
    """A block of code whose fence is longer than any row of backticks within."""
    text = _plain(text)
    longest = max((len(row) for row in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
