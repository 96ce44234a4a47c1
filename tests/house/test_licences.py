"""The licence check tells what we may ship from what we may not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

check = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/check_licences.py"))


@pytest.mark.parametrize(
    ("licence", "verdict"),
    [
        ("MIT", "fine"),
        ("Apache-2.0", "fine"),
        ("BSD License", "fine"),
        ("Python Software Foundation License", "fine"),
        ("GPL-3.0-or-later", "denied"),
        ("GNU General Public License v3 (GPLv3)", "denied"),
        ("GNU Affero General Public License v3", "denied"),
        ("AGPL-3.0", "denied"),
        ("AGPLv3+", "denied"),
        ("EUPL-1.2", "denied"),
        ("Elastic-2.0", "denied"),
        ("GNU Lesser General Public License v3 (LGPLv3)", "weak"),
        ("LGPL-3.0-only", "weak"),
        ("Mozilla Public License 2.0 (MPL 2.0)", "weak"),
        ("MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later", "weak"),
        ("Apache-2.0 OR GPL-3.0", "fine"),
        ("MIT AND GPL-3.0", "denied"),
        ("", "unknown"),
        ("UNKNOWN", "unknown"),
    ],
)
def test_a_licence_is_judged_as(licence: str, verdict: str) -> None:
    assert check["judge"](licence) == verdict


def test_names_are_read_from_a_lock_file_with_markers_and_hashes(tmp_path: Path) -> None:
    lock = tmp_path / "run.txt"
    lock.write_text(
        "# made\na-b==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:00\nc_d==2 \\\n    --hash=sha256:11\n"
    )
    assert check["locked"](lock) == ["a-b", "c_d"]


def test_a_package_that_is_not_installed_has_no_licence_to_judge() -> None:
    assert check["licence_of"]("no-such-package-here") is None
