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

    authz_replica: bool = Field(
        default=True,
        description="Hold the tree in memory, up to date with the database at every read, and decide there."
        " Takes two reading connections.",
    )
    authz_replica_max_nodes: int = Field(
        default=2_000_000,
        ge=0,
        description="Most memories held so (about 300 bytes each); of more than these, rows are read.",
    )

    oidc_issuer: str | None = Field(
        default=None,
        description="OIDC issuer whose JWTs are taken as credentials: its `iss`, an https URL. Unset: none.",
    )
    oidc_audience: str | None = Field(
        default=None, description="What a JWT has to name in `aud`: this server, as the issuer calls it."
    )
    oidc_jwks_url: str | None = Field(
        default=None, description="Where the issuer's keys are. Unset: what its discovery document says."
    )
    oidc_algorithms: str = Field(
        default="RS256,ES256",
        description="Signature algorithms that are taken, comma-separated: `RS…`, `PS…`, `ES…`, `EdDSA`, `Ed25519`.",
    )
    oidc_person_claim: str = Field(default="sub", min_length=1, description="Claim that names the person.")
    oidc_groups_claim: str = Field(default="groups", min_length=1, description="Claim that lists its groups.")
    oidc_admin_group: str | None = Field(
        default=None,
        description="Group of that claim whose members get the scope `admin`. Unset: no JWT gives it.",
    )
    oidc_leeway_s: float = Field(
        default=30.0, ge=0, le=300, description="How far the issuer's clock may be from this one."
    )
    oidc_timeout_s: float = Field(
        default=5.0, gt=0, le=9, description="Longest wait for the issuer to say which keys it has."
    )
    oidc_jwks_ttl_s: float = Field(
        default=300.0, ge=1, description="Fetch the issuer's keys again when they are this old."
    )
    oidc_jwks_max_age_s: float = Field(
        default=21_600.0,
        ge=1,
        description="Trust keys no longer than this while the issuer cannot be reached.",
    )
    oidc_unknown_key_s: float = Field(
        default=30.0, gt=0, description="Ask the issuer for a key that is not known no more often than this."
    )

    def signing_key_file(self) -> Path:
        """``passport_signing_key_file``, which must be set."""
        if self.passport_signing_key_file is None:
            raise SettingsError(f"{self.variable('passport_signing_key_file')} is not set")
        return self.passport_signing_key_file
