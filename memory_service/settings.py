"""What memory_service may be told."""

from pathlib import Path

from pydantic import Field

from service_kit.settings import ObjectSettings


class Settings(ObjectSettings):
    """Settings of memory_service."""

    memory_default_provider: str = Field(
        default="native", description="Provider of a root memory that names none."
    )
    files_keep_hours: int = Field(
        default=48,
        ge=1,
        le=24 * 365,
        description="How long an uploaded file is there to be named; what records name stays with them.",
    )
    types_file: Path | None = Field(
        default=None, description="JSON file with types of records (docs/types.md); read at start."
    )
    files_room_count: int = Field(
        default=10_000,
        ge=1,
        description="Uploads that are kept of one principal at a time; one more is refused (429 `quota_exhausted`).",
    )
    files_room_bytes: int = Field(
        default=8 * 1024**3,
        ge=1024,
        description="Bytes of uploads that are kept of one principal. One under way counts with the most it may have.",
    )
    memory_consolidate_s: float = Field(
        default=60.0,
        gt=0,
        description="Seconds between the times providers are asked which memories are due for consolidation.",
    )
    memory_reconcile_s: float = Field(
        default=300.0, gt=0, description="Seconds between passes that mend what a crash left half done."
    )
