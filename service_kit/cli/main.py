"""``grove``: run a deployment, look at it, and hand out tokens.

Every failure is one line on stderr, perhaps with a remedy, and an exit code: 1 something broke, 2 the
command or its surroundings have to be changed first.
"""

import os
import sys
from typing import Annotated, Final

import typer

from service_kit.embedded import supervisor
from service_kit.embedded.errors import LaunchError, from_os_error
from service_kit.embedded.home import product_version
from service_kit.embedded.services import SERVICES, Service
from service_kit.embedded.settings import UpSettings
from service_kit.embedded.stop import down as end
from service_kit.settings import SettingsError

__all__ = ["app", "main"]

app: Final = typer.Typer(
    name="grove",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Grovekeeper: a server where agents work in sessions and remember across them.",
    epilog="Settings are environment variables; docs/settings.md lists them. GROVE_HOME (the data,"
    " default ~/.local/share/grovekeeper) and GROVE_PORT (default 8080) are the ones to know.",
)
token_app: Final = typer.Typer(no_args_is_help=True, help="Create and revoke bearer tokens.")
app.add_typer(token_app, name="token")


def _say(line: str) -> None:
    print(f"grove: {line}", file=sys.stderr, flush=True)


@app.command()
def up() -> None:
    """Start everything here and stay in the foreground; Ctrl-C stops it and leaves the data.

    Postgres and Redis are embedded unless GROVE_DATABASE_URL and GROVE_REDIS_URL name others; a service
    whose GROVE_…_ADDRESS is set is taken to run elsewhere. A second Ctrl-C does not wait.
    """
    raise typer.Exit(supervisor.up(UpSettings.load(), _say))


@app.command()
def down(
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the orderly end.")] = 120.0,
) -> None:
    """Stop the deployment in GROVE_HOME, and wait until it has ended."""
    _say(end(UpSettings.load(), timeout))


@app.command()
def serve(
    service: Annotated[str, typer.Argument(help=" | ".join(SERVICES), metavar="SERVICE")],
) -> None:
    """Run one service in this process, told by its environment alone. For containers and other supervisors."""
    package = _service(service).package
    os.execv(sys.executable, [sys.executable, "-P", "-m", package])  # noqa: S606 - no shell is wanted


@app.command()
def migrate() -> None:
    """Bring the database to this release: schemas, login roles and their passwords.

    `grove up` does this at every start. Use it to prepare the Postgres named by GROVE_DATABASE_URL.
    """
    supervisor.migrate(UpSettings.load(), _say)
    _say("all schemas are current")


@app.command()
def doctor() -> None:
    """Check what a deployment needs and how the one in GROVE_HOME does; exit code 1 when something is wrong."""
    from service_kit.cli import doctor as health  # noqa: PLC0415 - what it looks at costs `up` half a second

    raise typer.Exit(health.run(UpSettings.load()))


@app.command()
def version() -> None:
    """Print the version."""
    print(product_version())


@token_app.command("create")
def create(
    person: Annotated[str | None, typer.Option(metavar="ID", help="For a person.")] = None,
    credential: Annotated[str | None, typer.Option(metavar="ID", help="For a program.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="G", help="A group it is in; repeatable.")
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(help="How long it is good: 30d, 12h, 15m or seconds. Default: until revoked."),
    ] = None,
) -> None:
    """Make a token for a person or a program and print it; it is not shown again."""
    from service_kit.cli import tokens  # noqa: PLC0415 - an HTTP client costs `up` a quarter of a second

    if (person is None) == (credential is None):
        raise typer.BadParameter("name either --person ID or --credential ID")
    wanted = tokens.Wanted(person, credential, group or [], None if ttl is None else tokens.seconds(ttl))
    print(tokens.create(UpSettings.load(), wanted))


@token_app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="The token (gk_…) or its id (tok_…).", metavar="TOKEN")],
) -> None:
    """Revoke a token; it is refused from the next request on."""
    from service_kit.cli import tokens  # noqa: PLC0415 - see above

    tokens.revoke(UpSettings.load(), token)
    _say("revoked")


def _service(name: str) -> Service:
    found = SERVICES.get(name)
    if found is None:
        raise typer.BadParameter(f"{name} is not one of {', '.join(SERVICES)}")
    return found


def main() -> None:
    """The entry point: every failure becomes a line and an exit code."""
    try:
        app()
    except LaunchError as error:
        _fail(error)
    except SettingsError as error:
        _fail(LaunchError(str(error), "docs/settings.md says what each setting takes", 2))
    except OSError as error:
        _fail(from_os_error(error))


def _fail(error: LaunchError) -> None:
    _say(error.message)
    if error.remedy is not None:
        _say(f"remedy: {error.remedy}")
    raise SystemExit(error.code)
