"""The licences of everything that Geode ships with: no copyleft that would reach a user's own program.

Reads the locked run set (requirements/run.txt) and what the installed packages say of themselves. GPL and AGPL fail,
also EUPL, SSPL and the like; LGPL and MPL are reported; a package that says nothing fails until it is looked at and
entered in KNOWN. Tools that only developers use are not shipped and not looked at.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DENIED = re.compile(r"\b(A?GPL|GNU (Affero )?General Public|EUPL|SSPL|OSL|CC-BY-(SA|NC)|Elastic|BUSL)", re.IGNORECASE)
WEAK = re.compile(r"\b(LGPL|GNU Lesser|GNU Library|MPL|Mozilla|EPL)", re.IGNORECASE)
# What a package's metadata leaves out or says wrongly, read from its licence file.
KNOWN: dict[str, str] = {}


def locked(path: Path) -> list[str]:
    """Return the names of the packages that a requirements file pins."""
    return re.findall(r"^([A-Za-z0-9][\w.-]*)==", path.read_text("utf-8"), re.MULTILINE)


def licence_of(name: str) -> str | None:
    """Return what an installed package says of its licence; "" when it says nothing, None when it is not installed."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if name in KNOWN:
        return KNOWN[name]
    if "License-Expression" in about:
        return about["License-Expression"]
    classified = [
        c.rsplit("::", 1)[-1].strip() for c in about.get_all("Classifier") or [] if c.startswith("License ::")
    ]
    if classified:
        return " OR ".join(classified)
    return about["License"].strip().partition("\n")[0] if "License" in about else ""


def judge(licence: str) -> str:
    """Return "denied", "weak", "unknown" or "fine". Of alternatives (`A OR B`) the freest counts: we may choose it."""
    if not licence or licence.upper() in {"UNKNOWN", "OSI APPROVED"}:
        return "unknown"
    order = ("fine", "weak", "denied")
    return min((_judge_one(part) for part in re.split(r"\s+OR\s+|/", licence, flags=re.IGNORECASE)), key=order.index)


def _judge_one(part: str) -> str:
    if WEAK.search(part):
        return "weak"
    return "denied" if DENIED.search(part) else "fine"


def main() -> int:
    bad = 0
    for name in locked(ROOT / "requirements" / "run.txt"):
        licence = licence_of(name)
        if licence is None:
            continue  # only for another platform
        verdict = judge(licence)
        if verdict != "fine":
            print(f"{verdict}: {name}: {licence or 'no licence stated'}")
        bad += verdict in {"denied", "unknown"}
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
