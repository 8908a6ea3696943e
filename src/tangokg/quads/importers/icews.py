"""ICEWS coded events (Harvard Dataverse, doi:10.7910/DVN/28075): one tab-separated file a year, ISO-8859-1."""

from tangokg.quads.importers.format import Format
from tangokg.quads.importers.tables import WORDS, Table

TABLE = Table(
    "a table of ICEWS coded events",
    {
        "subject": ("Source Name",),
        "relation": ("Event Text", "CAMEO Code"),
        "object": ("Target Name",),
        "time": ("Event Date",),
    },
)
ICEWS = Format("ICEWS coded events", TABLE.read, words=WORDS["cameo"])
