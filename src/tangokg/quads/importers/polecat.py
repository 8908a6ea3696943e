"""POLECAT (Harvard Dataverse, doi:10.7910/DVN/AJGVIT): tab-separated, types of PLOVER, None for a missing name."""

from tangokg.quads.importers.format import Format
from tangokg.quads.importers.tables import WORDS, Table

TABLE = Table(
    "a table of POLECAT",
    {
        "subject": ("Actor Name",),
        "relation": ("Event Type",),
        "object": ("Recipient Name",),
        "time": ("Event Date",),
    },
)
POLECAT = Format("POLECAT events", TABLE.read, words=WORDS["plover"], blanks=frozenset({"", "None"}))
