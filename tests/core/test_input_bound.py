# mypy: ignore-errors
"""The bound of a request's input, which no tokenizer and no server passes."""

from brida.core.ceilings import input_bound
from brida.core.events import (
    Received,
    Resumed,
    Said,
    Sent,
)
from brida.core.history import DOCUMENT, IMAGE, History
from brida.core.limits import Limits
from brida.core.run import next_step
from support.corpus import texts
from support.loop import Simulation, says
from support.money import READ


def tokens_at_most(text):
    """What no tokenizer passes that knows every byte: one token for each, and a few around a message."""
    return len(text.encode()) + 8


def test_the_bound_is_never_below_what_any_tokenizer_makes_of_it():
    corpus = list(texts())
    assert len(corpus) >= 200
    for text in corpus:
        history = History()
        history.add_text(text)
        assert history.weight >= tokens_at_most(text)
        history.seal()
        assert history.weight >= tokens_at_most(text)
        history.append_reply(({"type": "tool_use", "id": "a", "name": "t", "input": {"p": text}},), ["a"])
        before = history.weight
        assert before >= 2 * tokens_at_most(text)
        history.add_result("a", text, is_error=False)
        assert history.weight - before >= tokens_at_most(text)


def test_an_image_and_a_document_elsewhere_have_bounds_of_their_own():
    data = "A" * 400_000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    small = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    document = {"type": "document", "source": {"type": "url", "url": "https://example.com/x.pdf"}}
    weights = []
    for block in (image, small, document):
        history = History([{"role": "user", "content": [block]}])
        weights.append(history.weight)
    assert IMAGE <= weights[0] < IMAGE + 400
    assert IMAGE <= weights[1] < IMAGE + 400
    assert weights[2] >= DOCUMENT
    with_result = History([{"role": "user", "content": "x"}])
    with_result.seal()
    call = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    with_result.append_reply((call,), ["a"])
    before = with_result.weight
    with_result.add_result("a", [image], is_error=False)
    assert IMAGE <= with_result.weight - before < IMAGE + 500


def test_what_the_server_counted_and_the_reply_bound_the_next_request():
    run = Simulation((READ,))
    run.run([says(("a", "read", {}), usage={"input_tokens": 5_000, "output_tokens": 300}), says("done")])
    first, second = (event.reserve for event in run.events if isinstance(event, Sent))
    assert second.input_tokens in range(5_300, 5_500)
    assert first.input_tokens < 1_500


def in_flight(**options):
    run = Simulation((READ,), **options)
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    return run


def test_a_text_that_was_said_meanwhile_was_not_counted_by_the_server():
    run = in_flight()
    run.learn(Said(0, "y" * 4_000, steering=True))
    run.learn(Received(0, says("so", usage={"input_tokens": 100, "output_tokens": 10})))
    assert input_bound(run.state, run.state.head) in range(4_110, 4_300)


def test_what_follows_a_pause_that_is_left_out_counts_whole():
    run = in_flight(limits=Limits(max_pauses=0))
    run.learn(
        Received(0, says("p" * 4_000, stop="pause_turn", usage={"input_tokens": 20, "output_tokens": 90}))
    )
    run.learn(*next_step(run.state, run.env).events)
    run.learn(Resumed(0, afresh=True), Said(0, "你" * 1_200))
    assert input_bound(run.state, run.state.head) in range(110 + 3_600, 110 + 3_800)


def test_a_pause_that_is_left_out_takes_its_images_with_it():
    data = "A" * 400_000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    history = History([{"role": "user", "content": "x"}])
    history.seal()
    before = history.weight
    history.append_reply((image,), paused=True)
    history.leave_out_pause()
    assert history.weight == before


def test_other_blocks_have_the_bound_of_their_bytes():
    odd = {"type": "brand_new", "source": {"type": "text", "data": "x" * 50}}
    assert History([{"role": "user", "content": [odd]}]).weight in range(50, 200)
