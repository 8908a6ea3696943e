"""Names keep their ids, on disk and when more of them come."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangokg.errors import DataError, UnknownName
from tangokg.quads.vocabulary import FEW_NAMES, Vocabulary

WORDS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), max_size=6, unique=True)


@given(entities=WORDS, relations=WORDS, more=WORDS)
def test_extending_keeps_old_ids_and_knows_every_name(
    entities: list[str], relations: list[str], more: list[str]
) -> None:
    old = Vocabulary(tuple(entities), tuple(relations))
    new = old.extend(more, more)
    assert [new.entity_id(name) for name in entities] == list(range(old.num_entities))
    assert [new.relation_id(name) for name in relations] == list(range(old.num_relations))
    assert {new.entities[new.entity_id(name)] for name in more} == set(more)
    assert new.num_entities == len({*entities, *more})


def test_saved_names_come_back(tmp_path: Path) -> None:
    vocab = Vocabulary(("Xi Jinping", "Ürümqi (Xinjiang\xa0Uyghur)", '"quoted"', "a\tb\n"), ("Make a visit",))
    vocab.save(tmp_path / "vocab")
    assert Vocabulary.load(tmp_path / "vocab") == vocab


def test_case_and_underscores_may_differ_where_that_is_unambiguous() -> None:
    vocab = Vocabulary(("Xi_Jinping", "<Athletic_Park>", "IRAN", "Iran"), ("Make a visit",))
    assert vocab.entity_id("xi jinping") == 0
    assert vocab.entity_id("Athletic Park") == 1
    assert vocab.relation_id("make_a_visit") == 0
    assert vocab.entity_id("Iran") == 3
    with pytest.raises(UnknownName, match=r"unknown entity 'iran'\. Did you mean"):
        vocab.entity_id("iran")


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown relation 'Make a vist'\. Did you mean 'Make a visit'"):
        Vocabulary((), ("Make a visit", "Threaten")).relation_id("Make a vist")


@pytest.mark.parametrize("count", [FEW_NAMES, FEW_NAMES + 1])
def test_few_names_are_all_listed(count: int) -> None:
    names = tuple(f"name {i}" for i in range(count))
    told = ", ".join(map(repr, names)) if count <= FEW_NAMES else f"{count} names of this kind are known"
    vocab = Vocabulary(names, names)
    with pytest.raises(UnknownName) as error:
        vocab.entity_id("stranger")
    assert told in str(error.value)
    assert "--observe FILE" in str(error.value)
    with pytest.raises(UnknownName) as error:
        vocab.relation_id("stranger")
    assert told in str(error.value)
    assert "--observe" not in str(error.value)


def test_repeated_names_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="entity name 'a' stands for two ids"):
        Vocabulary(("a", "b", "a"), ())
    with pytest.raises(DataError, match=r"entities.parquet: no vocabulary can be read"):
        Vocabulary.load(tmp_path)
    (tmp_path / "entities.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(DataError, match=r"entities.parquet: no vocabulary can be read"):
        Vocabulary.load(tmp_path)
