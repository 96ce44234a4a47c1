"""Images: one native block, reduced when too large, a file when the model cannot see."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import pytest

from geode.agent.media import MAX_SIDE, MediaFitter
from geode.core.messages import Audio, Image, Status, Text, ToolResult
from geode.models.model import Profile

Pillow = pytest.importorskip("PIL.Image")


def picture(width: int, height: int) -> Image:
    out = io.BytesIO()
    Pillow.frombytes("RGB", (width, height), os.urandom(width * height * 3)).save(out, "PNG")
    return Image(base64.b64encode(out.getvalue()).decode(), "image/png")


def result(*content: Text | Image | Audio) -> ToolResult:
    return ToolResult(call_id="toolu_1/../x", tool="t", status=Status.OK, content=content)


def profile(images: bool) -> Profile:
    return Profile(provider="p", name="m", images=images)


def test_R20_an_image_that_fits_stays_as_it_is(tmp_path: Path) -> None:
    given = result(Text("a chart"), picture(100, 80))
    assert MediaFitter(profile(True), tmp_path).fit(given) == given
    assert list(tmp_path.iterdir()) == []


def test_R20_a_model_that_cannot_see_gets_the_place_of_the_file_and_no_base64(tmp_path: Path) -> None:
    image = picture(300, 300)
    fitted = MediaFitter(profile(False), tmp_path / "media").fit(result(Text("a chart"), image))
    assert all(isinstance(b, Text) for b in fitted.content)
    assert "image/png" in fitted.text and "saved at" in fitted.text and image.data[:100] not in fitted.text
    (kept,) = (tmp_path / "media").iterdir()
    assert kept.read_bytes() == base64.b64decode(image.data) and kept.stat().st_mode & 0o077 == 0
    assert str(kept) in fitted.text


def test_R20_an_image_over_the_limit_is_reduced_and_the_original_kept(tmp_path: Path) -> None:
    fitted = MediaFitter(profile(True), tmp_path).fit(result(picture(2_400, 900)))
    image, note = fitted.content
    assert isinstance(image, Image) and isinstance(note, Text) and "original" in note.text
    with Pillow.open(io.BytesIO(base64.b64decode(image.data))) as reduced:
        assert max(reduced.size) == MAX_SIDE
    assert len(list(tmp_path.iterdir())) == 1


def test_a_sound_becomes_a_file_and_a_broken_encoding_is_said(tmp_path: Path) -> None:
    sound = Audio(base64.b64encode(b"RIFFxxxx").decode(), "audio/wav")
    fitted = MediaFitter(profile(True), tmp_path).fit(result(sound, Image("%%%", "image/png")))
    assert "audio/wav" in fitted.text and "broken" in fitted.text
