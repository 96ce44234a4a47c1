#!/bin/sh
# Everything a reader may rely on without running the program. Runs all checks, then fails if one did.
set -u
cd "$(dirname "$0")/.."
bin=.venv/bin
failed=
step() {
    name=$1; shift
    printf '== %s\n' "$name"
    "$@" || failed="$failed $name"
}
step lint "$bin/ruff" check --quiet .
step format "$bin/ruff" format --check --quiet .
step types "$bin/basedpyright" --level error --pythonpath "$bin/python"
step floors "$bin/lint-imports" --no-cache
step sizes "$bin/python" scripts/check_sizes.py
step licences "$bin/python" scripts/check_licences.py
[ -z "$failed" ] || { printf 'check: failed:%s\n' "$failed" >&2; exit 1; }
echo "check: all fine"
