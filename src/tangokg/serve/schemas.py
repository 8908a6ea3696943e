"""What requests hold: checked by pydantic before anything else looks at it, and shown in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

FACTS, SUPPOSED, QUESTIONS = 10_000, 100, 1000  # at most, in one request

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Text = Annotated[StrictStr, StringConstraints(min_length=1, max_length=40)]
At = Text | StrictInt | StrictFloat
Top = Annotated[int, Field(ge=1, le=1000)]
Position = Annotated[int, Field(ge=0, le=2**53)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(Strict):
    subject: Name
    relation: Name
    object: Name
    at: At


class Question(Strict):
    """One of subject, relation and object may be null: it is asked for. With all three the answer is yes or no."""

    subject: Name | None = None
    relation: Name | None = None
    object: Name | None = None
    at: At | None = Field(default=None, description="the time asked about; null: one usual gap after the last fact")
    by: At | None = Field(default=None, description="instead of at: at least once from the last fact until then")
    top: Top = 10
    why: StrictBool = False
    min_position: Position | None = Field(default=None, description="wait until the journal is so far")
    suppose: list[Fact] = Field(default_factory=list, max_length=SUPPOSED, description="facts taken as true, not kept")


class Questions(Strict):
    questions: list[Question] = Field(min_length=1, max_length=QUESTIONS)


class Curve(Strict):
    subject: Name
    relation: Name
    object: Name | None = None
    since: At | None = None
    until: At | None = None
    points: Annotated[int, Field(ge=2, le=200)] = 30


class Facts(Strict):
    facts: list[Fact] = Field(min_length=1, max_length=FACTS)
