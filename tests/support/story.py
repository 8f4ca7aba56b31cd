"""What the events of a whole run must hold, whatever its process went through: books kept apart."""

from collections.abc import Iterable, Mapping

from brida.core.events import (
    CallFinished,
    CallStarted,
    Decided,
    Event,
    Received,
    Reconciled,
    Resumed,
    Stopped,
)


class Story:
    """The books of a whole run, kept from its events and nothing else."""

    def __init__(self, events: Iterable[Event], impacts: Mapping[str, str]) -> None:
        self.impacts = impacts
        self.undecided: set[str] = set()
        self.allowed: dict[str, bool] = {}
        self.tools: dict[str, str] = {}
        self.under_way: set[str] = set()
        self.died: set[str] = set()
        self.did_not_happen: set[str] = set()
        self.done: dict[str, object] = {}
        for event in events:
            self.learn(event)

    def learn(self, event: Event) -> None:
        match event:
            case Received(reply=reply):
                calls = [b for b in reply.content if b["type"] == "tool_use" and isinstance(b["id"], str)]
                self.undecided = {str(call["id"]) for call in calls}
                self.tools |= {str(call["id"]): str(call["name"]) for call in calls}
            case Decided():
                self.undecided.discard(event.call_id)
                self.allowed[event.call_id] = event.verdict == "allow"
            case Resumed():
                self.died |= self.under_way
            case Reconciled(found="did_not_happen"):
                self.did_not_happen.add(event.call_id)
            case Reconciled(found="happened" | "unknown"):
                self.done[event.call_id] = event.content
                self.under_way.discard(event.call_id)
            case CallStarted():
                self.start(event.call_id)
            case CallFinished():
                assert event.call_id in self.under_way
                assert event.call_id not in self.done, "one result"
                self.done[event.call_id] = event.content
                self.under_way.discard(event.call_id)
            case Stopped() if event.stop.kind != "waiting":
                self.under_way.clear()

    def start(self, call_id: str) -> None:
        assert not self.undecided, "all are decided before any runs"
        assert self.allowed[call_id]
        assert call_id not in self.done, "nothing that has its result runs again"
        if call_id in self.under_way:
            assert call_id in self.died, "nothing runs beside itself"
            if self.impacts.get(self.tools[call_id]) == "high":
                assert call_id in self.did_not_happen, "no high impact is repeated in silence"
        self.under_way.add(call_id)
        self.died.discard(call_id)
        self.did_not_happen.discard(call_id)
