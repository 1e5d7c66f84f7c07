"""Settings: one frozen object per process, read from the environment here and nowhere else.

A service subclasses :class:`Settings` in its own ``settings.py`` and calls ``MySettings.load()`` once,
in ``main``. Every variable is ``GROVE_`` and the field's name in capitals; the ``OTEL_*`` ones keep
their standard names. ``docs/settings.md`` is generated from these classes.
"""

import sys
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = [
    "AgentSettings",
    "DerivationSettings",
    "EmbeddingSettings",
    "ModelSettings",
    "ObjectSettings",
    "RelaySettings",
    "Settings",
    "SettingsError",
    "load",
]


class SettingsError(Exception):
    """A setting is missing or malformed; the message names the variable and never its value."""


class Settings(BaseSettings):
    """What every process of the product may be told."""

    model_config = SettingsConfigDict(
        env_prefix="GROVE_",
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        protected_namespaces=(),
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
    )

    home: Path | None = Field(
        default=None, description="Directory of everything an embedded deployment keeps."
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port of the public HTTP interface.")
    database_url: SecretStr | None = Field(
        default=None,
        description="Postgres. A service gets its own role's URL; `grove up` and `grove migrate` the owner's.",
    )
    redis_url: SecretStr | None = Field(default=None, description="Redis or Valkey: `redis://` or `unix://`.")

    authz_address: str = Field(default="127.0.0.1:7101", description="host:port of authz_service.")
    memory_address: str = Field(default="127.0.0.1:7102", description="host:port of memory_service.")
    runner_address: str = Field(default="127.0.0.1:7103", description="host:port of runner_service.")
    provider_address: str = Field(default="127.0.0.1:7104", description="host:port of provider_workers.")
    listen: str = Field(default="127.0.0.1:0", description="host:port this process serves on.")
    ops_listen: str = Field(
        default="127.0.0.1:0", description="host:port of /healthz, /readyz and /metrics of this process."
    )

    passport_keys_file: Path | None = Field(
        default=None, description="JWKS with the public keys passports are verified with."
    )
    service_token: SecretStr | None = Field(
        default=None, description="This service's own token, exchanged at authz for a service passport."
    )

    rpc_timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="Deadline of a call that names none."
    )
    rpc_max_message_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=1024,
        description="Largest message between services; a recall of 100,000 memories takes 4 MiB.",
    )
    rpc_max_concurrent: int = Field(
        default=1000,
        ge=1,
        description="Calls one process works on at a time; more are refused as unavailable.",
    )
    rpc_max_connection_age_s: float | None = Field(
        default=None,
        gt=0,
        description="Close connections after this long so that clients look names up again. Unset on runners.",
    )
    stop_grace_s: float = Field(
        default=20.0, ge=0, description="How long running calls may finish after SIGTERM."
    )

    db_pool_min: int = Field(default=1, ge=0, description="Connections each pool keeps open.")
    db_pool_max: int = Field(
        default=8,
        ge=1,
        description="Connections each pool may open; a process has one for writing, one for reading.",
    )
    db_pool_wait_s: float = Field(default=5.0, gt=0, description="Longest wait for a connection.")
    db_statement_timeout_s: float = Field(
        default=15.0, gt=0, description="Longest time one statement may take."
    )
    db_idle_in_transaction_s: float = Field(
        default=30.0, gt=0, description="Longest pause inside a transaction before Postgres ends it."
    )

    role_password: SecretStr | None = Field(
        default=None, description="For `migrate` only: the password the service's login role gets."
    )

    jobs_concurrency: int = Field(default=4, ge=1, le=100, description="Jobs one process runs at a time.")
    jobs_heartbeat_s: float = Field(default=3.0, gt=0, description="How often a job worker says it lives.")
    jobs_stalled_after_s: float = Field(
        default=10.0, gt=0, description="Silence after which a worker's jobs are given to another."
    )
    jobs_poll_s: float = Field(default=2.0, gt=0, description="Look for jobs at least this often.")
    jobs_max_attempts: int = Field(default=8, ge=1, description="Attempts before a job is put in quarantine.")
    jobs_backoff_s: float = Field(
        default=1.0, gt=0, description="Wait before the second attempt; doubles after."
    )
    jobs_keep_hours: int = Field(default=336, ge=1, description="How long quarantined jobs are kept.")

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe log line written."
    )
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="OTLP/HTTP collector for traces and metrics. Unset: nothing is exported.",
    )
    otlp_traces_endpoint: str | None = Field(
        default=None,
        validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        description="The same for traces only.",
    )
    otlp_metrics_endpoint: str | None = Field(
        default=None,
        validation_alias="OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        description="The same for metrics only.",
    )

    @classmethod
    def load(cls) -> Self:
        """Read the environment. Raises :class:`SettingsError` naming each variable at fault."""
        try:
            return cls()
        except ValidationError as error:
            faults = [f"{cls.variable(str(fault['loc'][0]))}: {fault['msg']}" for fault in error.errors()]
            raise SettingsError("; ".join(faults)) from None

    @classmethod
    def variable(cls, field: str) -> str:
        """The environment variable of a field."""
        info = cls.model_fields.get(field)
        if info is None or info.validation_alias is not None:
            return str(field if info is None else info.validation_alias)
        return f"GROVE_{field}".upper()

    def dsn(self) -> str:
        """``database_url``, which must be set."""
        return self._secret("database_url", self.database_url)

    def redis(self) -> str:
        """``redis_url``, which must be set."""
        return self._secret("redis_url", self.redis_url)

    def token(self) -> str:
        """``service_token``, which must be set."""
        return self._secret("service_token", self.service_token)

    def keys_file(self) -> Path:
        """``passport_keys_file``, which must be set."""
        if self.passport_keys_file is None:
            raise SettingsError(f"{self.variable('passport_keys_file')} is not set")
        return self.passport_keys_file

    def _secret(self, field: str, value: SecretStr | None) -> str:
        if value is None:
            raise SettingsError(f"{self.variable(field)} is not set")
        return value.get_secret_value()


