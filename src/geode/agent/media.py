"""Images in results, fitted to the model: reduced when too large, named with their file when it cannot see.

An image is one native block and never text (case R20). What is taken out of the conversation
is kept in a file, so that nothing is lost.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..core.messages import Audio, Block, Image, Text, ToolResult
from ..models.model import Profile

__all__ = ["MAX_BYTES", "MAX_SIDE", "MediaFitter"]

MAX_SIDE = 1_568
"""Pixels of the longer side; providers reduce larger images themselves, after charging for them."""
MAX_BYTES = 3_500_000
"""Bytes of one image before base64; providers refuse more than about 5 MB of base64."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


class MediaFitter:
    """Fits the media of results to one model.

    Args:
        profile: the model's.
        folder: where images and sounds that are taken out are kept (private files).
    """

    def __init__(self, profile: Profile, folder: Path) -> None:
        self._profile, self._folder = profile, folder

    def fit(self, result: ToolResult) -> ToolResult:
        """The same result with media that the model can take."""
        if not any(isinstance(b, Image | Audio) for b in result.content):
            return result
        content: list[Block] = []
        for number, block in enumerate(result.content):
            if isinstance(block, Image | Audio):
                content += self._fitted(block, f"{result.call_id}-{number}")
            else:
                content.append(block)
        return replace(result, content=tuple(content))

    def _fitted(self, block: Image | Audio, name: str) -> Sequence[Block]:
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return [Text(f"[{block.mime_type}: not readable, its encoding is broken]")]
        if isinstance(block, Image) and self._profile.images:
            if len(data) <= MAX_BYTES and _longer_side(data) <= MAX_SIDE:
                return [block]
            smaller = _reduced(data)
            if smaller is not None:
                kept = self._keep(data, block.mime_type, name)
                return [smaller, Text(f"[reduced to {MAX_SIDE} pixels; the original is at {kept}]")]
        kept = self._keep(data, block.mime_type, name)
        return [Text(f"[{block.mime_type} {_size(len(data))} saved at {kept}]")]

    def _keep(self, data: bytes, mime_type: str, name: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:100]
        path = self._folder / f"{safe}.{_ENDINGS.get(mime_type, mime_type.rpartition('/')[2][:8] or 'bin')}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        return path


def _longer_side(data: bytes) -> int:
    """Pixels of the longer side; 0 when it cannot be told (Pillow is not there, an unknown format)."""
    try:
        from PIL import Image as Pillow
    except ImportError:
        return 0
    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            return max(picture.size)
    except (OSError, ValueError, Pillow.DecompressionBombError):
        return 0


def _reduced(data: bytes) -> Image | None:
    """A smaller copy as PNG or JPEG, or None when it cannot be made."""
    try:
        from PIL import Image as Pillow
    except ImportError:
        return None
    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            picture.thumbnail((MAX_SIDE, MAX_SIDE))
            out = io.BytesIO()
            picture.save(out, "PNG")
            if out.tell() > MAX_BYTES:
                out = io.BytesIO()
                picture.convert("RGB").save(out, "JPEG", quality=85)
                return Image(base64.b64encode(out.getvalue()).decode(), "image/jpeg")
            return Image(base64.b64encode(out.getvalue()).decode(), "image/png")
    except (OSError, ValueError, Pillow.DecompressionBombError):
        return None


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{max(1, round(count / 1_000))} KB"
