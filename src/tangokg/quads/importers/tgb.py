"""Edge lists of the Temporal Graph Benchmark (tkgl-* and thgl-*): NAME_edgelist.csv, for some NAME_static_edgelist.csv.

The headings are those of py-tgb 2.0: a time called ts, timestamp, date or year, then head, tail and relation_type.
thgl-forum calls head and tail src and dst.
"""

from collections.abc import Sequence
from pathlib import Path

from tangokg.errors import DataError
from tangokg.quads.files import find_file
from tangokg.quads.importers.format import Format
from tangokg.quads.importers.gathered import Gathered
from tangokg.quads.importers.packed import streams
from tangokg.quads.importers.tables import Table
from tangokg.quads.reading import TableOptions
from tangokg.quads.splits import split_tgb
from tangokg.quads.values import Dataset, Quadruples

EDGES = {"subject": ("head", "src"), "relation": ("relation_type", "relation"), "object": ("tail", "dst")}
TABLE = Table("an edge list of TGB", EDGES | {"time": ("ts", "timestamp", "date", "year")}, delimiter=",", quoted=True)
STATIC = Table("a static edge list of TGB", EDGES, delimiter=",", quoted=True)


def read(paths: Sequence[Path], into: Gathered, options: TableOptions) -> None:
    """Add the edge lists, and the static one that lies beside each or in the same archive."""
    for file in dict.fromkeys(file for path in paths for file in _belonging(path)):
        for stream in streams(file):
            name = Path(stream.place).name
            if "_static_edgelist" in name:
                STATIC.read_stream(stream, into, TableOptions(), static=True)
            elif "_edgelist" in name or stream.place == file.name:  # an archive has other files too
                TABLE.read_stream(stream, into, options)


def _belonging(path: Path) -> list[Path]:
    """An edge list with its static edge list, or all edge lists of a folder."""
    if path.is_dir():
        edge_lists = sorted(path.glob("*_edgelist*.csv*"))
        if not edge_lists:
            raise DataError(f"{path}: no edge list found in the folder; expected NAME_edgelist.csv.")
        return edge_lists
    name, marker, _ = path.name.partition("_edgelist")
    static = find_file(path.parent, f"{name}_static_edgelist.csv") if marker else None
    return [path, static] if static else [path]


def split(facts: Quadruples, name: str) -> Dataset:
    """The split that py-tgb uses for the set of this name."""
    share = 0.1 if "yago" in name else 0.15
    return split_tgb(facts, share, share, name=name)


def set_name(source: Path) -> str:
    """``tkgl-icews`` of tkgl-icews_edgelist.csv, of the folder that holds it, and of tkgl-icews.zip."""
    inside = sorted(source.glob("*_edgelist*.csv*")) if source.is_dir() else []
    names = {path.name.partition("_edgelist")[0].removesuffix("_static") for path in inside or [source]}
    return names.pop().removesuffix(".zip") if len(names) == 1 else "tgb"


TGB = Format("edge lists of TGB (tkgl-*, thgl-*)", read, folders=True, split=split, name=set_name)
