"""No source file over 500 lines: a file is one concept, and a concept fits in one reading.

Exit code 1 and one line per file when the rule is broken.
"""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 500
ROOT = Path(__file__).resolve().parent.parent


def too_long(root: Path, limit: int = LIMIT) -> list[tuple[Path, int]]:
    """Return the Python files under `root` with more than `limit` lines, with their number of lines."""
    counted = ((path, len(path.read_text("utf-8").splitlines())) for path in sorted(root.rglob("*.py")))
    return [(path, lines) for path, lines in counted if lines > limit]


def main() -> int:
    found = too_long(ROOT / "src")
    for path, lines in found:
        print(f"{path.relative_to(ROOT)}: {lines} lines, at most {LIMIT}: split it by concept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
