#!/bin/sh
# Write the hash-locked requirement files. They record no registry: hashes say what a file is, not where it came from.
#   run.txt    what `make run` installs (the core and every extra that a user gets)
#   dev.txt    run.txt plus what tests and checks need
#   build.txt  what builds Geode itself
set -eu
cd "$(dirname "$0")/.."
uv=$(command -v uv || echo .venv/bin/uv)
[ -x "$uv" ] || { echo "lock: uv is needed once to resolve versions; install it with: .venv/bin/pip install uv" >&2; exit 5; }

compile() {
    out=$1; shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -o "requirements/$out" "$@"
}
compile run.txt pyproject.toml --extra all ${UPGRADE:+--upgrade}
compile dev.txt pyproject.toml --extra all --extra dev --constraint requirements/run.txt ${UPGRADE:+--upgrade}
grep -v '^ *--hash' requirements/run.txt | grep -q 'file:\|://' && { echo "lock: an address got into run.txt" >&2; exit 1; }
printf 'hatchling\neditables\n' | "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
    -o requirements/build.txt ${UPGRADE:+--upgrade} -
