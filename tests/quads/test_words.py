"""The words of names."""

from __future__ import annotations

import numpy as np
import pytest

from tangokg.quads import words
from tangokg.quads.vocabulary import Vocabulary
from tangokg.quads.words import Words, find_words, words_of

NAMES = ("Citizen (India)", "<Jean-Louis_Borloo>", "42", "", "of of of", "Ärzte (A) (B)", "(x)")


def same(a: Words, b: Words) -> bool:
    return np.array_equal(a.start, b.start) and np.array_equal(a.word, b.word)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Citizen (India)", ["citizen", "india", "(india)", "!citizen"]),
        ("Villager_(Sudan)", ["villager", "sudan", "(sudan)", "!villager"]),
        ("<Jean-Louis_Borloo>", ["jean", "louis", "borloo"]),
        ("Ministry of Energy of IRAN", ["ministry", "of", "energy", "iran"]),
        ("Q42", ["q42"]),
        ("42", ["42"]),
        ("", []),
        (" _-", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_and_both_sides_of_a_bracket(name: str, expected: list[str]) -> None:
    assert words_of(name) == expected


def test_a_word_has_the_same_number_in_every_name_and_on_every_machine() -> None:
    found = find_words(NAMES)
    assert found.start.tolist() == [0, 4, 7, 8, 8, 9, 14, 17]
    india = find_words(["India"]).word.tolist()
    assert india == [found.word[1]] == [-8331821327062936665]
    assert find_words(["lone \ud800 surrogate (\ud800)"]).start.tolist() == [0, 4]


def test_words_of_a_grown_vocabulary_are_those_of_all_names_and_only_new_names_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocab = Vocabulary(NAMES[:3], ("r",))
    assert same(vocab.words, find_words(NAMES[:3]))
    read: list[str] = []

    def reading(name: str) -> list[str]:
        read.append(name)
        return words_of(name)

    monkeypatch.setattr(words, "words_of", reading)
    grown = vocab.extend(NAMES, ["r"]).extend(["India"], ["r2"])
    assert read == [*NAMES[3:], "India"]
    assert same(grown.words, find_words((*NAMES, "India")))
