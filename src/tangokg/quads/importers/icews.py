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
EVENTS = {code: name for code, name in WORDS["cameo"].items() if len(code) > 2}  # no event has the code of a class
ICEWS = Format("ICEWS coded events", TABLE.read, words=EVENTS)
