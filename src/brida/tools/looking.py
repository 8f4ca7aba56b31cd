"""The tools that look around in the project directory and change nothing."""

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.tools.context import running_call, say_of_call
from brida.tools.declare import AsksAnyway, Tool, tool
from brida.tools.output import RESULT_LIMIT, ToolError
from brida.tools.paths import PathRefused, is_sensitive, where_inside
from brida.tools.scan import Entry, Scan
from brida.tools.search import finder_of, search
from brida.tools.spelling import shown
from brida.tools.text import is_binary, media_type, short, visible
from brida.tools.walk import check_kind
from brida.tools.wildcards import alternatives, name_fits, path_fits

LIST_MOST: Final = 500
"""The most names that one list gives."""

PATTERN_MOST: Final = 200
"""The most characters of a pattern of names."""

_NOTES: Final = 1_024  # bytes that are kept for what is said after the lines
_PIECE: Final = 1 << 18


def looking_tools(root: Path, asks: AsksAnyway) -> tuple[Tool, ...]:
    """``list_files``, ``search_text`` and ``file_info``. ``asks``: of which paths a person is asked."""

    @tool(impact="read", asks_anyway=asks)
    def list_files(path: str = ".", pattern: str = "*") -> str:
        """List the files and directories in a directory. Names of directories end with /.

        Args:
            path: Path of the directory.
            pattern: Which names, such as *.py. It also looks in the directories below. ** lists everything.
        """
        return list_text(root, path, pattern)

    @tool(impact="read", asks_anyway=asks)
    def search_text(
        text: str, path: str = ".", pattern: str = "*", ignore_case: bool = False, regex: bool = False
    ) -> str:
        """Find the lines that hold a text, in all files of a directory. Answers with path:line: text.

        Args:
            text: The text to find.
            path: Path of a directory or of one file.
            pattern: Which file names, such as *.py.
            ignore_case: True finds capital and small letters alike.
            regex: True takes the text as a regular expression.
        """
        return search_lines(root, text, path, pattern, ignore_case=ignore_case, regex=regex)

    @tool(impact="read", asks_anyway=asks)
    def file_info(path: str) -> str:
        """Get the kind, size, number of lines and time of change of a file.

        Args:
            path: Path of the file.
        """
        return info_text(root, path)

    return list_files, search_text, file_info


def list_text(root: Path, path: str, pattern: str) -> str:
    """The paths that fit, one a line, and what was left out."""
    say = say_of_call()
    scan = Scan(root, path, say)
    fits, room = _fits(pattern, scan, say), _room()
    lines: list[str] = []
    more = False
    with closing(scan.entries(below=pattern != "*")) as entries:
        for entry in entries:
            if not fits(entry) or (entry.kind == "link" and not _leads_inside(entry, scan)):
                continue
            line = _line(entry, say)
            room -= len(line.encode()) + 1
            if room < 0 or len(lines) == LIST_MOST:
                more = True
                break
            lines.append(line)
    if not lines and not more:
        if pattern == "*":
            lines.append(say("(nothing in the directory {path})", path=shown(path)))
        else:
            lines.append(say("(nothing fits {pattern} in {path})", pattern=short(pattern), path=shown(path)))
    if more:
        lines.append(
            say("[{count:,} shown; there are more: a longer path or pattern shows fewer]", count=len(lines))
        )
    return "\n".join([*lines, *filter(None, [scan.left.said(say)])])


def search_lines(root: Path, text: str, path: str, pattern: str, *, ignore_case: bool, regex: bool) -> str:
    """The lines that hold ``text``, and what was left out."""
    say = say_of_call()
    finder = finder_of(text, regex=regex, ignore_case=ignore_case, say=say)
    scan = Scan(root, path, say)
    found = search(scan, _fits(pattern, scan, say), finder, _room(), say)
    lines = found.lines
    if found.more:
        lines.append(
            say("[{count:,} lines shown; there are more: look for a longer text or in fewer files]",
                count=len(lines))
        )  # fmt: skip
    elif not lines:
        lines.append(say("(no line holds {text})", text=short(text)))
    return "\n".join([*lines, *filter(None, [scan.left.said(say)])])


def info_text(root: Path, path: str) -> str:
    """What is known of a file or a directory without showing it, a fact a line."""
    say = say_of_call()
    scan = Scan(root, path, say)
    lines = [visible("/".join(scan.start) or ".") + ("/" if scan.is_directory else "")]
    if scan.is_directory:
        with closing(scan.entries(below=False)) as entries:
            count = sum(1 for _ in entries)
        lines += [say("kind: {kind}", kind=say("directory")), say("entries: {count:,}", count=count)]
        return "\n".join([*lines, *filter(None, [scan.left.said(say)])])
    with closing(scan.entries(below=False)) as entries:
        for entry in entries:
            lines += _facts(entry, path, say)
    return "\n".join(lines)


def _facts(entry: Entry, path: str, say: Say) -> list[str]:
    try:
        facts = entry.folder.stat(entry.names[-1])
        check_kind(facts, path, say)
        with entry.folder.open(entry.names[-1]) as file:
            data = file.read(_PIECE)
            kind, lines = media_type(data) or "application/octet-stream", None
            if not is_binary(data):
                kind, lines = say("text"), _count(data, file.read, say)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PathRefused(say("{path} cannot be used: {reason}", path=shown(path), reason=reason)) from error
    changed = datetime.fromtimestamp(facts.st_mtime).astimezone().isoformat(timespec="seconds")
    counted = [] if lines is None else [say("lines: {count:,}", count=lines)]
    return [
        say("kind: {kind}", kind=kind),
        say("size in bytes: {size:,}", size=facts.st_size),
        *counted,
        say("changed: {time}", time=changed),
    ]


def _count(data: bytes, read: Callable[[int], bytes], say: Say) -> int:
    """The lines of a text; the last counts without its end too."""
    call = running_call()
    lines, last = 0, b"\n"
    while data:
        if call is not None and call.cancelled.is_set():
            raise ToolError(say("the call was cancelled"))
        lines += data.count(b"\n")
        last = data[-1:]
        data = read(_PIECE)
    return lines + (last != b"\n")


def _fits(pattern: str, scan: Scan, say: Say) -> Callable[[Entry], bool]:
    """Whether an entry fits: by its name, or by its path from the start where the pattern has a slash."""
    if not pattern or len(pattern) > PATTERN_MOST:
        raise ToolError(say("pattern should have from 1 to {most} characters", most=PATTERN_MOST))
    tests = [_test(one, len(scan.start)) for one in alternatives(pattern)]
    return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)


def _test(pattern: str, depth: int) -> Callable[[Entry], bool]:
    if "/" not in pattern:
        name = name_fits(pattern)
        return lambda entry: name(entry.names[-1])
    path = path_fits(pattern.removeprefix("./").strip("/"))
    return lambda entry: path(entry.names[depth:] or entry.names[-1:])


def _leads_inside(entry: Entry, scan: Scan) -> bool:
    """Whether a link leads to something that may be seen; else it is counted as left out."""
    if is_sensitive(scan.root, entry.path, say=scan.say):
        scan.left.secret += 1
        return False
    try:
        where_inside(scan.root, entry.path, say=scan.say)
    except PathRefused:
        scan.left.outside += 1
        return False
    return True


def _line(entry: Entry, say: Say) -> str:
    path = visible(entry.path)
    if entry.kind == "link":
        return say("{path} (a link)", path=path)
    return path + "/" if entry.kind == "directory" else path


def _room() -> int:
    call = running_call()
    return (call.result_limit if call and call.result_limit else RESULT_LIMIT) - _NOTES
