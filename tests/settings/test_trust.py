"""The list of trusted files: kept whole, by one process at a time, and never believed when it is damaged."""

import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from brida.errors import ConfigurationError
from brida.settings.files import read_user_file
from brida.settings.trust import TrustStore, store_path
from brida.texts.catalogue import ENGLISH
from support.process import environment
from support.settings import project_file


@pytest.fixture
def store():
    return TrustStore.of_user(ENGLISH)


def test_a_file_is_trusted_as_it_was_and_no_longer_once_it_changed(store, tmp_path):
    file = project_file(tmp_path, {"model": "x"})
    assert store.state(file) == "never"
    store.trust(file)
    assert store.state(file) == "trusted"
    assert store.state(project_file(tmp_path, {"model": "y"})) == "changed"
    assert store.state(project_file(tmp_path, {"model": "x"})) == "trusted"
    assert store.forget(file.path)
    assert store.state(file) == "never"
    assert not store.forget(file.path)


def test_the_same_words_in_another_folder_are_not_trusted(store, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    store.trust(project_file(tmp_path / "a", {"model": "x"}))
    assert store.state(project_file(tmp_path / "b", {"model": "x"})) == "never"


def test_a_file_is_known_by_where_it_really_is(store, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store.trust(project_file(tmp_path / "link", {"model": "x"}))
    assert store.state(project_file(tmp_path / "real", {"model": "x"})) == "trusted"
    assert list(store.entries()) == [str((tmp_path / "real" / "brida.toml").resolve())]


def test_only_the_owner_reads_the_list_and_nothing_else_is_left(store, tmp_path):
    for number in range(3):
        store.trust(project_file(tmp_path, {"max_tokens": number + 1}))
    assert stat.S_IMODE(store_path().stat().st_mode) == 0o600
    assert sorted(path.name for path in store_path().parent.iterdir()) == ["trusted.json", "trusted.lock"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        '{"version": 2, "trusted": {}}',
        '{"version": 1, "trusted": {"a": 1}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_list_is_an_error_that_names_it_and_is_never_overwritten(store, tmp_path, content):
    store_path().parent.mkdir(parents=True)
    store_path().write_text(content)
    file = project_file(tmp_path, {"model": "x"})
    for use in (lambda: store.state(file), lambda: store.trust(file), lambda: store.forget(file.path)):
        with pytest.raises(ConfigurationError, match=r"trusted\.json is no list"):
            use()
    assert store_path().read_text() == content


def test_a_list_that_cannot_be_kept_is_an_error(store, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    unusable = replace(store, path=blocked / "brida" / "trusted.json")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        unusable.trust(project_file(tmp_path, {"model": "x"}))


def test_without_a_home_a_folder_of_the_project_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = project_file(tmp_path, {"model": "x"})
    for name, content in (("state/brida/trusted.json", "{"), ("config/brida/brida.toml", "model = 'evil'")):
        path = tmp_path / "~" / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
    store = TrustStore(Path("~/state/brida/trusted.json"), ENGLISH)
    monkeypatch.setattr("brida.settings.files.user_path", lambda: Path("~/config/brida/brida.toml"))
    assert read_user_file(ENGLISH) is None
    assert store.state(file) == "never"
    with pytest.raises(ConfigurationError, match="set HOME"):
        store.trust(file)


MANY = """
import sys
from pathlib import Path
from brida.settings.files import read_project_file
from brida.settings.files import read_user_file
from brida.settings.trust import TrustStore
from brida.texts.catalogue import ENGLISH
store = TrustStore(Path(sys.argv[1]), ENGLISH)
for directory in sys.argv[2:]:
    store.trust(read_project_file(Path(directory) / "brida.toml", ENGLISH))
"""


def test_processes_that_trust_at_once_lose_nothing(store, tmp_path):
    groups = []
    for process in range(4):
        group = []
        for number in range(15):
            directory = tmp_path / f"{process}-{number}"
            directory.mkdir()
            project_file(directory, {"max_tokens": 5})
            group.append(str(directory))
        groups.append(group)
    path = str(store.path)
    started = [
        subprocess.Popen([sys.executable, "-c", MANY, path, *group], env=environment()) for group in groups
    ]
    assert [process.wait(50) for process in started] == [0, 0, 0, 0]
    assert len(json.loads(store.path.read_text())["trusted"]) == 60
