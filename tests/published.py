"""Small files in the form in which event data are published, and the facts that they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tangokg as tk

Fact = tuple[str, str, str, str]  # subject, relation, object, date


def named(facts: tk.Quadruples) -> list[Fact]:
    """Facts by name and date, in order."""
    e, r = facts.vocab.entities, facts.vocab.relations
    return [
        (e[s], r[p], e[o], facts.clock.format(int(t)))
        for s, p, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    ]


def read(tmp_path: Path, format: str, data: bytes, **options: Any) -> tk.Quadruples:
    """The facts of a file of these bytes."""
    path = tmp_path / "file"
    path.write_bytes(data)
    return tk.read_events(path, format=format, **options)


def static_edges(facts: tk.Quadruples) -> set[tuple[str, str, str]]:
    """The edges of the static graph by name."""
    graph = facts.static
    assert graph is not None
    e, r = graph.vocab.entities, graph.vocab.relations
    return {(e[s], r[p], e[o]) for s, p, o in zip(graph.s, graph.r, graph.o, strict=True)}


# The headings as they are published, in their order.
ICEWS = (
    "Event ID\tEvent Date\tSource Name\tSource Sectors\tSource Country\tEvent Text\tCAMEO Code\tIntensity\t"
    "Target Name\tTarget Sectors\tTarget Country\tStory ID\tSentence Number\tPublisher\tCity\tDistrict\tProvince\t"
    "Country\tLatitude\tLongitude"
)
POLECAT = (
    "Event ID\tEvent Date\tEvent Type\tEvent Mode\tIntensity\tQuad Code\tContexts\tActor Name\tActor Country\t"
    "Actor COW\tPrimary Actor Sector\tActor Sectors\tActor Title\tActor Name Raw\tWikipedia Actor ID\t"
    "Recipient Name\tRecipient Country\tRecipient COW\tPrimary Recipient Sector\tRecipient Sectors\t"
    "Recipient Title\tRecipient Name Raw\tWikipedia Recipient ID\tPlacename\tCity\tDistrict\tProvince\tCountry\t"
    "Latitude\tLongitude\tGeoNames ID\tRaw Placename\tFeature Type\tSource\tPublication Date\tStory People\t"
    "Story Organizations\tStory Locations\tLanguage\tVersion"
)
ACLED = (
    "event_id_cnty,event_date,year,time_precision,disorder_type,event_type,sub_event_type,actor1,assoc_actor_1,"
    "inter1,actor2,assoc_actor_2,inter2,interaction,civilian_targeting,iso,region,country,admin1,admin2,admin3,"
    "location,latitude,longitude,geo_precision,source,source_scale,notes,fatalities,tags,timestamp"
)
UCDP = (
    "id,relid,year,active_year,code_status,type_of_violence,conflict_dset_id,conflict_new_id,conflict_name,"
    "dyad_dset_id,dyad_new_id,dyad_name,side_a_dset_id,side_a_new_id,side_a,side_b_dset_id,side_b_new_id,side_b,"
    "number_of_sources,source_article,source_office,source_date,source_headline,source_original,where_prec,"
    "where_coordinates,where_description,adm_1,adm_2,latitude,longitude,geom_wkt,priogrid_gid,country,country_id,"
    "region,event_clarity,date_prec,date_start,date_end,deaths_a,deaths_b,deaths_civilians,deaths_unknown,best,"
    "high,low,gwnoa,gwnob"
)


def table(headings: str, *rows: dict[str, str], encoding: str = "utf-8") -> bytes:
    """A file with these headings; the cells that a row does not name hold an x."""
    separator = "\t" if "\t" in headings else ","
    lines = [separator.join(row.get(name, "x") for name in headings.split(separator)) for row in rows]
    return "\n".join([headings, *lines, ""]).encode(encoding)


def icews(*rows: tuple[str, str, str, str], **more: str) -> bytes:
    named = [dict(zip(("Source Name", "Event Text", "Target Name", "Event Date"), row, strict=True)) for row in rows]
    return table(ICEWS, *[row | more for row in named], encoding="iso-8859-1")


def polecat(*rows: Fact) -> bytes:
    return table(
        POLECAT,
        *(dict(zip(("Actor Name", "Event Type", "Recipient Name", "Event Date"), row, strict=True)) for row in rows),
    )


def gdelt(*rows: Fact, width: int = 58) -> bytes:
    """The columns counted from 1: subject 7, relation 27, object 17, time 2, or 60 in version 2.0."""
    lines = []
    for subject, relation, object_, time in rows:
        cells = ["1"] * width
        cells[1] = "20131231"  # of the event; in version 2.0 it is not taken
        cells[6], cells[26], cells[16] = subject, relation, object_
        cells[59 if width == 61 else 1] = time
        lines.append("\t".join(cells))
    return "\n".join([*lines, ""]).encode()


def acled(*rows: Fact, **more: str) -> bytes:
    return table(
        ACLED,
        *(dict(zip(("actor1", "event_type", "actor2", "event_date"), row, strict=True)) | more for row in rows),
    )


def ucdp(*rows: tuple[str, str, str, str, str]) -> bytes:
    names = ("side_a", "type_of_violence", "side_b", "date_start", "date_end")
    return table(UCDP, *(dict(zip(names, row, strict=True)) for row in rows))


def tgb(*rows: tuple[object, object, object, object], head: str = "ts,head,tail,relation_type") -> bytes:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows), ""]).encode()


def item(name: str, **claims: list[dict[str, Any]]) -> dict[str, Any]:
    """An item of Wikidata; one without statements has a list in place of an object, as in the dumps."""
    return {"type": "item", "id": name, "labels": {}, "claims": claims or []}


def statement(value: str, rank: str = "normal", **times: str | tuple[str, int]) -> dict[str, Any]:
    """A statement about an item; a time is a day, a day with a precision, or novalue or somevalue."""
    found = {
        "mainsnak": {
            "snaktype": "value",
            "datatype": "wikibase-item",
            "datavalue": {
                "value": {"entity-type": "item", "numeric-id": int(value[1:]), "id": value},
                "type": "wikibase-entityid",
            },
        },
        "type": "statement",
        "rank": rank,
    }
    qualifiers = {name: [time_snak(time)] for name, time in times.items()}
    return found | ({"qualifiers": qualifiers} if qualifiers else {})


def time_snak(time: str | tuple[str, int]) -> dict[str, Any]:
    if time in ("novalue", "somevalue"):
        return {"snaktype": time, "datatype": "time"}
    text, precision = (time, 11) if isinstance(time, str) else time
    sign = "" if text[0] == "-" else "+"
    value = {
        "time": f"{sign}{text}T00:00:00Z",
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": precision,
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }
    return {"snaktype": "value", "datatype": "time", "datavalue": {"value": value, "type": "time"}}


def dump(*entities: dict[str, Any]) -> bytes:
    """One JSON array with an entity on each line."""
    return ("[\n" + ",\n".join(map(json.dumps, entities)) + "\n]\n").encode()


def labelled(entity: dict[str, Any], **labels: str) -> dict[str, Any]:
    return entity | {"labels": {code: {"language": code, "value": label} for code, label in labels.items()}}


def named_property(name: str, **labels: str) -> dict[str, Any]:
    return labelled({"type": "property", "id": name, "datatype": "wikibase-item", "claims": []}, **labels)


# format -> (a small file, its facts by name in the order of time)
PUBLISHED: dict[str, tuple[bytes, list[Fact]]] = {
    "icews": (
        icews(
            ("José Mújica", "Make a visit", "China", "2014-01-02"),
            ("", "Make statement", "China", "2014-01-02"),
            ("China", "Host a visit", "José Mújica", "2014-01-03"),
        ),
        [
            ("José Mújica", "Make a visit", "China", "2014-01-02"),
            ("China", "Host a visit", "José Mújica", "2014-01-03"),
        ],
    ),
    "polecat": (
        polecat(
            ("Angela Merkel", "CONSULT", "João Silva", "2018-01-01"),
            ("None", "PROTEST", "France", "2018-01-01"),
            ("France", "SANCTION", "Russia", "2018-01-04"),
            ("Nonesuch", "AID", "None", "2018-01-04"),
        ),
        [("Angela Merkel", "Consult", "João Silva", "2018-01-01"), ("France", "Sanction", "Russia", "2018-01-04")],
    ),
    "gdelt": (
        gdelt(
            ("GERMANY", "042", "FRANCE", "20240102"),
            ("GERMANY", "0311", "", "20240102"),
            ("FRANCE", "190", "FARC", "20240105"),
        ),
        [
            ("GERMANY", "Make a visit", "FRANCE", "2024-01-02"),
            ("FRANCE", "Use conventional military force", "FARC", "2024-01-05"),
        ],
    ),
    "acled": (
        acled(
            ("Rioters (Iran)", "Riots", "Police Forces of Iran", "01 January 2024"),
            ("Protesters (Iran)", "Protests", "", "02 January 2024"),
            ("Police Forces of Iran", "Violence against civilians", "Civilians (Iran)", "03 January 2024"),
            notes='"On 1 January, a crowd\nshouted ""Go"", and left."',
        ),
        [
            ("Rioters (Iran)", "Riots", "Police Forces of Iran", "2024-01-01"),
            ("Police Forces of Iran", "Violence against civilians", "Civilians (Iran)", "2024-01-03"),
        ],
    ),
    "ucdp": (
        ucdp(
            ("Government of Mali", "1", "JNIM", "2022-03-01 00:00:00.000", "2022-03-03 00:00:00.000"),
            ("Dogon", "2", "Fulani", "2022-03-02 00:00:00.000", "2022-03-02 00:00:00.000"),
        ),
        [
            ("Government of Mali", "State-based conflict", "JNIM", "2022-03-01"),
            ("Government of Mali", "State-based conflict", "JNIM", "2022-03-02"),
            ("Dogon", "Non-state conflict", "Fulani", "2022-03-02"),
            ("Government of Mali", "State-based conflict", "JNIM", "2022-03-03"),
        ],
    ),
    "wikidata": (
        dump(
            item(
                "Q1",
                P39=[
                    statement("Q2", P580="2010-05-03", P582=("2012-00-00", 9)),
                    statement("Q4", rank="deprecated", P580="2010-05-03"),
                ],
                P31=[statement("Q5")],
            ),
            item("Q3", P166=[statement("Q1", P585="2011-12-10")]),
        ),
        [
            ("Q1", "P39", "Q2", "2010"),
            ("Q1", "P39", "Q2", "2011"),
            ("Q3", "P166", "Q1", "2011"),
            ("Q1", "P39", "Q2", "2012"),
        ],
    ),
    "tgb": (
        tgb((1514764800, 0, 1, 5), (1514764800, 1, 2, 5), (1514851200, 0, 2, 6)),
        [("0", "5", "1", "2018-01-01"), ("1", "5", "2", "2018-01-01"), ("0", "6", "2", "2018-01-02")],
    ),
}  # fmt: skip
