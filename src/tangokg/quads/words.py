"""The words of names, as numbers that are the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

WORD = re.compile(r"[^\W_]+")  # letters and digits


@dataclass(frozen=True, eq=False)
class Words:
    """The words of names: those of name i are ``word[start[i] : start[i + 1]]``, each once."""

    start: Ids  # (N + 1,)
    word: Ids  # (K,) a hash of each

    def extend(self, names: Iterable[str]) -> Words:
        """Those of more names appended."""
        more = find_words(names)
        start = np.concatenate([self.start, self.start[-1] + more.start[1:]])
        return Words(start, np.concatenate([self.word, more.word]))


def find_words(names: Iterable[str]) -> Words:
    """The words of each name, hashed to 64 bits: among a million words two share a number with a chance of 3e-8."""
    sizes, numbers, hashes = [0], list[int](), dict[str, int]()
    for name in names:
        words = words_of(name)
        sizes.append(len(words))
        for word in words:
            if word not in hashes:
                digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                hashes[word] = int.from_bytes(digest, "little", signed=True)
            numbers.append(hashes[word])
    return Words(np.cumsum(sizes, dtype=np.int64), np.array(numbers, dtype=np.int64))


def words_of(name: str) -> list[str]:
    """The distinct words of a name without case; ``Citizen (India)`` has citizen, india, (india) and !citizen."""
    folded = name.casefold()
    words = WORD.findall(folded)
    before, bracket, rest = folded.partition("(")
    if bracket:
        words += [f"({rest.strip(' _<>')}", f"!{before.strip(' _<>')}"]
    return list(dict.fromkeys(words))
