"""Files (UHP, Files)."""

from typing import Literal

from gateway.schemas.base import UNSET, Answer, Ask, UnsetType, Whole

__all__ = ["ReadContent", "UploadForm", "UploadedFile"]


class UploadedFile(Answer, kw_only=True, frozen=True):
    """A file as it was uploaded. ``created_at`` is in unix seconds; ``media_type`` is what its bytes say."""

    id: str
    object: Literal["file"] = "file"
    filename: str
    bytes: int
    created_at: int
    media_type: str
    purpose: str | UnsetType = UNSET


class UploadForm(Ask, kw_only=True, frozen=True):
    """The parts of an upload's multipart body."""

    file: bytes
    purpose: str | None = None


class ReadContent(Ask, kw_only=True, frozen=True):
    """Of which version of the record; the latest when absent."""

    version: Whole | None = None
