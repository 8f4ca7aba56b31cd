"""What a run keeps in a journal, and what other processes say to it there."""

from collections.abc import Iterable, Sequence

from brida.core.events import Event
from brida.core.state import State
from brida.core.stops import Stop
from brida.errors import BudgetExceeded, JournalError, UnknownBudget
from brida.journal.base import Charge, Message, Writer
from brida.tools.text import clean


class Keeper:
    """A run's place in a journal; nothing is kept where ``writer`` is None.

    After the first record that cannot be kept, ``error`` says why, and no more is tried: the run ends.
    """

    def __init__(self, writer: Writer | None) -> None:
        self._writer = writer
        self.error: Stop | None = None

    def keep(
        self,
        events: Sequence[Event],
        state: State,
        taken: Iterable[int] = (),
        charge: Charge | None = None,
    ) -> bool:
        """Keeps the events, all or none of them; False the first time that this cannot be done.

        ``state`` is the run's before them. ``taken``: the messages that became these events. ``charge``: what
        a shared budget pays together with them. Raises :class:`BudgetExceeded` where it has not so much left,
        and :class:`UnknownBudget` where it is gone.
        """
        if self._writer is None or self.error is not None or not events:
            return True
        try:
            self._writer.append(events, state, taken=taken, charge=charge)
        except (BudgetExceeded, UnknownBudget):
            raise
        except JournalError as error:
            self.fail(error)
        return self.error is None

    def fail(self, error: JournalError) -> None:
        """Nothing is kept from now on."""
        self.error = self.error or Stop("journal_error", {"error": clean(str(error))})

    def messages(self) -> tuple[Message, ...]:
        """What other processes say to the run and it has not heard."""
        if self._writer is None or self.error is not None:
            return ()
        try:
            return self._writer.inbox()
        except JournalError:
            return ()  # the next record says what is wrong

    def release(self) -> None:
        """Lets another process have the run."""
        if self._writer is not None:
            self._writer.release()
