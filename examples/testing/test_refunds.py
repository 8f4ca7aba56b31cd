"""Testing your own agent: python -m pytest examples/testing

The model is a script, so a test says what the model does, and checks what your agent makes of it: what
it is told, what runs, who is asked. No key, no network, the same result every time.
"""

from examples.testing.refunds import make_agent

from brida import Answer, ScriptedModel, reply, tool_use


def yes(_: object) -> bool:
    return True


def no(_: object) -> Answer:
    return Answer(False, reason="too much")


def results(model: ScriptedModel) -> list[object]:
    """What the tools told the model, as the last request has it."""
    message = model.requests[-1]["messages"][-1]  # type: ignore[index]
    return [block["content"] for block in message["content"]]


def test_it_looks_up_and_refunds_what_a_person_approves() -> None:
    model = ScriptedModel(
        [
            reply(tool_use("1", "paid", {"order": 4412})),
            reply(tool_use("2", "refund", {"order": 4412, "amount": 120.0})),
            reply("You have your 120 dollars back."),
        ]
    )
    outcome = make_agent(model, approve=yes).run_sync("Give me my money back for order 4412")
    assert outcome.completed
    assert outcome.text == "You have your 120 dollars back."
    assert results(model) == ["refunded 120.00"]


def test_nothing_is_refunded_where_a_person_says_no() -> None:
    model = ScriptedModel([reply(tool_use("1", "refund", {"order": 4412, "amount": 9.0})), reply("Sorry.")])
    outcome = make_agent(model, approve=no).run_sync("Refund 9 dollars of order 4412")
    assert [call.tool for call in outcome.declined] == ["refund"]
    assert "too much" in str(results(model))


def test_nothing_is_refunded_where_nobody_is_there_to_ask() -> None:
    model = ScriptedModel([reply(tool_use("1", "refund", {"order": 4412, "amount": 9.0})), reply("Sorry.")])
    assert make_agent(model).run_sync("Refund 9 dollars of order 4412").declined


def test_the_model_hears_that_more_than_was_paid_cannot_be_refunded() -> None:
    model = ScriptedModel([reply(tool_use("1", "refund", {"order": 4413, "amount": 31.0})), reply("Sorry.")])
    outcome = make_agent(model, approve=yes).run_sync("Refund order 4413")
    assert "30.00" in str(results(model))
    assert [call.tool for call in outcome.failed_calls] == ["refund"]


def test_a_model_that_never_stops_is_stopped() -> None:
    calls = (reply(tool_use(str(at), "paid", {"order": at})) for at in range(100))
    outcome = make_agent(ScriptedModel(lambda _: next(calls))).run_sync("Look through all orders")
    assert (outcome.stop.kind, outcome.turns) == ("max_turns", 4)


def test_a_call_in_a_reply_that_was_cut_off_does_not_run() -> None:
    cut = reply(tool_use("1", "refund", {"order": 4412, "amount": 1.0}), stop_reason="max_tokens")
    model = ScriptedModel([cut, reply("Which order do you mean?")])
    outcome = make_agent(model, approve=yes).run_sync("Refund it")
    assert (outcome.completed, outcome.turns) == (True, 0)
