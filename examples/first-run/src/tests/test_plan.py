from dockwatch.models import Station
from dockwatch.plan import next_trip


def test_the_van_goes_from_the_fullest_to_the_emptiest():
    stations = [Station("A", 10, 10), Station("B", 10, 1), Station("C", 10, 5)]
    assert next_trip(stations) == ("A", "B", 5)
