"""Write a small table of dated events with a rule that one can see: ``python examples/trips.py [FILE]``.

Eight people go round Oslo, Paris, Rome and Sofia in that order, a city a day, never on Sundays; the day after a visit
the city thanks its visitor. Who visits what next cannot be counted, since everyone visits every city equally often: it
follows from the last visit alone.
"""

from __future__ import annotations

import csv
import sys
from datetime import date, timedelta
from pathlib import Path

PEOPLE = ("Anna", "Ben", "Carla", "Dev", "Ewa", "Finn", "Gita", "Hugo")
CITIES = ("Oslo", "Paris", "Rome", "Sofia")


def trips(days: int = 40) -> list[tuple[str, str, str, date]]:
    """(subject, relation, object, date) of all events from 2024-03-01 on."""
    calendar = [date(2024, 3, 1) + timedelta(n) for n in range(days)]
    rows: list[tuple[str, str, str, date]] = []
    visits: list[tuple[str, str, str, date]] = []
    for step, day in enumerate(day for day in calendar if day.isoweekday() != 7):
        rows += [(city, "thanks", person, day) for person, _, city, _ in visits]
        visits = [(person, "visits", CITIES[(3 * i + step) % 4], day) for i, person in enumerate(PEOPLE)]
        rows += visits
    return rows


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "trips.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("subject", "relation", "object", "date"))
        table.writerows(trips())
    print(f"{len(trips())} events are in {path}")


if __name__ == "__main__":
    main()
