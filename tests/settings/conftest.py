import pytest

from brida.settings.table import BY_VARIABLE


@pytest.fixture(autouse=True)
def _nobody(monkeypatch, tmp_path_factory):
    """A user without settings: no test reads those of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "ANTHROPIC_BASE_URL", *BY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
