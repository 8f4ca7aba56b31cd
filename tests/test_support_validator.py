"""Each rule of the API has a request that breaks it and one that keeps it."""

import copy
from types import MappingProxyType

import pytest

from support.rule_cases import (
    ONE_CALL,
    RULES,
    SEARCH,
    UNANSWERED,
    Body,
    assistant,
    call,
    request,
    result,
    tool,
    user,
    words,
)
from support.validator import ModelRules, PrefixValidator, problems


@pytest.mark.parametrize(
    "bad,text,good", [pytest.param(bad, text, good, id=name) for name, bad, text, good in RULES]
)
def test_a_rule_has_a_request_that_breaks_it_and_one_that_keeps_it(bad: Body, text: str, good: Body) -> None:
    assert problems(bad) == [text]
    assert problems(good) == []


@pytest.mark.parametrize(
    "bad,text,good", [pytest.param(bad, text, good, id=name) for name, bad, text, good in RULES]
)
def test_the_prefix_validator_agrees_with_the_whole_one(bad: Body, text: str, good: Body) -> None:
    for body in (bad, good):
        rules = ModelRules.of(body["model"])
        followed = PrefixValidator(model_rules=rules)
        messages = body["messages"]
        for count in range(1, len(messages)):
            followed.check(messages[:count], paused=True)
        assert text in followed.check_body(body) or body is good
        if body is good:
            assert followed.check_body(body) == []


@pytest.mark.parametrize("name", ["model", "max_tokens", "messages"])
def test_a_required_field_is_missed(name: str) -> None:
    body = request()
    del body[name]
    assert problems(body) == [f"{name}: Field required"]


def test_nothing_is_changed_by_a_look() -> None:
    for _, bad, _, good in RULES:
        for body in (bad, good):
            before = copy.deepcopy(body)
            problems(body)
            assert body == before


def test_an_assistant_message_may_be_last_where_it_ends_a_pause() -> None:
    body = request(assistant(SEARCH))
    assert problems(body, paused=True) == []
    assert problems(request(assistant(call("a"))), paused=True) == [UNANSWERED.format("a")]


def test_a_system_message_never_stands_between_a_call_and_its_result() -> None:
    between = request(assistant(call("a")), {"role": "system", "content": "x"}, user(result("a")))
    assert len(problems(between)) == 2


def test_the_old_version_takes_what_the_new_one_refuses() -> None:
    body = request(assistant({"type": "document", "source": {}}), user(words("x")), temperature=0.5)
    assert len(problems(body)) == 2
    assert problems(body, version="2023-06-01") == []


def test_a_beta_header_opens_its_fields() -> None:
    body = request(thread={"type": "create"})
    assert problems(body, betas=["message-threads-2026-08-12"]) == []
    assert problems(body, betas=["other-2026-01-01"]) == ["thread: Extra inputs are not permitted"]
    assert problems(request(context_management={}), betas=["other-2026-01-01"]) == []


def test_counting_tokens_takes_no_max_tokens() -> None:
    body = request()
    assert problems(body, count_tokens=True) == ["max_tokens: Extra inputs are not permitted"]
    del body["max_tokens"]
    assert problems(body, count_tokens=True) == []


def test_the_caller_may_say_what_a_model_allows() -> None:
    rules = ModelRules(prefill=True, forced_tool_choice=False, max_output_tokens=10)
    body = request(assistant(words("x")), max_tokens=11, tool_choice={"type": "any"})
    assert len(problems(body, model_rules=rules)) == 2


@pytest.mark.parametrize("value", [{1, 2}, b"x", MappingProxyType({}), object()])
def test_a_foreign_type_is_no_json(value: object) -> None:
    [text] = problems(request(assistant(call("a", input={"x": value})), user(result("a"))))
    assert "not valid JSON" in text or "not JSON serializable" in text


@pytest.mark.parametrize(
    "message", [None, 3, "hi", [], {}, {"role": []}, {"role": "user", "content": [3, {}]}]
)
def test_a_malformed_message_is_reported_and_does_not_raise(message: object) -> None:
    assert problems(request(message))
    assert PrefixValidator().check([message])


def test_a_changed_prefix_breaks_the_promise_of_appending_only() -> None:
    first = request()["messages"]
    changed = [user(words("something else"))]
    assert PrefixValidator().check(first) == []
    followed = PrefixValidator()
    followed.check(first)
    assert followed.check(changed) == ["append-only: messages.0 is not what was sent before"]
    assert followed.check([*changed, user(words("more"))]) == []
    lenient = PrefixValidator(append_only=False)
    lenient.check([*first, *ONE_CALL])
    assert lenient.check(first) == []


def test_a_copy_goes_its_own_way() -> None:
    trunk = PrefixValidator()
    trunk.extend(request(assistant(call("a")))["messages"])
    one, two = trunk.copy(), trunk.copy()
    assert one.extend([user(result("a"))]) == []
    assert two.extend([user(words("x"))]) == [UNANSWERED.format("a")]
    assert one.extend([assistant(call("b")), user(result("b"))]) == []
    assert trunk.extend([user(result("a"))]) == []


def test_the_same_tools_are_looked_at_once_and_only_where_they_were_good() -> None:
    followed = PrefixValidator()
    body = request(tools=[tool("a b")])
    assert followed.check_body(body) == followed.check_body(body) != []
    assert PrefixValidator().check_body(request(foo=1)) == ["foo: Extra inputs are not permitted"]
