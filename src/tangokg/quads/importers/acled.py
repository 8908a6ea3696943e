"""ACLED (Armed Conflict Location and Event Data): comma-separated, with headings (ACLED Codebook)."""

from tangokg.quads.importers.format import Format
from tangokg.quads.importers.tables import Table

TABLE = Table(
    "a table of ACLED",
    {"subject": ("actor1",), "relation": ("event_type",), "object": ("actor2",), "time": ("event_date",)},
    delimiter=",",
    quoted=True,
)
ACLED = Format("ACLED events", TABLE.read)
