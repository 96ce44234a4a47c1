"""Reads the stations from a CSV file."""

import csv
from pathlib import Path

from .models import Station


def load(path: Path) -> list[Station]:
    with path.open(newline="", encoding="utf-8") as stream:
        rows = csv.DictReader(stream)
        # TODO: report the line of a broken number
        return [Station(r["name"], int(r["docks"]), int(r["bikes"])) for r in rows]
