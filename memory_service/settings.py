"""What memory_service may be told."""

from pydantic import Field

from service_kit.settings import Settings as Common


class Settings(Common):
    """Settings of memory_service."""

    memory_default_provider: str = Field(
        default="native", description="Provider of a root memory that names none."
    )
    memory_reconcile_s: float = Field(
        default=300.0, gt=0, description="Seconds between passes that mend what a crash left half done."
    )
