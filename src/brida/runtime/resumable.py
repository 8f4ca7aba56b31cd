"""Whether a run of a journal can go on, and with what."""

from collections.abc import Iterable

from brida.core.events import Event
from brida.core.state import fold
from brida.core.turn import Phase
from brida.errors import UnknownRun
from brida.journal.base import Journal, Writer


def can_go_on_without_text(events: Iterable[Event]) -> bool:
    """Whether the run has something that the model has not answered, or is in the middle of something."""
    state = fold(events)
    stop = state.stop
    if stop is not None and stop.stop_class == "finished":
        return False
    between = stop.kind != "waiting" if stop is not None else state.phase is Phase.READY
    return not between or state.history.can_be_sent


def left_in(writer: Writer) -> tuple[str | None, tuple[int, ...]]:
    """What was said to the run after it had ended: it begins with that."""
    left = [message for message in writer.inbox() if message.kind == "steer"]
    return "\n\n".join(one.text for one in left) or None, tuple(one.id for one in left)


def is_kept(journal: Journal | None, run_id: str) -> bool:
    """Whether the journal has such a run. Raises :class:`JournalError` where that run cannot be read."""
    try:
        return journal is not None and bool(journal.read(run_id))
    except UnknownRun:
        return False
