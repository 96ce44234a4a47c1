#!/bin/sh
# Prints the plan once a minute. TODO: stop when the file has not changed for an hour.
while true; do
    python -m dockwatch.main data/stations.csv
    sleep 60
done
