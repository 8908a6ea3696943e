"""GDELT 1.0 and 2.0 event exports: tab-separated, without headings (GDELT Event Database Data Format Codebooks).

Version 1.0 has 57 columns, since April 2013 with the source 58, and the day of the event as its second. Version 2.0 has
61, and the moment at which the event was added, to a quarter of an hour, as its 60th.
"""

from tangokg.quads.importers.format import Format
from tangokg.quads.importers.tables import WORDS, Table

ROLES = {"subject": 6, "relation": 26, "object": 16}  # from 0 on: Actor1Name, EventCode, Actor2Name
FIRST = ROLES | {"time": 1}  # SQLDATE
SECOND = ROLES | {"time": 59}  # DATEADDED

TABLE = Table("an event export of GDELT", widths={57: FIRST, 58: FIRST, 61: SECOND})
GDELT = Format("GDELT 1.0 and 2.0 event exports", TABLE.read, words=WORDS["cameo"])
