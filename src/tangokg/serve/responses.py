"""The schemas of answers, for the OpenAPI document. The tests compare them with real answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Time = str | int | float  # a date as text, a plain step as a number


class ResponseModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Placed(ResponseModel):
    position: int = Field(description="the posts that this answer knows: the first so many of the journal")


class Reason(ResponseModel):
    """An earlier fact that raised an answer."""

    subject: str
    relation: str
    object: str
    at: Time
    share: float = Field(description="how much of the answer goes without this fact")
    sentence: str


class Seen(ResponseModel):
    count: int = Field(description="known times at which the fact stood before the time asked about")
    last: Time | None


class Answer(ResponseModel):
    rank: int
    name: str = Field(description="of what was asked for")
    subject: str
    relation: str
    object: str
    share: float = Field(description="its probability, if the question has an answer at all")
    chance: float = Field(description="the probability of the fact in that step, or at least once until then")
    base: float | None = Field(description="the base rate: how often the fact stood in all known steps")
    seen: Seen
    why: list[Reason] | None = Field(default=None, description="of the first three answers, where asked for")


class Asked(ResponseModel):
    subject: str | None
    relation: str | None
    object: str | None
    at: Time | None
    by: Time | None
    asked: Literal["subject", "relation", "object", "fact"] = Field(description="what is asked for; fact: yes or no")


class Forecast(Placed):
    question: Asked
    any: float | None = Field(description="the chance that the question has an answer at all")
    answers: list[Answer]
    warnings: list[str]


class Forecasts(Placed):
    forecasts: list[Forecast]


class Failure(ResponseModel):
    message: str
    hint: str | None = None


class Failed(ResponseModel):
    """Every refused request."""

    error: Failure


class OfRun(ResponseModel):
    run: str
    model: str
    forecast: Forecast | None
    error: Failure | None = Field(description="why this run cannot answer, such as a name that it does not know")


class Compared(Placed):
    runs: list[OfRun]


class Event(ResponseModel):
    subject: str
    relation: str
    object: str
    chance: float


class Likely(Placed):
    at: Time
    events: list[Event]


class Point(ResponseModel):
    at: Time
    chance: float


class ChanceCurve(Placed):
    points: list[Point]
    trusted_until: Time | None = Field(description="how far ahead the evaluation reaches; null: nothing was measured")
    base: float | None


class KnownFact(ResponseModel):
    subject: str
    relation: str
    object: str
    at: Time


class KnownFacts(Placed):
    facts: list[KnownFact]
    total: int = Field(description="of all facts that fit; limit cuts the list")


class Neighbour(ResponseModel):
    name: str
    facts: int
    last: Time
    relations: list[str]
    formed: bool
    dissolved: bool


class Neighbourhood(Placed):
    entity: str
    neighbours: list[Neighbour]


class ScoredFact(KnownFact):
    """A posted fact, with what was said of it before it was known."""

    rank: float
    chance: float


class Posted(Placed):
    added: int
    known: int = Field(description="facts of the post that were known before it")
    surprise: list[ScoredFact] = Field(description="the least expected of them")
    new_names: list[str] = Field([], description="the first names, of entities and relations, that nobody knew before")


class Surprise(ScoredFact):
    posted_at: str


class Surprises(Placed):
    surprises: list[Surprise]


class Bin(ResponseModel):
    said: float
    happened: float
    count: int


class AtTime(ResponseModel):
    at: Time
    mrr: float
    count: int


class Record(Placed):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    batches: int
    questions: int
    mrr: float | None = Field(description="in per cent, as the others")
    hits_at_1: float | None = Field(alias="hits@1")
    hits_at_10: float | None = Field(alias="hits@10")
    reliability: list[Bin]
    over_time: list[AtTime]


class Name(ResponseModel):
    name: str
    kind: Literal["entity", "relation"]
    facts: int


class Names(Placed):
    names: list[Name]


class Health(Placed):
    status: Literal["ok"]
    version: str
    uptime: float = Field(description="seconds since the start")


class Data(ResponseModel):
    facts: int
    entities: int
    relations: int
    first: Time
    last: Time
    unit: str


class Example(ResponseModel):
    subject: str
    relation: str
    at: Time


Figures = dict[str, dict[str, float]]  # part -> figure -> per cent


class Beside(ResponseModel):
    run: str
    model: str
    metrics: Figures


class Model(Placed):
    name: str
    run: str
    model: str
    data: Data
    trusted_until: Time | None
    example: Example
    chances: bool
    now: Time = Field(description="the last known time")
    next: Time = Field(description="the time asked about where none is given")
    metrics: Figures = Field(description="of the parts that the run was measured on, time-aware, in per cent")
    beside: Beside | None = Field(description="the second run, where one is served for comparison")
    write: bool = Field(description="whether this request may post facts")
