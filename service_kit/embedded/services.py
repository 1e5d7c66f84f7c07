"""The five services, and what each is told."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service_kit.embedded.home import Home
from service_kit.embedded.keys import Keys
from service_kit.embedded.ports import HOST
from service_kit.embedded.processes import Command
from service_kit.embedded.settings import UpSettings, embedded_model, environment

__all__ = ["SERVICES", "STOP_ORDER", "Deployment", "Service"]


@dataclass(frozen=True, slots=True)
class Service:
    """A service by its short name. ``stores``: it has a schema, a role and migrations of its own."""

    name: str
    package: str
    stores: bool = True

    @property
    def address_setting(self) -> str:
        """The setting that says where others find it."""
        return f"{self.name}_address"


SERVICES: Final = {
    one.name: one
    for one in (
        Service("gateway", "gateway", stores=False),
        Service("authz", "authz_service"),
        Service("memory", "memory_service"),
        Service("runner", "runner_service"),
        Service("provider", "provider_workers"),
    )
}
STOP_ORDER: Final = ("gateway", "runner", "memory", "provider", "authz")  # callers before the called


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything the services of one deployment are told. ``ports`` holds two for each: its own, its ops."""

    home: Home
    settings: UpSettings
    keys: Keys
    database_url: str
    redis_url: str
    ports: Mapping[str, tuple[int, int]]

    def is_ours(self, service: Service) -> bool:
        """False for a service that runs elsewhere: its address was set."""
        return service.address_setting not in self.settings.model_fields_set

    def address(self, service: Service) -> str:
        """Where the others find it."""
        if not self.is_ours(service):
            return str(getattr(self.settings, service.address_setting))
        return f"{HOST}:{self.ports[service.name][0]}"

    def ops(self, service: Service) -> str:
        """Where its readiness is asked for."""
        return f"{HOST}:{self.ports[service.name][1]}"

    def storing(self) -> list[Service]:
        """The services that run here and have a schema."""
        return [one for one in SERVICES.values() if one.stores and self.is_ours(one)]

    def serve(self, service: Service) -> Command:
        """How to start it."""
        told = {
            **self._common(),
            "GROVE_LISTEN": self.address(service),
            "GROVE_OPS_LISTEN": self.ops(service),
        }
        if service.stores:
            told["GROVE_DATABASE_URL"] = self.role_dsn(service)
        if (token := self.keys.service_tokens.get(service.name)) is not None:
            told["GROVE_SERVICE_TOKEN"] = token
        if service.name == "authz":
            told["GROVE_PASSPORT_SIGNING_KEY_FILE"] = str(self.keys.signing_key)
            told["GROVE_AUTHZ_BOOTSTRAP_FILE"] = str(self.keys.bootstrap)
        return self._command(service.name, [service.package], told)

    def migrate(self, service: Service) -> Command:
        """How to bring its schema to this release."""
        told = {
            **self._common(),
            "GROVE_DATABASE_URL": self.database_url,
            "GROVE_ROLE_PASSWORD": self.keys.role_passwords[service.name],
        }
        return self._command("migrate", [service.package, "migrate"], told)

    def _common(self) -> dict[str, str]:
        told = {
            "GROVE_HOME": str(self.home.path),
            "GROVE_REDIS_URL": self.redis_url,
            "GROVE_PASSPORT_KEYS_FILE": str(self.keys.verification_keys),
        }
        for one in SERVICES.values():
            if one.stores:
                told[f"GROVE_{one.address_setting}".upper()] = self.address(one)
        model = embedded_model()
        if self.settings.embedding_model_dir is None and model.is_dir():
            told["GROVE_EMBEDDING_MODEL_DIR"] = str(model)
        return told

    def _command(self, log: str, module: list[str], told: Mapping[str, str]) -> Command:
        return Command(
            # -P: a directory called like one of our packages, where we are started, is not ours.
            argv=[sys.executable, "-P", "-m", *module],
            env=environment(told),
            log=self._log(log),
            cwd=self.home.path,
        )

    def _log(self, name: str) -> Path | None:
        return None if self.settings.log_stderr else self.home.logs / f"{name}.log"

    def role_dsn(self, service: Service) -> str:
        """How the service itself connects: to the owner's database, as its own role."""
        parts = {
            key: value for key, value in conninfo_to_dict(self.database_url).items() if value is not None
        }
        login = {"user": f"grove_{service.name}", "password": self.keys.role_passwords[service.name]}
        return make_conninfo("", **{**parts, **login})
