"""What the tests of models share."""

import os

import pytest


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No credential anywhere."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))


@pytest.fixture
def project(tmp_path):
    """A folder with a README.md."""
    (tmp_path / "README.md").write_text("# A title\n\nAnd a text.\n")
    return tmp_path
