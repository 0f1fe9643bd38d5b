"""What requests and answers look like."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from peerveil.core.text import on_one_line

LONGEST: int = 200_000


class Post(BaseModel):
    """A new post. Who wrote it is known from the token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    thread: Annotated[str, Field(min_length=1, max_length=200, description="Where it belongs: a paper, a topic.")]
    content: Annotated[str, Field(min_length=1, max_length=LONGEST, description="The text, as readers will see it.")]
    reply_to: Annotated[
        str | None,
        Field(
            max_length=64,
            description="The public id of a post, or the receipt of a held post of yours; it then appears after that one.",
        ),
    ] = None
    batch: Annotated[
        bool,
        Field(
            description="More will follow within the sitting. Counts in spaces with declared sittings; changes nothing "
            "elsewhere."
        ),
    ] = False

    @field_validator("thread", "reply_to")
    @classmethod
    def _on_one_line(cls, value: str | None) -> str | None:
        if value is not None and not on_one_line(value):
            raise ValueError("one line without control characters")
        return value

    @field_validator("content")
    @classmethod
    def _storable(cls, value: str) -> str:
        return storable(value)


class Change(BaseModel):
    """Another text for a post that is still held."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[str, Field(min_length=1, max_length=LONGEST)]

    @field_validator("content")
    @classmethod
    def _storable(cls, value: str) -> str:
        return storable(value)


class Taken(BaseModel):
    """A post was taken, durably. It appears at some time within the longest delay."""

    receipt: Annotated[str, Field(description="For you alone: to edit, withdraw or ask. It is not the public id.")]
    longest_delay: Annotated[int, Field(description="Seconds. The same for all posts on a thread, whatever was drawn.")]


class State(BaseModel):
    """Where a post of yours is: held, posted or withdrawn."""

    state: str


class FeedItem(BaseModel):
    """A post as readers see it."""

    id: str
    thread: str
    content: str
    reply_to: str | None
    posted_at: Annotated[str, Field(description="A moment of the space's time grid.")]


class Feed(BaseModel):
    """A part of the feed, and the cursor behind it."""

    items: list[FeedItem]
    next: str


class Health(BaseModel):
    """Whether the gateway takes and releases posts."""

    status: str


def storable(value: str) -> str:
    """Text that every database can hold."""
    if "\0" in value:
        raise ValueError("text without the character NUL")
    return value
