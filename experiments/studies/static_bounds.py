"""What scores that count can reach from the training part alone: test and validation MRR, time-aware.

python -m experiments.studies.static_bounds YAGO WIKI

Objects of (s, r) by membership (ties share their mean rank), by how often, by the last time; then those of r.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import numpy as np

from tangokg.quads import Quadruples, find

Pair = tuple[int, int]


def both_ways(part: Quadruples, relations: int) -> list[tuple[int, ...]]:
    columns = ([part.s, part.r, part.o, part.t], [part.o, part.r + relations, part.s, part.t])
    return [row for direction in columns for row in zip(*(column.tolist() for column in direction), strict=True)]


def reciprocal_rank(of_pair: dict[int, int], others: Counter[int], answer: int, hidden: set[int]) -> float:
    """1 / rank of the answer among the objects of its pair, then those of its relation; ``hidden`` are also true."""
    if answer in of_pair:
        rest = [value for o, value in of_pair.items() if o != answer and o not in hidden]
        above, equal = (sum(test(value) for value in rest) for test in (of_pair[answer].__lt__, of_pair[answer].__eq__))
        return 1 / (1 + above + equal / 2)
    if answer not in others:
        return 0.0
    above = sum(o not in hidden for o in of_pair)
    above += sum(n > others[answer] and o not in hidden and o not in of_pair for o, n in others.items())
    return 1 / (1 + above)


def main(*names: str) -> None:
    for name in names:
        data = find(name)
        often: dict[Pair, Counter[int]] = defaultdict(Counter)
        last: dict[Pair, dict[int, int]] = defaultdict(dict)
        of_relation: dict[int, Counter[int]] = defaultdict(Counter)
        for s, r, o, t in sorted(both_ways(data.train, data.vocab.num_relations), key=lambda fact: fact[3]):
            often[s, r][o] += 1
            last[s, r][o] = t
            of_relation[r][o] += 1
        for part in ("valid", "test"):
            facts = both_ways(data.parts[part], data.vocab.num_relations)
            true: dict[tuple[int, int, int], set[int]] = defaultdict(set)
            for s, r, o, t in facts:
                true[s, r, t].add(o)
            ranks: dict[str, list[float]] = defaultdict(list)
            for s, r, o, t in facts:
                count, hidden = often[s, r], true[s, r, t] - {o}
                ways = {"membership": dict.fromkeys(count, 1), "frequency": dict(count), "last time": last[s, r]}
                for way, of_pair in ways.items():
                    ranks[way].append(reciprocal_rank(of_pair, of_relation[r], o, hidden))
            print(
                name, part, {way: round(100 * float(np.mean(values)), 2) for way, values in ranks.items()}, flush=True
            )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
