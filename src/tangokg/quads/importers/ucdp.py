"""UCDP Georeferenced Event Dataset: comma-separated, events with a first and a last day (UCDP GED Codebook)."""

from tangokg.quads.importers.format import Format
from tangokg.quads.importers.tables import WORDS, Table

TABLE = Table(
    "a table of UCDP GED",
    {
        "subject": ("side_a",),
        "relation": ("type_of_violence",),
        "object": ("side_b",),
        "start": ("date_start",),
        "end": ("date_end",),
    },
    delimiter=",",
    quoted=True,
)
UCDP = Format("UCDP Georeferenced Event Dataset", TABLE.read, words=WORDS["ucdp"])
