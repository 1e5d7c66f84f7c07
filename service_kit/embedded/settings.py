"""What `grove` itself may be told, and the environment its children inherit."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr

from service_kit.settings import DerivationSettings, EmbeddingSettings

__all__ = ["UpSettings", "embedded_model", "environment"]

_NOT_FOR_CHILDREN: Final = ("GROVE_ADMIN_TOKEN", "GROVE_ROLE_PASSWORD", "GROVE_URL", "GROVE_DATABASE_URL")


class UpSettings(EmbeddingSettings, DerivationSettings):
    """For the `grove` command: where the deployment lives and how it is reached."""

    home: Path | None = Field(
        default=None,
        description="Directory of everything an embedded deployment keeps. Unset: `~/.local/share/grovekeeper`.",
    )
    url: str | None = Field(
        default=None, description="Base URL the `grove` command calls. Unset: the running deployment's."
    )
    admin_token: SecretStr | None = Field(
        default=None,
        description="Token the `grove` command calls with. Unset: the one in `$GROVE_HOME/admin.token`.",
    )
    log_stderr: bool = Field(
        default=False,
        description="`grove up`: services log to its stderr instead of files in `$GROVE_HOME/logs`.",
    )
    log_max_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=64 * 1024,
        description="`grove up`: a log file that grows past this is moved aside; one old one is kept.",
    )
    start_timeout_s: float = Field(
        default=180.0, gt=0, description="`grove up`: longest wait for all services to be ready."
    )
    postgres_timeout_s: float = Field(
        default=600.0,
        gt=0,
        description="`grove up`: longest wait for embedded Postgres, crash recovery included.",
    )

    def directory(self) -> Path:
        """``home``, or its default ``~/.local/share/grovekeeper``; absolute."""
        home = self.home or Path("~/.local/share/grovekeeper")
        return home.expanduser().absolute()


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment for a child: without what is only for `grove`, with ``changes``."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CHILDREN}
    return {**kept, **changes}


def embedded_model() -> Path:
    """Where provisioning puts the embedded sentence encoder."""
    return Path(sys.prefix) / "share" / "grovekeeper" / "minilm-int8"
