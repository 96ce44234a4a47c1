"""The common form of a measurement: figures beside their targets, and facts."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "document"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `relation` is "<=" or ">=": how it has to stand to the target."""

    name: str
    value: float
    unit: str
    target: float
    relation: str = "<="

    @property
    def ok(self) -> bool:
        return self.value <= self.target if self.relation == "<=" else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "target": self.target,
            "relation": self.relation,
            "ok": self.ok,
        }


def document(bench: str, figures: Sequence[Figure], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The `geode bench` document, with the machine it was measured on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    machine = {"cores": os.cpu_count(), "load_1m": round(load, 2), "python": platform.python_version()}
    return {
        "bench": bench,
        "ok": all(f.ok for f in figures),
        "figures": [f.to_json() for f in figures],
        "facts": {**facts, "machine": machine},
    }
