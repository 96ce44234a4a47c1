"""Decides the next trip of the van."""

from .models import Station

VAN_CAPACITY = 14


def next_trip(stations: list[Station]) -> tuple[str, str, int]:
    """From the fullest to the emptiest station, as many bikes as the van takes."""
    full = min(stations, key=lambda s: s.free)
    empty = max(stations, key=lambda s: s.free)
    # TODO: a station that is about to be full counts as full
    return full.name, empty.name, min(VAN_CAPACITY, full.bikes // 2, empty.free)
