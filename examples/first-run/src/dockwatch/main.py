"""Prints the next trip."""

import sys
from pathlib import Path

from .load import load
from .plan import next_trip


def main() -> None:
    source, target, count = next_trip(load(Path(sys.argv[1])))
    print(f"{count} bikes from {source} to {target}")


if __name__ == "__main__":
    main()
