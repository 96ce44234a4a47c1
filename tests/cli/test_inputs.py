"""Input from the command line: strict JSON, files, stdin, times."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from geode.cli.inputs import arguments_from, moment, parse_object
from geode.core.errors import UsageError


def test_arguments_come_from_text_file_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.json"
    path.write_bytes('\ufeff{"path": "가"}'.encode())
    assert arguments_from('{"a": [1, null]}') == {"a": [1, None]}
    assert arguments_from(f"@{path}") == {"path": "가"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 2}'), encoding="ascii"))
    assert arguments_from("-") == {"b": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("{", "line 1 column 2"),
        ('{\n "a": 1,,}', "line 2 column"),
        ("[]", "a JSON array"),
        ("null", "a JSON null"),
        ("7", "a JSON number"),
        ('{"a": NaN}', "NaN is not a JSON value"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice'),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        ("{'a': 1}", "not valid JSON"),
    ],
)
def test_what_is_not_a_json_object_is_refused(text: str, said: str):
    with pytest.raises(UsageError) as caught:
        parse_object(text, "--args")
    assert said in caught.value.message
    assert caught.value.fix


def test_unreadable_files_say_why(tmp_path: Path):
    binary = tmp_path / "b.json"
    binary.write_bytes(b'{"a": "\xff\xfe"}')
    for source, said in (
        (f"@{tmp_path}/none.json", "does not exist"),
        (f"@{tmp_path}", "is a directory"),
        (f"@{binary}", "not UTF-8"),
        ("@", "is a directory"),
        ("@\0", "cannot read"),
    ):
        with pytest.raises(UsageError) as caught:
            arguments_from(source)
        assert said in caught.value.message


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_says_so(tmp_path: Path):
    path = tmp_path / "a.json"
    path.touch(mode=0o000)
    with pytest.raises(UsageError, match="Permission denied"):
        arguments_from(f"@{path}")


def test_times_are_ago_dates_or_iso():
    now = datetime.now(UTC)
    assert abs(moment("2h") - (now - timedelta(hours=2))) < timedelta(seconds=5)
    assert moment("2026-11-30T08:00+00:00") == datetime(2026, 11, 30, 8, tzinfo=UTC)
    assert moment("2026-11-30").tzinfo is UTC
    for text in ("", "yesterday", "999999w", "0000-01-01", "2h3m"):
        with pytest.raises(UsageError):
            moment(text)
