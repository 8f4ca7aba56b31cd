"""The approver at the terminal that every command with an agent uses."""

from collections.abc import Callable, Mapping

from brida.approval.terminal import StandardInput, Terminal
from brida.cli.screen import Screen
from brida.core.events import Question
from brida.settings.always import Always
from brida.texts.catalogue import Catalogue
from brida.tools.change import Change
from brida.tools.declare import Tool


def terminal_approver(
    screen: Screen, tools: Callable[[], Mapping[str, Tool]]
) -> Callable[[Catalogue], Terminal]:
    """What makes an approver that asks at this terminal, in the language it is given.

    ``tools``: those of the agent, which is made after its approver; they say what a call would change.
    """

    def make(say: Catalogue) -> Terminal:
        def change(question: Question) -> Change | None:
            asked = tools().get(question.tool)
            return None if asked is None else asked.change(question.arguments, say)

        return Terminal(
            say, screen.raw_error, StandardInput(), width=screen.width, change=change, always=Always(say)
        )

    return make
