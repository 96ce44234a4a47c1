#!/bin/sh
# test.sh fast|slow [pytest arguments]
# fast: everything not marked slow; then, under other conditions, a part of it and the first run.
# slow: what is marked slow; finding none is not a failure.
set -eu
cd "$(dirname "$0")/.."
kind=$1; shift
py=.venv/bin/python
export PYTHONPATH=

# What is run again where rights or the network matter. Kept small: the whole has to stay within 8 minutes.
AS_USER="tests/containment tests/gate tests/packs tests/store/test_bad_places.py"
OFFLINE="tests/discovery tests/gate tests/packs tests/runtime"

again() { # again NAME OPTION PATHS: a part of the suite, then the first run, under other conditions
    name=$1 option=$2; shift 2
    printf '\n== %s: %s and the first run\n' "$name" "$*"
    if ! "$py" scripts/confined.py "$option" -- true; then
        echo "skipped: this machine cannot do it"
        [ -z "${CI:-}" ] || exit 1
        return 0
    fi
    "$py" scripts/confined.py "$option" -- "$py" -m pytest -q -n 2 -m "not slow" -p no:cacheprovider "$@" </dev/null
    said=$("$py" scripts/confined.py "$option" -- "$py" examples/first-run/run.py --json </dev/null) || { echo "$said"; exit 1; }
    echo "the first run behaved"
}

case $kind in
fast)
    "$py" -m pytest -q -n 2 -m "not slow" "$@" </dev/null
    [ "$*" = tests ] || exit 0
    # shellcheck disable=SC2086
    [ "$(id -u)" != 0 ] || again "as an ordinary user" --user $AS_USER
    # shellcheck disable=SC2086
    again "with the network cut" --offline $OFFLINE
    ;;
slow)
    status=0
    "$py" -m pytest -q -m slow "$@" </dev/null || status=$?
    if [ "$status" = 5 ]; then echo "no slow tests yet"; status=0; fi
    exit "$status"
    ;;
*) echo "usage: test.sh fast|slow [pytest arguments]" >&2; exit 2 ;;
esac
