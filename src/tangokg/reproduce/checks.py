"""What a stored result must be: it may come from elsewhere, so types, seed and counts are checked before they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tangokg.errors import DataError
from tangokg.quads import KNOWN
from tangokg.reproduce.presets import THINNED, THINNED_COUNTS

SCHEMA = 1  # of a result with a preset; files of `tango train` have no schema, and the same keys
KEYS = (
    "model",
    "dataset",
    "files",
    "seed",
    "config",
    "test",
    "queries",
    "epochs",
    "train_seconds",
    "device",
    "versions",
)
TYPES: dict[str, tuple[type, ...]] = {  # of each field; those beyond KEYS may be missing
    "preset": (str,),
    "model": (str,),
    "dataset": (str,),
    "seed": (int,),
    "config": (dict,),
    "valid": (dict,),
    "test": (dict,),
    "queries": (dict,),
    "epochs": (int,),
    "best_epoch": (int,),
    "train_seconds": (int, float),
    "epoch_seconds": (int, float, type(None)),
    "device": (str,),
    "versions": (dict,),
    "commit": (str, type(None)),
    "protocols": (dict,),
    "date": (str,),
    "files": (dict,),
}
FILTERS = ("raw", "time-aware", "time-unaware")
AGAIN = "Take it away, and fill its cells again with `tango reproduce --run`."


def check(found: Any, where: str) -> dict[str, Any]:
    """A result with all its fields and figures, or an error."""
    if not isinstance(found, dict):
        raise DataError(f"{where}: expected a result with {', '.join(KEYS)}, found {type(found).__name__}. {AGAIN}")
    if (schema := found.get("schema", SCHEMA)) != SCHEMA:
        raise DataError(f"{where}: a result of form {schema!r}; this version reads form {SCHEMA}. {AGAIN}")
    if missing := [key for key in KEYS if key not in found]:
        raise DataError(f"{where}: a result of an older form, without {', '.join(missing)}. {AGAIN}")
    if found.get("not_comparable"):
        raise DataError(f"{where}: not comparable, so not kept: {found['not_comparable']}.")
    for key, types in TYPES.items():
        if key in found and (not isinstance(found[key], types) or isinstance(found[key], bool)):
            raise DataError(f"{where}: damaged: {key} is {found[key]!r:.60}, expected {_named(types)}. {AGAIN}")
    _check_seed(found, where)
    _check_tables(found, where)
    for part in ("valid", "test"):
        if part in found:
            _check_figures(found, part, where)
            _check_queries(found, part, where)
    return found


def _named(types: tuple[type, ...]) -> str:
    return " or ".join(
        {"dict": "a table", "str": "a text", "NoneType": "nothing"}.get(t.__name__, t.__name__) for t in types
    )


def _check_seed(found: Mapping[str, Any], where: str) -> None:
    """A seed names a file: a whole number, and the one that the run was made with."""
    if found["seed"] < 0:
        raise DataError(f"{where}: damaged: seed {found['seed']}, expected 0 or more. {AGAIN}")
    of_config = found["config"].get("seed", found["seed"])
    if of_config != found["seed"]:
        raise DataError(f"{where}: seed {found['seed']}, and its config has seed {of_config!r}: a copy? {AGAIN}")


def _check_tables(found: Mapping[str, Any], where: str) -> None:
    for table in ("settings", "train"):
        if not isinstance(found["config"].get(table, {}), dict):
            raise DataError(f"{where}: damaged: config.{table} is no table. {AGAIN}")


def _check_figures(found: Mapping[str, Any], part: str, where: str) -> None:
    for name in FILTERS:
        figures = found[part].get(name)
        values = figures.values() if isinstance(figures, dict) and "mrr" in figures else [None]
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 100 for v in values):
            raise DataError(f"{where}: damaged: [{part}] has no MRR between 0 and 100 for each filter. {AGAIN}")


def _check_queries(found: Mapping[str, Any], part: str, where: str) -> None:
    """Each distinct fact is asked in both directions: an even number, at most twice the facts of the part."""
    queries, most = found["queries"].get(part), most_queries(found["dataset"], part)
    whole = isinstance(queries, int) and not isinstance(queries, bool) and queries > 0 and queries % 2 == 0
    if not whole or (most is not None and queries > most):
        beyond = "" if most is None else f", at most {most:,}"
        raise DataError(
            f"{where}: damaged: {queries!r:.40} queries of [{part}], expected an even number{beyond}. {AGAIN}"
        )


def most_queries(data: str, part: str) -> int | None:
    """Twice the facts of a part; None where nothing is known of the set."""
    if data == THINNED:
        return 2 * THINNED_COUNTS[part]
    return 2 * KNOWN[data].rows[part] if data in KNOWN and KNOWN[data].rows[part] else None
