#!/bin/sh
# test.sh fast|slow [pytest arguments]
# fast: everything not marked slow, then a part again as an ordinary user and a part with the network cut.
# slow: what is marked slow; finding none is not a failure.
set -eu
cd "$(dirname "$0")/.."
kind=$1; shift
py=.venv/bin/python
export PYTHONPATH=
existing() { for folder in "$@"; do [ -z "$(find "tests/$folder" -name 'test_*.py' 2>/dev/null)" ] || printf 'tests/%s ' "$folder"; done; }
partly() { # partly NAME OPTION FOLDERS: a part of the suite under other conditions
    name=$1 option=$2; shift 2
    [ $# -gt 0 ] || return 0
    printf '\n== %s: %s\n' "$name" "$*"
    status=0
    "$py" scripts/confined.py "$option" -- "$py" -m pytest -q -n 2 -m "not slow" -p no:cacheprovider "$@" </dev/null || status=$?
    [ "$status" != 77 ] || { echo "skipped on this machine ($name)"; [ -z "${CI:-}" ] || exit 1; return 0; }
    [ "$status" = 0 ] || exit "$status"
}

case $kind in
fast)
    "$py" -m pytest -q -n 2 -m "not slow" "$@" </dev/null
    [ "$*" = tests ] || exit 0
    # shellcheck disable=SC2046
    [ "$(id -u)" != 0 ] || partly "as an ordinary user" --user $(existing containment gate packs runtime store)
    # shellcheck disable=SC2046
    partly "with the network cut" --offline $(existing discovery gate gateway runtime)
    ;;
slow)
    status=0
    "$py" -m pytest -q -m slow "$@" </dev/null || status=$?
    if [ "$status" = 5 ]; then echo "no slow tests yet"; status=0; fi
    exit "$status"
    ;;
*) echo "usage: test.sh fast|slow [pytest arguments]" >&2; exit 2 ;;
esac
