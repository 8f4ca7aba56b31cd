# mypy: ignore-errors
"""No history passes a limit: worlds at random, whose server keeps books of its own."""

from dataclasses import replace
from decimal import Decimal
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.codec import decode_event, encode_event
from brida.core.encoding import encode
from brida.core.events import (
    CallFinished,
    ChildSent,
    ChildSettled,
    Fault,
    Lost,
    Received,
    Resumed,
    Said,
    TokensCounted,
    Waited,
)
from brida.core.ledger import OVERHEAD
from brida.core.limits import Limits
from brida.core.prices import Meter, Prices
from brida.core.run import Count, Done, Execute, Send, Wait, next_step
from brida.core.state import State, fold
from brida.core.usage import Usage, read_usage
from support.loop import environment, says, started
from support.money import READ

prices = st.builds(
    lambda numbers, above: Prices(
        (Meter(*[Decimal(n) / 10**6 for n in numbers]), *above),
    ),
    st.lists(st.integers(0, 90), min_size=5, max_size=5),
    st.one_of(
        st.just(()),
        st.lists(st.integers(0, 200), min_size=5, max_size=5).map(
            lambda numbers: (Meter(*[Decimal(n) / 10**6 for n in numbers], above=1_500),)
        ),
    ),
)


class World:
    """A server that respects ``max_tokens``, and a run whose process dies now and then.

    What the server charges is summed here too, apart from the ledger: of requests and replies alike it makes
    a share of a token for each byte, and to each request it adds some.
    """

    def __init__(self, seed, price, limits, honest):
        self.random, self.honest, self.limits = Random(seed), honest, limits
        self.env = environment((READ,), limits=limits, counts_tokens=self.random.random() < 0.3)
        begin = started(
            (READ,),
            max_tokens=self.random.choice([200, 1_500, 4_000]),
            max_tokens_ceiling=8_000,
            prices=price,
            cache=self.random.random() < 0.5,
        )
        self.events, self.now, self.excess = [begin], 0.0, False
        self.price, self.true_tokens, self.true_cost = price, 0, 0
        self.rate = self.random.choice([0.1, 0.5, 0.9])
        self.added = 0 if price.are_zero else self.random.randint(0, OVERHEAD)
        self.texts = 1
        self.state = State(begin)
        self.learn(Said(0, "task"))

    def learn(self, *events):
        for event in events:
            self.now += 0.1
            self.events.append(replace(event, at=self.now))
            self.state.apply(self.events[-1])
        self.check()

    def check(self):
        ledger, limits = self.state.ledger, self.limits
        assert self.true_tokens <= ledger.tokens.taken
        assert self.true_cost <= ledger.cost.taken
        if self.excess:
            return
        if limits.max_tokens_total is not None:
            assert ledger.tokens.taken <= limits.max_tokens_total
        if limits.cost is not None:
            assert ledger.cost.taken <= limits.cost

    def die(self):
        self.events = [decode_event(encode_event(event)) for event in self.events]
        self.state = fold(self.events)
        self.learn(Resumed(0))

    def size(self, request):
        """The tokens of the request, as the server counts them."""
        return int(self.rate * (len(request.head.encoded) + len(request.messages))) + self.added

    def framed(self, content):
        """The tokens of the reply, as they come back in the next request."""
        return int(self.rate * len(encode({"role": "assistant", "content": content})))

    def charge(self, usage):
        self.true_tokens += usage.total
        self.true_cost += self.price.cost(usage)

    def usage(self, step, content, *, is_told):
        """What the server counts; now and then far more, where it is not honest and the run is told."""
        random, (sent,) = self.random, step.events
        whole, least = self.size(step.request), min(self.framed(content), sent.max_tokens)
        assert whole <= sent.reserve.input_tokens or self.excess
        output = random.choice([sent.max_tokens, random.randint(least, sent.max_tokens)])
        if is_told and not self.honest and random.random() < 0.2:
            whole, self.excess = whole * 3 + sent.reserve.input_tokens, True
        written = random.randint(0, whole) if self.state.head.cached else 0
        read = random.randint(0, whole - written) if self.state.head.cached else 0
        plain = whole - written - read
        found = {"input_tokens": plain, "output_tokens": output, "cache_read_input_tokens": read}
        return {**found, "cache_creation_input_tokens": written}

    def reply(self, step, *, is_told=True):
        random, number, max_tokens = self.random, len(self.events), step.request.max_tokens
        kind = random.randrange(11)
        said = {
            2: says("half", stop="max_tokens"),
            3: says("wait" * random.randrange(20), stop="pause_turn"),
            4: says("done"),
            5: says("x" * random.randrange(50), stop="tool_use"),
            6: says((f"c{number}", "read", {"p": number})),
        }.get(kind, says((f"c{number}", "read", {"p": number})))
        usage = self.usage(step, said.content, is_told=is_told and kind not in (0, 1, 6))
        if kind == 1:
            return Fault("overloaded", "busy", again=True)
        if kind == 6 and self.price.are_zero:  # it hides no thoughts, so its bytes are all
            usage["output_tokens"] = min(int(self.rate * len(encode(said.content))), max_tokens)
        self.charge(read_usage(usage, most_input=0, most_output=0, reply=()))
        if kind == 0:
            known = {"input_tokens": usage["input_tokens"]} if random.random() < 0.5 else None
            return Fault("cut", "cut", again=True, usage=known, billed=True)
        return replace(said, usage=None if kind == 6 else usage)

    def child(self):
        """A call that starts a run, which sends what fits."""
        random = self.random
        limits = self.limits
        for _ in range(random.randrange(3)):
            ledger, tokens = self.state.ledger, random.randint(0, 4_000)
            cost = None
            if ledger.prices is not None:
                cost = ledger.prices.worst(0, tokens, cached=False, for_an_hour=False)
            if limits.cost is not None and cost > limits.cost - ledger.cost.taken:
                continue
            if limits.max_tokens_total is not None and (
                tokens > limits.max_tokens_total - ledger.tokens.taken
            ):
                continue
            self.learn(ChildSent(0, "child", tokens, cost))
            spent = Usage(0, random.randint(0, tokens))
            self.charge(spent)
            if random.random() < 0.2:
                return self.die()
            price = None if ledger.prices is None else ledger.prices.cost(spent)
            self.learn(ChildSettled(0, "child", spent, price))
        return None

    def run(self):
        sent_after_excess = 0
        for _ in range(1_500):
            step = next_step(self.state, self.env)
            self.learn(*step.events)
            match step:
                case Done():
                    if not self.texts:
                        return step.stop, sent_after_excess
                    self.texts -= 1
                    self.learn(Resumed(0, afresh=True), Said(0, "z" * self.random.randrange(3_000)))
                case Send():
                    sent_after_excess += self.excess and self.over()
                    if self.random.random() < 0.05:
                        self.reply(step, is_told=False)
                        self.die()
                        continue
                    if self.random.random() < 0.1:
                        self.learn(Said(0, "w" * self.random.randrange(3_000), steering=True))
                    said = self.reply(step)
                    self.learn(Lost(0, said) if isinstance(said, Fault) else Received(0, said))
                case Count():
                    size = self.size(step.request)
                    self.learn(TokensCounted(0, self.random.choice([None, size, size * 24 // 25, size * 2])))
                case Wait():
                    self.learn(Waited(0, step.seconds))
                case Execute():
                    self.child()
                    for call in step.calls:
                        if self.state.calls.get(call.asked.id) and self.state.calls[call.asked.id].started:
                            size = self.random.randrange(800)
                            self.learn(CallFinished(0, call.asked.id, "ok", "y" * size))
                case _:
                    pass
        raise AssertionError("it goes on and on")

    def over(self):
        ledger, limits = self.state.ledger, self.limits
        tokens = limits.max_tokens_total is not None and ledger.tokens.taken > limits.max_tokens_total
        return tokens or (limits.cost is not None and ledger.cost.taken > limits.cost)


limits_of_both = st.builds(
    lambda tokens, cost, closing: Limits(
        max_tokens_total=tokens,
        max_cost=cost,
        closing_reply=closing,
        max_turns=20,
        max_calls=None,
        no_progress=False,
    ),
    st.none() | st.integers(1_500, 60_000),
    st.none() | st.integers(0, 1_000_000).map(lambda n: Decimal(n) / 10**6),
    st.none() | st.integers(1, 1_400),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), prices, limits_of_both)
def test_no_history_in_which_the_server_respects_max_tokens_passes_a_limit(seed, price, limits):
    World(seed, price, limits, honest=True).run()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9), prices, limits_of_both)
def test_what_a_server_counts_above_the_bound_is_in_the_sums_and_nothing_more_is_sent(seed, price, limits):
    world = World(seed, price, limits, honest=False)
    _, sent_over = world.run()
    assert sent_over == 0
    counted = sum(
        (event.reply.usage or {}).get(name, 0)
        for event in world.events
        if isinstance(event, Received)
        for name in ("input_tokens", "output_tokens")
    )
    assert world.state.usage.total >= counted
