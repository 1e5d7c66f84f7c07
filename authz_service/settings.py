"""What authz_service may be told."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from service_kit.settings import Settings as Common
from service_kit.settings import SettingsError


class Settings(Common):
    """Settings of authz_service."""

    passport_signing_key_file: Path | None = Field(
        default=None, description="Private JWK that passports are signed with. Only this service has it."
    )
    authz_bootstrap_file: Path | None = Field(
        default=None,
        description="JSON with the first administrator's and the services' tokens, made valid at start.",
    )
    authz_root_creation: Literal["any", "admin"] = Field(
        default="any", description="Who may create a root memory: any principal, or only the scope `admin`."
    )

    def signing_key_file(self) -> Path:
        """``passport_signing_key_file``, which must be set."""
        if self.passport_signing_key_file is None:
            raise SettingsError(f"{self.variable('passport_signing_key_file')} is not set")
        return self.passport_signing_key_file
