"""What holds for the project as a whole: sizes, layers, docstrings, and nothing of anybody's machine."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "brida"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 500
LONGEST_FUNCTION = 50

Function = ast.FunctionDef | ast.AsyncFunctionDef
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_there_is_a_project_to_look_at():
    assert len(MODULES) > 30


# --- sizes ------------------------------------------------------------------------------------------------


def test_no_file_of_the_source_is_long():
    assert {name_of(path): lines_of(path) for path in MODULES if lines_of(path) > LONGEST_FILE} == {}


def test_no_function_of_the_source_is_long():
    lengths = {
        f"{name_of(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


# --- layers -----------------------------------------------------------------------------------------------


def imports(tree: ast.Module) -> set[str]:
    """Every module that is imported anywhere in ``tree``."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent.name == "core"], ids=name_of)
def test_the_core_imports_the_standard_library_and_itself_alone(path):
    foreign = {
        name
        for name in imports(TREES[path])
        if name.partition(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("brida.core.")
    }
    assert foreign == set()


def test_the_packages_that_brida_needs_are_the_only_foreign_ones():
    allowed = {"anthropic", "brida", "click", "filelock", "genai_prices", "httpx2", "needle", "platformdirs"}
    allowed |= {"plotext", "prompt_toolkit", "pydantic", "pydantic_core", "re2", "tomlkit"}
    allowed |= {"typing_extensions"}
    found = {name.partition(".")[0] for tree in TREES.values() for name in imports(tree)}
    assert found - set(sys.stdlib_module_names) <= allowed


def test_nothing_foreign_and_heavy_is_imported_at_the_top_of_a_module():
    heavy = {"anthropic", "httpx2", "needle"}
    eager = {
        name_of(path)
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module])
        if str(name).partition(".")[0] in heavy
    }
    assert eager == set()


# --- docstrings -------------------------------------------------------------------------------------------


def undocumented(tree: ast.Module) -> list[str]:
    """Public classes and functions without a docstring; methods of a protocol's body count as well."""
    missing = [] if ast.get_docstring(tree) else ["the module"]
    waiting: list[tuple[str, ast.AST]] = [("", node) for node in tree.body]
    while waiting:
        prefix, node = waiting.pop()
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        trivial = (
            isinstance(node, Function)
            and any(
                isinstance(one, ast.Name) and one.id in ("property", "overload")
                for one in node.decorator_list
            )
            and len(node.body) == 1
            and isinstance(node.body[0], ast.Expr)
        )
        if not ast.get_docstring(node) and not trivial:
            missing.append(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", inner) for inner in node.body]
    return sorted(missing)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_class_and_function_says_what_it_is(path):
    assert undocumented(TREES[path]) == []


# --- nothing of anybody's machine -------------------------------------------------------------------------

# Written in pieces, so that this file does not hold what it looks for.
MACHINE = [
    "/" + "root/",
    "/" + "work/",
    r"/" + r"home/[a-z]",
    "/" + "Users/",
    r"[A-Z]:\\\\?Users",
    "/opt/" + "pypi",
    r"file:" + r"///",
]
REGISTRY = [
    r"pypi\." + r"org",
    r"python" + r"hosted\.",
    r"--(?:extra-)?index-" + r"url",
    r"--find-" + r"links",
    r"--trusted-" + r"host",
    "artifact" + "ory",
    "/simp" + "le/",
]
ALLOWED = {
    # How locks are made: the two options that keep addresses out of them.
    "Makefile": {"--no-emit-index-" + "url", "--no-emit-find-" + "links"},
}


def tracked() -> list[Path]:
    """Every file that is or would be committed; all that is there where this is no git repository."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git repository")
    found = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in found if path.is_file()]


def text_of(path: Path) -> str:
    text = path.read_bytes().decode("utf-8", "replace")
    for words in ALLOWED.get(name_of(path), ()):
        text = text.replace(words, "")
    return text


def test_no_file_holds_a_path_of_a_machine_or_the_address_of_a_registry():
    pattern = re.compile("|".join([*MACHINE, *REGISTRY]))
    found = {name_of(path): match.group() for path in tracked() if (match := pattern.search(text_of(path)))}
    assert found == {}


def test_no_file_holds_a_secret():
    pattern = re.compile(
        r"sk-ant-(?!canary)[A-Za-z0-9_-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/]{40}"
    )
    assert {name_of(path) for path in tracked() if pattern.search(text_of(path))} == set()


def test_every_text_file_is_clean():
    wrong = {
        name_of(path): what
        for path in tracked()
        if path.suffix in (".py", ".md", ".toml", ".txt", ".po", ".jinja") or path.name in ("Makefile", "run")
        for what, holds in {
            "carriage return": b"\r" in path.read_bytes(),
            "no newline at the end": path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n"),
        }.items()
        if holds
    }
    assert wrong == {}


def test_every_lock_is_hashed():
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        entries = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        assert entries
        for entry in entries:
            assert re.match(r"[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry), (
                f"{lock.name}: {entry[:80]}"
            )
