#!/bin/sh
# Prepare everything that `make run` (setup.sh run) or `make test` and `make check` (setup.sh dev) need:
# a virtual environment in .venv with hash-checked packages, Geode itself, and two programs of the system.
# Does nothing when nothing changed since the last time. Reads no standard input.
set -eu
umask 022
cd "$(dirname "$0")/.."
want=${1:-run}
log=.venv/setup.log

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 5; }
is_root() { [ "$(id -u)" = 0 ]; }

debian_install() {
    say "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null 2>&1 && return 0
    apt-get update -qq </dev/null >/dev/null 2>&1 || true
    apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null
}

# --- programs of the system: bubblewrap contains every command, ripgrep searches files -------------------------------
system_programs() {
    [ "$(uname -s)" = Linux ] || { say "no sandbox for $(uname -s) yet: tools that start processes will refuse"; return 0; }
    missing=
    command -v bwrap >/dev/null 2>&1 || missing=bubblewrap
    command -v rg >/dev/null 2>&1 || missing="$missing ripgrep"
    [ -n "$missing" ] || return 0
    if is_root && command -v apt-get >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        debian_install $missing || die "could not install$missing; install them by hand and run make again"
    elif command -v bwrap >/dev/null 2>&1; then
        say "ripgrep is not installed (search falls back to Python); get it with: sudo apt-get install ripgrep"
    else
        die "please install what is missing, then run make again: sudo apt-get install ${missing# }"
    fi
}

# --- a Python that is new enough ---------------------------------------------------------------------------------------
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
find_python() {
    for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        command -v "$python" >/dev/null 2>&1 && new_enough "$python" && return 0
    done
    return 1
}
need_python() {
    find_python && return 0
    if is_root && command -v apt-get >/dev/null 2>&1; then debian_install python3 python3-venv || true; fi
    find_python || die "Geode needs Python 3.11 or newer; install one, or name it: make run PYTHON=/path/to/python3.12"
}

make_venv() {
    rm -rf .venv
    say "creating .venv with $("$python" --version 2>&1)"
    if [ -n "$uv" ]; then "$uv" venv --quiet --python "$python" .venv && return 0; fi
    "$python" -m venv .venv >/dev/null 2>&1 && return 0
    if is_root && command -v apt-get >/dev/null 2>&1; then
        debian_install python3-venv && "$python" -m venv .venv >/dev/null 2>&1 && return 0
    fi
    rm -rf .venv
    die "this Python has no venv module; on Debian: sudo apt-get install python3-venv"
}

install() { # install ARGS...: pip or uv, output to the terminal or to the log
    if [ -n "$uv" ]; then set -- "$uv" pip install --python .venv/bin/python --compile-bytecode "$@"
    else set -- .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@"; fi
    if [ -t 2 ]; then "$@" </dev/null >&2; else "$@" </dev/null >>"$log" 2>&1; fi
}

packages() {
    set -- -r requirements/build.txt -r "requirements/$want.txt"
    count=$(cat "requirements/$want.txt" requirements/build.txt | grep -c '^[a-z0-9].*==')
    say "installing up to $count Python packages, hash-checked (about a minute)"
    : >"$log"
    if ! install --require-hashes "$@"; then
        [ -t 2 ] || tail -n 3 "$log" >&2
        die "the packages could not be installed: is a package registry reachable? (details: $log)"
    fi
    install --no-deps --no-build-isolation -e . || { tail -n 5 "$log" >&2; die "Geode itself could not be installed (details: $log)"; }
}

case $want in run | dev) ;; *) say "usage: setup.sh run|dev"; exit 2 ;; esac
key=$(cat requirements/build.txt "requirements/$want.txt" pyproject.toml scripts/setup.sh | cksum)
system_programs
if .venv/bin/python -c '' 2>/dev/null; then
    [ "$(cat ".venv/.done-$want" 2>/dev/null)" = "$key" ] && exit 0
    # dev.txt holds everything of run.txt, at the same versions
    [ "$want" = run ] && [ "$(cat .venv/.done-dev 2>/dev/null)" = "$(cat requirements/build.txt requirements/dev.txt pyproject.toml scripts/setup.sh | cksum)" ] && exit 0
fi
uv=$(command -v uv || true)
export UV_PYTHON_DOWNLOADS=never
if ! { .venv/bin/python -c '' && new_enough .venv/bin/python && { [ -n "$uv" ] || .venv/bin/python -c 'import pip'; }; } 2>/dev/null; then
    need_python
    make_venv
fi
packages
printf '%s\n' "$key" >".venv/.done-$want"
say "ready"
