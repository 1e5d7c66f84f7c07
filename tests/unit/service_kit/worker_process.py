"""A process that runs jobs until it is ended; ``python -m tests.unit.service_kit.worker_process``.

It says ``ready`` once it works and ``began <n>`` for each job it begins. A job ``{"hang": true}`` never
ends the first time anybody tries it; every other run leaves a row in ``note``.
"""

import asyncio
import sys

from service_kit import telemetry
from service_kit.db.pool import Database
from service_kit.jobs import Jobs, Payload
from service_kit.settings import Settings


async def main() -> None:
    settings = Settings.load()
    telemetry.configure_logging("worker")
    database = await Database.open(settings.dsn(), "things")
    jobs = Jobs("things", settings)

    async def work(payload: Payload) -> None:
        sys.stdout.write(f"began {payload['n']}\n")
        sys.stdout.flush()
        async with database.read() as tx:
            tried = await tx.fetch_value(
                "select exists (select from thing where id = %s)", (str(payload["n"]),)
            )
        if payload.get("hang") and not tried:
            async with database.begin() as tx:
                await tx.execute("insert into thing (id) values (%s)", (str(payload["n"]),))
            await asyncio.Event().wait()
        async with database.begin() as tx:
            await tx.execute("insert into note (text) values (%s)", (str(payload["n"]),))

    jobs.task("work", work)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await jobs.work()


if __name__ == "__main__":
    asyncio.run(main())
