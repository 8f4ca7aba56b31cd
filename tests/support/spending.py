"""A process that spends from a shared budget: ``python -m support.spending JOURNAL RUN COUNT WORST SEED``.

It reserves ``WORST`` units of 10^-12 US dollars, settles some of it, and again, ``COUNT`` times or until
nothing fits; after each step it looks that the budget holds. It prints how often it was let.
"""

import random
import sys
from decimal import Decimal
from pathlib import Path

from brida.core.events import Waited
from brida.errors import BudgetExceeded
from brida.journal.base import Settle, SharedReserve
from brida.journal.budgets import UNIT
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, beginning


def main() -> None:
    path, run_id, count, worst, seed = sys.argv[1:]
    journal, chance, let = SqliteJournal(Path(path)), random.Random(int(seed)), 0
    writer = journal.begin(run_id)
    writer.append(beginning(run_id), STATE)
    amount = int(worst) * UNIT
    for number in range(int(count)):
        try:
            writer.append([Waited(2.0, float(number))], STATE, charge=SharedReserve(("team",), amount))
        except BudgetExceeded:
            break
        let += 1
        if number % 25 == 0:
            row = journal.budget("team")
            assert row.spent + row.reserved <= row.limit, row
        spent = Decimal(chance.randint(0, int(worst))) * UNIT
        writer.append([Waited(2.0, float(number))], STATE, charge=Settle(spent))
    writer.release()
    print(let)


if __name__ == "__main__":
    main()
