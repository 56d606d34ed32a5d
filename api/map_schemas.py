"""The shape of the map of speakers."""

from dataclasses import asdict

from pydantic import BaseModel, Field

from api.schemas import EXAMPLE_ID
from store.types import Chart


class MapPointOut(BaseModel):
    """A speaker's place, in the unit of the vectors: who is far apart here is at least as far apart there."""

    speaker_id: str = Field(examples=[EXAMPLE_ID])
    name: str = Field(examples=["Ada"])
    x: float
    y: float
    cosine: float | None = Field(description="To the chosen speaker; null where none was chosen.")


class MapOut(BaseModel):
    """Speakers of one encoder on a plane; the same speakers always give the same map."""

    encoder_id: str
    total: int = Field(description="How many speakers this encoder has; where more than there are points, a sample.")
    explained: tuple[float, float] = Field(description="Each axis' share of how the speakers differ.")
    points: list[MapPointOut]

    @classmethod
    def of(cls, chart: Chart) -> "MapOut":
        points = [MapPointOut(**asdict(point)) for point in chart.points]
        return cls(encoder_id=chart.encoder_id, total=chart.total, explained=chart.explained, points=points)