class ModelSettings(Settings):
    """For processes that speak to a chat model (the loop base)."""

    model_base_url: str | None = Field(
        default=None, description="OpenAI-compatible endpoint of the chat model."
    )
    model_api_key: SecretStr | None = Field(default=None, description="Its key. Never given to an agent.")
    model_name: str | None = Field(default=None, description="The model used when a request names none.")


_URL: Final = r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"


class RelaySettings(Settings):
    """For processes that relay the model calls of agents that are programs."""

    relay_anthropic_base_url: str | None = Field(
        default=None,
        pattern=_URL,
        description="Endpoint for agents that speak Anthropic's Messages: `https://api.anthropic.com`.",
    )
    relay_anthropic_api_key: SecretStr | None = Field(
        default=None, description="Its key. Never given to an agent."
    )
    relay_anthropic_models: str = Field(
        default="",
        description="Models agents may call there, separated by commas, the default one first; empty: any.",
    )
    relay_responses_base_url: str | None = Field(
        default=None,
        pattern=_URL,
        description="Endpoint for agents that speak OpenAI's Responses: `https://api.openai.com/v1`.",
    )
    relay_responses_api_key: SecretStr | None = Field(
        default=None, description="Its key. Never given to an agent."
    )
    relay_responses_models: str = Field(
        default="", description="As `GROVE_RELAY_ANTHROPIC_MODELS`, of this endpoint."
    )
    relay_chat_base_url: str | None = Field(
        default=None,
        pattern=_URL,
        description="Endpoint for agents that speak OpenAI's Chat Completions: `https://api.openai.com/v1`.",
    )
    relay_chat_api_key: SecretStr | None = Field(
        default=None, description="Its key. Never given to an agent."
    )
    relay_chat_models: str = Field(
        default="", description="As `GROVE_RELAY_ANTHROPIC_MODELS`, of this endpoint."
    )
    relay_idle_s: float = Field(
        default=600.0,
        gt=0,
        description="Longest silence of an endpoint, before an answer or within it; then the call fails.",
    )


