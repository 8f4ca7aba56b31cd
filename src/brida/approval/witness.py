"""Asking a person what became of a call that was under way when its process died."""

from collections.abc import Awaitable, Callable

from brida.approval.answers import WhatHappened
from brida.approval.prompt import Prompt
from brida.core.events import Question
from brida.core.wording import Say

ReadLine = Callable[[str], Awaitable[str]]


async def ask_what_happened(
    call: Question, say: Say, prompt: Prompt, line: ReadLine, by: str
) -> WhatHappened:
    """What the person knows. ``line`` shows a text and gives what was typed after it."""
    said = "\n".join(prompt.lost(call))
    while True:
        word, _, rest = (await line(said)).partition(" ")
        match word.lower():
            case "h":
                result = rest.strip() or await line(say("What is its result, for the model to read? "))
                return WhatHappened("happened", result, by)
            case "r" if not rest:
                return WhatHappened("did_not_happen", by=by)
            case "u" if not rest:
                return WhatHappened("unknown", by=by)
            case "q" if not rest:
                return WhatHappened("stop", by=by)
            case _:
                said = say("not understood") + "\n" + prompt.lost(call)[-1]
