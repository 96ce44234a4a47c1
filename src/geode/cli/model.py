"""Which model a front talks to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.model import Model

__all__ = ["close", "open_chosen"]


async def open_chosen(spec: str | None) -> Model:
    """The model that was asked for, or the one that is found here.

    Raises:
        ModelUnavailable: there is none; says how to get one.
        UsageError: `spec` names none.
    """
    from ..models.choose import open_model

    return await open_model(spec, os.environ)


async def close(model: Model) -> None:
    """Let a model end its connections, when it has any."""
    end = getattr(model, "aclose", None)
    if end is not None:
        await end()
