"""Taking secrets out of what enters a run, before anything learns it."""

from dataclasses import replace

from brida.core.events import (
    Answered,
    CallFinished,
    Checked,
    Decided,
    Event,
    Fault,
    Lost,
    Reconciled,
    Said,
    StopRequested,
)
from brida.core.stops import Stop
from brida.texts.masking import Mask


def masked(event: Event, mask: Mask) -> Event:
    """The event without secrets in what came from outside; what came from the model stays as it was."""
    match event:
        case Said() | Decided() | Checked():
            return _changed(event, text=mask(event.text))
        case CallFinished():
            content = event.content
            return _changed(
                event, content=mask(content) if isinstance(content, str) else mask.blocks(content)
            )
        case Reconciled():
            return _changed(event, content=mask(event.content))
        case Answered():
            return _changed(event, reason=mask(event.reason))
        case Lost():
            return _changed(event, fault=_fault(event.fault, mask))
        case StopRequested():
            return _changed(event, stop=_stop(event.stop, mask))
        case _:
            return event


def _fault(fault: Fault, mask: Mask) -> Fault:
    return replace(fault, message=mask(fault.message))


def _stop(stop: Stop, mask: Mask) -> Stop:
    detail = {name: mask(value) if isinstance(value, str) else value for name, value in stop.detail.items()}
    return replace(stop, detail=detail)


def _changed(event: Event, **changes: object) -> Event:
    return replace(event, **changes)  # type: ignore[arg-type]
