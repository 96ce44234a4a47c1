#!/bin/sh
# confined.sh [--user] [--offline] -- COMMAND...
# Run a command as an ordinary user without a name, a group or a home of the real system (--user; needs root), and/or
# without any network but loopback (--offline). Folders that only root may enter are replaced by empty ones, with this
# project and its Python put back. Exits 77 when this machine cannot do it.
set -eu
uid=64321
root=$(cd "$(dirname "$0")/.." && pwd)
user= offline=
while [ $# -gt 0 ]; do
    case $1 in
    --user) user=1 ;;
    --offline) offline=1 ;;
    --) shift; break ;;
    *) echo "usage: confined.sh [--user] [--offline] -- COMMAND..." >&2; exit 2 ;;
    esac
    shift
done
command -v bwrap >/dev/null 2>&1 || { echo "confined: bubblewrap is not installed" >&2; exit 77; }

if [ -n "$user" ]; then
    [ "$(id -u)" = 0 ] || { echo "confined: only root can become another user" >&2; exit 77; }
    home=$(mktemp -d /tmp/geode-user.XXXXXX)
    trap 'rm -rf "$home"' EXIT
    mkdir "$home/tmp"
    chown -R "$uid:$uid" "$home"
    set -- env -i HOME="$home" TMPDIR="$home/tmp" PATH="$root/.venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 \
        PYTHONDONTWRITEBYTECODE=1 CI="${CI:-}" setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all --bounding-set=-all "$@"
fi
set -- --chdir "$root" "$@"
[ -z "$offline" ] || set -- --unshare-net "$@"
if [ -n "$user" ]; then
    for path in "$root" "$("$root/.venv/bin/python" -c 'import sys; print(sys.base_prefix)')"; do
        set -- --ro-bind "$path" "$path" "$@"
        up=$path closed=
        while [ "$up" != / ]; do
            case $(stat -c %A "$up") in *x | *t) ;; *) closed=$up ;; esac
            up=$(dirname "$up")
        done
        [ -z "$closed" ] || [ "$closed" = "$path" ] || set -- --perms 0755 --tmpfs "$closed" "$@"
    done
fi
status=0
bwrap --dev-bind / / "$@" || status=$?
exit "$status"
