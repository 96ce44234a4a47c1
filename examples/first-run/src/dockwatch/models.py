"""What the program knows about the world."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    name: str
    docks: int
    bikes: int

    @property
    def free(self) -> int:
        return self.docks - self.bikes