class EmbeddingSettings(Settings):
    """For processes that turn text into vectors."""

    embedding_base_url: str | None = Field(default=None, description="OpenAI-compatible embeddings endpoint.")
    embedding_api_key: SecretStr | None = Field(default=None, description="Its key.")
    embedding_model: str | None = Field(default=None, description="The embedding model's name.")
    embedding_dimensions: int | None = Field(
        default=None, ge=1, le=16000, description="Length of its vectors."
    )
    embedding_model_dir: Path | None = Field(
        default=None, description="Files of the embedded sentence encoder."
    )


class DerivationSettings(Settings):
    """For processes that derive facts with a model."""

    derivation_base_url: str | None = Field(
        default=None,
        description="OpenAI-compatible endpoint of the model that derives facts. It is sent what people say.",
    )
    derivation_api_key: SecretStr | None = Field(default=None, description="Its key.")
    derivation_model: str | None = Field(
        default=None, description="The deriving model's name; it must answer with JSON of a given schema."
    )


class ObjectSettings(Settings):
    """For processes that keep the bytes of files."""

    object_store_url: str | None = Field(
        default=None,
        description="`s3://bucket/prefix`, or `file:///directory`. Unset: `objects` in `GROVE_HOME`; without that,"
        " no files are kept.",
    )
    object_store_endpoint: str | None = Field(
        default=None, description="Of an S3-compatible store that is not AWS: `https://minio.example:9000`."
    )
    object_store_region: str | None = Field(default=None, description="The bucket's region.")
    object_store_access_key_id: SecretStr | None = Field(
        default=None,
        description="With its secret: who reads and writes the bucket. Unset: `AWS_…`, then the machine's own role.",
    )
    object_store_secret_access_key: SecretStr | None = Field(default=None, description="Its secret.")
    object_store_virtual_host: bool = Field(
        default=False, description="The bucket is a part of the host's name, not of the path."
    )
    file_limit_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024,
        le=5 * 1024**3,
        description="Largest file; a larger one is refused (413 `file_too_large`). The gateway, memory_service and"
        " provider_workers are told the same.",
    )

    def object_store(self) -> str | None:
        """Where the bytes are, as a URL; None: nowhere."""
        if self.object_store_url is not None:
            return self.object_store_url
        return None if self.home is None else (self.home.absolute() / "objects").as_uri()


class AgentSettings(Settings):
    """For processes that run agents which are programs of their own."""

    agents_dir: Path | None = Field(
        default=None,
        description="Where agents that were installed lie (`grove base install`). Unset: `bases` in `GROVE_HOME`.",
    )
    sessions_dir: Path | None = Field(
        default=None,
        description="Folders of sessions whose agent is a program. Unset: `sessions` in `GROVE_HOME`; without that, no"
        " such agent runs.",
    )
    agent_memory_bytes: int = Field(
        default=4 * 1024**3,
        ge=256 * 1024**2,
        description="Memory of a turn's processes together where a cgroup bounds it, of each of them elsewhere.",
    )
    agent_processes: int = Field(default=512, ge=16, description="Processes and threads of one turn.")
    agent_file_bytes: int = Field(default=1024**3, ge=1024**2, description="Largest file an agent writes.")
    agent_cgroup: Path | None = Field(
        default=None,
        description="A cgroup v2 directory that is ours, with `memory` and `pids` in its `cgroup.subtree_control`."
        " Unset: the process's own.",
    )
    agent_unwalled: bool = Field(
        default=False,
        description="Also run agents where nothing keeps them from the server's own files and keys.",
    )

    def agents(self) -> Path | None:
        """Where agents are installed; None: nowhere."""
        return self._below(self.agents_dir, "bases")

    def sessions(self) -> Path | None:
        """Where sessions' folders lie; None: nowhere."""
        return self._below(self.sessions_dir, "sessions")

    def _below(self, named: Path | None, name: str) -> Path | None:
        if named is not None:
            return named.absolute()
        return None if self.home is None else self.home.absolute() / name


_Any = TypeVar("_Any", bound=Settings)


def load(kind: type[_Any]) -> _Any:
    """``kind.load()`` for a ``__main__``: a fault is one line on stderr and exit code 2."""
    try:
        return kind.load()
    except SettingsError as error:
        sys.stderr.write(f"settings: {error}\n")
        raise SystemExit(2) from None
