"""Files and tables -> integer quadruples, vocabularies, chronological splits, known data sets."""

from tangokg.quads.clock import UNITS, Clock
from tangokg.quads.counts import facts_over_time, inspect, summarise
from tangokg.quads.download import download
from tangokg.quads.folders import read_folder
from tangokg.quads.registry import KNOWN, KnownSet, cache_folder, data_folders, known_set, known_sets
from tangokg.quads.search import find_names, worth_asking
from tangokg.quads.sources import find, read_events
from tangokg.quads.splits import split, split_at, split_tgb, thin, thin_dataset
from tangokg.quads.sql import write_table
from tangokg.quads.tables import read_table
from tangokg.quads.values import Dataset, Quadruples, concatenate
from tangokg.quads.vocabulary import Vocabulary
from tangokg.quads.writing import write_folder

__all__ = [
    "KNOWN",
    "UNITS",
    "Clock",
    "Dataset",
    "KnownSet",
    "Quadruples",
    "Vocabulary",
    "cache_folder",
    "concatenate",
    "data_folders",
    "download",
    "facts_over_time",
    "find",
    "find_names",
    "inspect",
    "known_set",
    "known_sets",
    "read_events",
    "read_folder",
    "read_table",
    "split",
    "split_at",
    "split_tgb",
    "summarise",
    "thin",
    "thin_dataset",
    "worth_asking",
    "write_folder",
    "write_table",
]
