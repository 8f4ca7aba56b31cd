"""Secrets taken out of texts: which values are secrets, how they are found, and what stays as it is."""

import base64
import copy
import json
import pickle
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brida.texts.masking import Mask

CANARY = 'sk-ant-canary/õ+ "quoted" \'&\\n'
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(f"canary{n}" * 9 for n in range(3)) + "\n-----END-----\n"


def masked(value: str, text: str, name: str = "MY_API_KEY") -> str:
    return Mask.of({name: value})(text)


# --- which values are secrets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *(
            "API_KEY",
            "GITHUB_TOKEN",
            "CLIENT_SECRET",
            "DB_PASSWORD",
            "PASSWD",
            "SSH_PASSPHRASE",
            "GITHUB_PAT",
        ),
        *(
            "AWS_CREDENTIALS",
            "BASIC_AUTH",
            "PRIVATE_KEY_2",
            "SENTRY_DSN",
            "SESSION_COOKIE",
            "SLACK_WEBHOOK_URL",
        ),
        *("PGPASSWORD", "apiKey", "githubToken", "OAuthToken", "my-secret", "ANTHROPIC_API_KEY", "MYSQL_PWD"),
    ],
)
def test_a_variable_with_such_a_name_is_secret(name):
    assert masked("canary-1234", "it is canary-1234.", name) == f"it is [secret {name}]."


@pytest.mark.parametrize(
    "name",
    [
        *("HOME", "KEYBOARD", "MONKEY", "AUTHOR", "GIT_AUTHOR_NAME", "COMPASS", "TOKENIZERS_PARALLELISM"),
        *(
            "SSH_AUTH_SOCK",
            "XAUTHORITY",
            "PWD",
            "OLDPWD",
            "KEY_FILE",
            "PRIVATE_KEY_PATH",
            "GPG_KEY",
            "AUTH_TYPE",
        ),
        *("GIT_CREDENTIAL_HELPER", "TOKEN_TTL", "BRIDA_SECRETS", "", "_", "1"),
    ],
)
def test_a_variable_without_one_is_not(name):
    assert Mask.of({name: "canary-1234"}).names == ()


@pytest.mark.parametrize(
    "value",
    ["", "       ", "short", "1234567", "123456789", "1.5e".replace("e", "0000000"), "disabled", "Required"],
)
def test_values_that_occur_by_chance_are_no_secrets(value):
    assert Mask.of({"API_KEY": value}).names == ()


def test_a_path_that_exists_is_no_secret(tmp_path, monkeypatch):
    (tmp_path / "certificates").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = [str(tmp_path), "certificates", "~/certificates"]
    assert [Mask.of({"PRIVATE_KEY": path}).names for path in paths] == [()] * 3
    assert Mask.of({"PRIVATE_KEY": "/no/such/thing"}).names == ("PRIVATE_KEY",)
    assert Mask.of({"PRIVATE_KEY": "canary\x00canary"}).names == ("PRIVATE_KEY",)


def test_a_declared_variable_is_secret_whatever_it_looks_like(tmp_path):
    environ = {"PIN": "4711", "PLACE": str(tmp_path), "WORD": "disabled"}
    mask = Mask.of(environ, declared=["PIN", "PLACE", "WORD", "NOT_SET"])
    assert mask.names == ("PIN", "PLACE", "WORD")
    assert mask(f"4711 {tmp_path} disabled") == "[secret PIN] [secret PLACE] [secret WORD]"


def test_a_declared_variable_that_is_blank_hides_nothing():
    assert Mask.of({"A": "", "B": " \n"}, declared=["A", "B"])("a b\n") == "a b\n"


def test_a_short_declared_secret_is_not_looked_for_in_base64():
    assert Mask.of({"PIN": "1"}, declared=["PIN"])("MQ MQ== x") == "MQ MQ== x"


@pytest.mark.parametrize(
    "address, password",
    [
        ("postgres://user:canary-pass@host/db", "canary-pass"),
        ("redis://:canary-pass@host", "canary-pass"),
        ("https://user:canary%2Fpass@host", "canary/pass"),
        ("https://user:canary@pass@host", "canary@pass"),
        ("mysql://user:canary/pass@host", "canary/pass"),
        ("https://canary-token-of-24-char@git.example/x", "canary-token-of-24-char"),
        ("first http://a.example then https://u:canary-pass@b.example", "canary-pass"),
        ("http://u:another-one@a http://u:canary-pass@b", "canary-pass"),
    ],
)
def test_the_password_of_an_address_is_secret_whatever_its_variable(address, password):
    mask = Mask.of({"UPSTREAM": address})
    assert mask.names == ("UPSTREAM",)
    assert mask(f"({password})") == "([secret UPSTREAM])"
    assert password not in mask(address)


