"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """Frozen, and strict about types: `8` is no text, `"8"` and `true` are no numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


PositiveInt = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
AwsId = Annotated[str, Field(pattern=r"^[a-z]+-[0-9a-f]{8,17}$")]
Version = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
"""A published model: the 16 hexadecimal digits in `weights/<workload>/<version>/`."""
