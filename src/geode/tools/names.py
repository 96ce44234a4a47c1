"""Names that are nearly right: what they must mean, and what they might have meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["closest_names", "plain_name"]

_WRAPPERS = ("functions", "function", "default_api", "tools", "tool", "multi_tool_use")
"""What models put in front of a tool's name, with `.`, `:` or `/`."""
_WRAPPED = re.compile(rf"^(?:{'|'.join(_WRAPPERS)})\s*[.:/]\s*", re.IGNORECASE)


def _stripped(raw: str) -> str:
    name = raw.strip().strip("`'\"").strip()
    name = name.removesuffix("()")
    return _WRAPPED.sub("", name, count=1).strip()


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def plain_name(raw: str, names: Sequence[str]) -> str | None:
    """The one name in `names` that `raw` spells, apart from blanks, quotes, wrapper, case and `-`/`_`."""
    name = _stripped(raw)
    if not name:
        return None
    if name in names:
        return name
    folded = _folded(name)
    found = [n for n in names if _folded(n) == folded]
    return found[0] if len(found) == 1 else None


def _words(name: str) -> frozenset[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return frozenset(w for w in re.split(r"[^a-z0-9]+", spaced.casefold()) if w)


def closest_names(name: str, names: Sequence[str], limit: int = 3) -> tuple[str, ...]:
    """Up to `limit` similar names, best first: same last part, shared words, similar letters."""
    wanted = _folded(_stripped(name)[:200])
    last = re.split(r"[.:/\s]+|__", wanted)[-1]
    words = _words(wanted)
    if not wanted:
        return ()
    scored: list[tuple[float, str]] = []
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    for candidate in names:
        folded = _folded(candidate)
        bare = folded.rsplit("__", 1)[-1]
        mine = _words(folded)
        shared = len(words & mine) / max(len(words | mine), 1)
        score = 1.0 if last and last in (bare, folded) else shared
        if score < 1.0:
            matcher.set_seq1(bare if "__" not in wanted else folded)
            if matcher.real_quick_ratio() > max(score, 0.6) and matcher.quick_ratio() > max(score, 0.6):
                score = max(score, matcher.ratio())
        if score >= 0.5:
            scored.append((score, candidate))
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return tuple(candidate for _, candidate in scored[:limit])