@pytest.mark.parametrize(
    "address", ["http://host:8080/a@b.example", "https://user@host", "ssh://git@host:22", "a@b://c:d"]
)
def test_an_address_without_a_password_hides_nothing(address):
    assert Mask.of({"UPSTREAM": address}).names == ()


def test_the_password_of_a_secret_address_is_found_alone_too():
    mask = Mask.of({"DATABASE_DSN": "postgres://user:canary-pass@host/db"})
    assert mask("canary-pass") == mask("postgres://user:canary-pass@host/db") == "[secret DATABASE_DSN]"


# --- how they are found -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        CANARY,
        CANARY.strip(),
        json.dumps(CANARY)[1:-1],
        json.dumps(CANARY, ensure_ascii=False)[1:-1],
        repr(CANARY)[1:-1],
        quote(CANARY),
        quote(CANARY, safe=""),
        quote_plus(CANARY),
        quote_plus(CANARY).replace("%C3%B5", "%c3%b5").replace("%2F", "%2f").replace("%2B", "%2b")
        .replace("%5C", "%5c"),
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_each_way_of_writing_a_secret_is_found(written):
    assert masked(CANARY, f"<{written}>") == "<[secret MY_API_KEY]>"


@given(before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_a_secret_is_found_in_the_base64_of_something_longer(before, after):
    secret = "sk-ant-canary-0123456789"
    text = masked(secret, base64.b64encode(before + secret.encode() + after).decode())
    assert "[secret MY_API_KEY]" in text
    rest = "".join(text.split("[secret MY_API_KEY]"))
    assert len(rest) <= 4 * (len(before) + len(after) + 6) / 3


def test_the_lines_of_a_key_are_found_one_by_one():
    line = PEM.splitlines()[2]
    mask = Mask.of({"TLS_PRIVATE_KEY": PEM})
    assert mask(f"line: {line}\r\n") == "line: [secret TLS_PRIVATE_KEY]\r\n"
    assert mask(PEM) == "[secret TLS_PRIVATE_KEY]"
    assert mask("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_bytes_that_are_no_utf8_are_found_as_a_result_has_them():
    value = b"canary-\xff\xfe-value".decode("utf-8", "surrogateescape")
    assert masked(value, "canary-\ufffd\ufffd-value") == "[secret MY_API_KEY]"
    assert masked("canary-\ud800-value", "canary-\ufffd-value") == "[secret MY_API_KEY]"


def test_of_values_within_each_other_the_longest_counts():
    mask = Mask.of({"A_TOKEN": "canary-1", "B_TOKEN": "canary-12345", "C_TOKEN": "xcanary-1"})
    assert mask("canary-12345 canary-1 xcanary-1 canary-123") == (
        "[secret B_TOKEN] [secret A_TOKEN] [secret C_TOKEN] [secret A_TOKEN]23"
    )


def test_of_names_with_one_value_the_first_counts():
    assert Mask.of({"B_TOKEN": "canary-1", "A_TOKEN": "canary-1"})("canary-1") == "[secret A_TOKEN]"


def test_a_name_brings_nothing_strange_into_a_text():
    assert Mask.of({"A]\x1b[2J_TOKEN": "canary-1"})("canary-1") == "[secret A___2J_TOKEN]"


def test_large_texts_with_many_secrets_take_no_quadratic_time():
    environ = {f"A{n}_TOKEN": f"canary-{n * 7919:x}-0123456789-{n}" for n in range(100)}
    mask = Mask.of(environ)
    text = " ".join([*environ.values(), "canary- and words "]) * 900

    def seconds(part: str) -> float:
        began = time.process_time()
        mask(part)
        return time.process_time() - began

    assert seconds(text) < 60 * max(seconds(text[: len(text) // 10]), 0.01)
    assert "canary-0" not in mask(text)


# --- what stays as it is ----------------------------------------------------------------------------------


@given(st.text())
def test_a_text_without_secrets_is_given_back_itself(text):
    assert masked("sk-ant-canary", text) is text
    assert Mask.of({})(text) is text


PIECES = st.sampled_from(
    ["[", "]", "[secret", " A", "A_TOKEN]", "secret", "B", "[secret A_TOKEN]", "x", "\n"]
)
WORDS = st.lists(PIECES, min_size=1, max_size=5).map("".join)
ENVIRONMENTS = st.dictionaries(
    st.sampled_from(["A_TOKEN", "B", "secret", "[", "A_TOKEN]"]), WORDS, max_size=4
)


@given(environ=ENVIRONMENTS, text=st.lists(WORDS, max_size=6).map("".join))
@example(environ={"A_TOKEN": "x[secret", "B": "secret"}, text="xsecret")
@example(environ={"A_TOKEN": "secret"}, text="a secret, secret")
def test_masking_twice_is_masking_once(environ, text):
    mask = Mask.of(environ, declared=environ)
    assert mask(mask(text)) == mask(text)


@given(
    environ=st.dictionaries(st.sampled_from(["A", "B", "C"]), st.text(min_size=4, max_size=12), max_size=3),
    pieces=st.lists(st.integers(0, 5) | st.text(max_size=5), max_size=8),
)
def test_no_declared_value_is_left(environ, pieces):
    values = [value for value in environ.values() if value.strip()]
    text = "".join(
        values[piece % len(values)] if isinstance(piece, int) and values else str(piece) for piece in pieces
    )
    masked_text = Mask.of(environ, declared=environ)(text)
    for part in masked_text.replace("]", "[").split("["):
        assert part.startswith("secret ") or all(value not in part for value in values)


def test_a_secret_with_a_mark_in_it_is_hidden_around_the_mark():
    mask = Mask.of({"A": "canary-one[secret A]canary-two"}, declared=["A"])
    assert mask("canary-one[secret A]canary-two") == "[secret A][secret A][secret A]"


@given(before=st.integers(0, 90), after=st.integers(0, 90), size=st.integers(0, 120))
def test_what_is_cut_next_has_no_secret_before_the_cut(before, after, size):
    mask = Mask.of({"A_TOKEN": "canary-0123456789"})
    text = "x" * before + "canary-0123456789" + "y" * after
    assert "canary" not in mask.beginning(text, size)[:size]


def test_what_lies_far_behind_a_cut_is_not_looked_at():
    mask = Mask.of({"A_TOKEN": "canary-0123456789"})
    text = "canary-0123456789" + "y" * 1_000_000 + "canary-0123456789"
    start = mask.beginning(text, 100)
    assert start == "[secret A_TOKEN]" + text[17:]


def test_secrets_that_are_longer_than_their_names_do_not_bring_the_cut_nearer():
    long = "canary" * 2_000
    mask = Mask.of({"A_TOKEN": long})
    assert "canary" not in mask.beginning((long + " ") * 200 + "y", 3_000)[:3_000]


def test_it_says_where_secrets_are():
    mask = Mask.of({"A_TOKEN": "canary-1", "B_TOKEN": "canary-12345"})
    assert mask.spans("canary-1 and canary-12345") == [(0, 8), (13, 25)]
    assert Mask.of({}).spans("canary-1") == []
    assert mask.longest >= len("canary-12345")


def test_a_mask_made_again_gives_the_same_bytes():
    environ = {f"{name}_TOKEN": f"canary-{name}" for name in "abcdef"}
    backwards = dict(reversed(environ.items()))
    text = " ".join(environ.values())
    assert Mask.of(environ)(text) == Mask.of(backwards)(text)


def test_in_blocks_the_texts_are_masked_and_the_data_is_not():
    data = base64.b64encode(b"sk-ant-canary").decode()
    image: dict[str, object] = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }
    nested: dict[str, object] = {
        "type": "search_result",
        "title": "sk-ant-canary",
        "content": [{"type": "text", "text": "a"}],
    }
    given: list[dict[str, object]] = [
        {"type": "text", "text": "it is sk-ant-canary", "n": 3},
        image,
        nested,
    ]
    assert Mask.of({"K_KEY": "sk-ant-canary"}).blocks(given) == (
        {"type": "text", "text": "it is [secret K_KEY]", "n": 3},
        image,
        {**nested, "title": "[secret K_KEY]"},
    )


def test_no_value_leaves_a_mask():
    mask = Mask.of({"B_KEY": "sk-ant-canary", "A_KEY": "canary-other"})
    assert mask.names == ("A_KEY", "B_KEY")
    assert repr(mask) == "Mask(A_KEY, B_KEY)"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(mask)
    assert copy.deepcopy(mask) is copy.copy(mask) is mask
