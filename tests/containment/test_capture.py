"""Output: bounded, whole on disk, readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geode.containment.capture import HEAD, KEEP, TAIL, Collector, readable, sweep_spool


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m plain", "red plain"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;never ended\nnext line", "\nnext line"),
        (b"10%\r50%\r100%\ndone", "100%\ndone"),
        (b"line\r\nnext\r\n", "line\nnext\n"),
        (b"working\r\n", "working\n"),
        (b"progress\r", "progress"),
        (b"a\x00b\x07c", "abc"),
        (b"bo\x08old", "bold"),
        (b"caf\xff ok, plain text", "caf\ufffd ok, plain text"),
        ("한국어 ✓\n".encode(), "한국어 ✓\n"),
        (b"\x1b", ""),
        (b"\x1b[", ""),
        (b"", ""),
    ],
)
def test_R94_escapes_redraws_and_controls_are_removed(raw: bytes, text: str) -> None:
    assert readable(raw) == text


def test_R94_coloured_logs_and_progress_bars_collapse() -> None:
    raw = b"".join(b"\x1b[32mline %d\x1b[0m\n" % n for n in range(500)) + b"".join(
        b"\r%d%%" % (n // 10) for n in range(1000)
    )
    lines = readable(raw).split("\n")
    assert lines[:2] == ["line 0", "line 1"]
    assert lines[-1] == "99%"
    assert len(lines) == 501


def test_R94_binary_output_is_summarised() -> None:
    assert readable(bytes(range(256)) * 40) == "<10240 bytes binary>"


@given(st.binary(max_size=400))
def test_reading_never_fails_and_leaves_no_controls(raw: bytes) -> None:
    text = readable(raw)
    text.encode("utf-8")
    assert "\x1b" not in text
    assert "\x00" not in text


@pytest.mark.timeout(30)  # a step that is not linear takes minutes here
def test_hostile_output_ends() -> None:
    for raw in (b"a" * 130_000 + b"\x08" * 130_000, b"\x1b[" * 130_000, b"\x1b]" * 130_000, b"\r" * 260_000):
        readable(raw)


def test_R68_a_character_split_over_two_reads_stays_whole(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    for byte in "가나다 🙂".encode():
        collector.feed(bytes([byte]))
    collector.feed(b"\xff\xfe end")
    assert collector.finish().text == "가나다 🙂\ufffd\ufffd end"


@pytest.mark.parametrize("unit", [b"x" * 79 + b"\n", "한글".encode(), b"y"])
def test_R51_large_output_keeps_head_tail_counts_and_the_whole_file(tmp_path: Path, unit: bytes) -> None:
    spool = tmp_path / "spool"
    collector = Collector(spool)
    body = unit * (5 * 1024 * 1024 // len(unit))
    whole = "첫 줄\n".encode() + body + b"\nERROR: the last line\n"
    for start in range(0, len(whole), 50_001):
        collector.feed(whole[start : start + 50_001])
    captured = collector.finish()
    assert captured.total_bytes == len(whole)
    assert captured.total_lines == whole.count(b"\n")
    assert captured.spool is not None
    assert captured.spool.read_bytes() == whole
    assert captured.spool.stat().st_mode & 0o777 == 0o600
    assert captured.text.startswith("첫 줄\n")
    assert captured.text.endswith("ERROR: the last line\n")
    assert "\ufffd" not in captured.text
    assert len(captured.text.encode()) < HEAD + TAIL + 200
    head, rest = captured.text.split("\n[... ", 1)
    omitted = int(rest.split(" ", 1)[0])
    tail = rest.split("...]\n", 1)[1]
    assert omitted == captured.omitted_bytes
    shown = len(head.encode()) + len(tail.encode())
    assert len(whole) - omitted - shown in (0, 1)  # the line end before the note


def test_small_output_is_whole_and_leaves_no_file(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "spool")
    collector.feed(b"x" * KEEP)
    captured = collector.finish()
    assert captured.spool is None
    assert len(captured.text) == KEEP
    assert not (tmp_path / "spool").exists()


def test_a_spool_that_cannot_be_written_is_reported_and_the_rest_survives(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    collector = Collector(tmp_path / "file" / "spool")
    collector.feed(b"first\n" + b"x" * (KEEP + 10) + b"\nlast\n")
    captured = collector.finish()
    assert captured.spool is None
    assert "could not be kept" in captured.text
    assert captured.text.endswith("last\n")


def test_spool_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    (tmp_path / "999999999-ab.out").write_text("x")
    (tmp_path / "1-ab.out").write_text("x")
    assert sweep_spool(tmp_path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["1-ab.out"]
