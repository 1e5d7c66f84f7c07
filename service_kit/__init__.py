'''The chassis every service stands on, and the only package the services share.

A service is put together in its ``main`` like this::

    # things_service/settings.py
    from pydantic import Field
    from service_kit.settings import Settings

    class ThingsSettings(Settings):
        """What things_service may be told (GROVE_THINGS_…)."""

        things_limit: int = Field(default=100, description="Things a caller may keep.")

    # things_service/main.py
    from collections.abc import AsyncGenerator
    from contextlib import asynccontextmanager

    from protos.authz.v1 import authz_pb2_grpc
    from protos.things.v1 import things_pb2_grpc
    from service_kit.db import migrate
    from service_kit.db.pool import connect
    from service_kit.jobs import Jobs
    from service_kit.rpc import client, server

    SCHEMA = migrate.Schema("things", Path(__file__).parent / "store" / "migrations", jobs=True)

    @asynccontextmanager
    async def build(settings: ThingsSettings) -> AsyncGenerator[server.Wiring]:
        async with (
            connect(settings, "things") as database,
            client.channel(settings.authz_address, settings, safe=["grovekeeper.authz.v1.Access/Check"]) as authz,
        ):
            service = client.ServicePassport(authz, settings.token())
            jobs = Jobs("things", settings, identity=service.as_service)
            access = AccessClient(authz_pb2_grpc.AccessStub(authz))
            things = Things(database, jobs, access, SystemClock())
            jobs.task("purge", things.purge)                       # async def purge(payload) -> None
            jobs.periodic("reconcile", things.reconcile, every_s=60)  # async def reconcile() -> None

            async def ready() -> bool:
                return await migrate.current(database, SCHEMA)

            def register(grpc_server: grpc.aio.Server) -> None:
                things_pb2_grpc.add_ThingsServicer_to_server(ThingsServicer(things), grpc_server)

            yield server.Wiring(
                servicers=[register],
                service_names=["grovekeeper.things.v1.Things"],
                background=[jobs.work],
                ready=ready,
            )

    # things_service/__main__.py
    def main(arguments: list[str]) -> int:
        settings = load(ThingsSettings)            # one clear line and exit code 2 when something is wrong
        if arguments == ["migrate"]:
            return migrate.main(settings, SCHEMA)
        return server.run("things", settings, build)

    sys.exit(main(sys.argv[1:]))

A servicer's method converts, calls, converts, and raises :class:`~service_kit.errors.GroveError`; a
streaming one is an async generator. A use case opens ``async with database.begin() as tx`` and hands
``tx`` to the store; ``jobs.defer(tx, "purge", {"id": …})`` enqueues in the same transaction.
'''
