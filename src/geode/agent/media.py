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

from ..config.home import private_folder
from ..core.messages import Audio, Block, Image, Text, ToolResult
from ..models.model import Profile

__all__ = ["MAX_BYTES", "MAX_SIDE", "MediaFitter"]

MAX_SIDE = 1_568
"""Pixels of the longer side; providers reduce larger images themselves, after charging for them."""
MAX_BYTES = 3_500_000
"""Bytes of one image before base64; providers refuse more than about 5 MB of base64."""
_ENDINGS = {
    "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/svg+xml": "svg",
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/ogg": "ogg",
}  # fmt: skip


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
        told = _told_type(block.mime_type)
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return [Text(f"[{told}: not readable, its encoding is broken]")]
        # What is not the image it claims to be is refused by providers, in every later request too.
        found = _image_type(data) if isinstance(block, Image) else ""
        if found and self._profile.images:
            if len(data) <= MAX_BYTES and _longer_side(data) <= MAX_SIDE:
                return [block if found == block.mime_type else Image(block.data, found)]
            smaller = _reduced(data)
            if smaller is not None:
                kept = self._keep(data, found, name)
                return [smaller, Text(f"[reduced to {MAX_SIDE} pixels; the original {kept}]")]
        return [Text(f"[{told} {_size(len(data))} {self._keep(data, found or block.mime_type, name)}]")]

    def _keep(self, data: bytes, mime_type: str, name: str) -> str:
        """Write the file; says where it is, or why it is not."""
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:100]
        path = self._folder / f"{safe}.{_ENDINGS.get(mime_type, 'bin')}"
        try:
            private_folder(self._folder)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
        except OSError as error:
            return f"could not be kept: {error.strerror}"
        return f"saved at {path}"


def _told_type(mime_type: str) -> str:
    """A media type as one short word, whatever stands in it."""
    return "".join(c for c in mime_type if c.isascii() and (c.isalnum() or c in "/+.-"))[:60] or "media"


def _image_type(data: bytes) -> str:
    """The type of an image by its first bytes, "" when providers know none of it."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def _longer_side(data: bytes) -> int:
    """Pixels of the longer side; 0 when it cannot be told (Pillow is not there, an unknown format)."""
    try:
        from PIL import Image as Pillow
    except ImportError:
        return 0
    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            return max(picture.size)
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
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
    except (OSError, ValueError, SyntaxError, MemoryError, Pillow.DecompressionBombError):
        return None


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{max(1, round(count / 1_000))} KB"
