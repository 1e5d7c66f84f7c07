"""``grove``: run a deployment, look at it, and hand out tokens.

Every failure is one line on stderr, perhaps with a remedy, and an exit code: 1 something broke, 2 the
command or its surroundings have to be changed first.
"""

import os
import sys
from collections.abc import Iterable, Sequence
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
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Grovekeeper: a server where agents work in sessions and remember across them.",
    epilog="Settings are environment variables; docs/settings.md lists them. GROVE_HOME (the data,"
    " default ~/.local/share/grovekeeper) and GROVE_PORT (default 8080) are the ones to know.",
)
token_app: Final = typer.Typer(no_args_is_help=True, help="Create, list and revoke bearer tokens.")
app.add_typer(token_app, name="token")
group_app: Final = typer.Typer(no_args_is_help=True, help="Keep groups, and who is in them.")
app.add_typer(group_app, name="group")
access_app: Final = typer.Typer(no_args_is_help=True, help="See who may reach what, and why.")
app.add_typer(access_app, name="access")
audit_app: Final = typer.Typer(no_args_is_help=True, help="Read what was changed in access, and refused.")
app.add_typer(audit_app, name="audit")
jobs_app: Final = typer.Typer(no_args_is_help=True, help="See the background work of memories, and retry it.")
app.add_typer(jobs_app, name="jobs")
base_app: Final = typer.Typer(no_args_is_help=True, help="Install agents that are programs of their own.")
app.add_typer(base_app, name="base")

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its name; the kind group: may be left out.")]
_Principals = Annotated[
    list[str],
    typer.Argument(metavar="PRINCIPAL", help="person:ID, credential:ID or harness:ID; one or several."),
]
_Since = Annotated[
    str | None, typer.Option(metavar="MOMENT", help="From this moment on, like 2026-10-01T00:00:00Z.")
]
_Until = Annotated[str | None, typer.Option(metavar="MOMENT", help="Before this moment.")]


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
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds to wait for the orderly end.")
    ] = 120.0,
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
        typer.Option(
            metavar="TIME", help="How long it is good: 30d, 12h, 15m or seconds. Default: until revoked."
        ),
    ] = None,
    admin: Annotated[
        bool,
        typer.Option("--admin", help="An administrator's: may issue tokens, keep groups, read the audit."),
    ] = False,
) -> None:
    """Make a token for a person or a program and print it; it is not shown again."""
    from service_kit.cli import tokens  # noqa: PLC0415 - an HTTP client costs `up` a quarter of a second

    if (person is None) == (credential is None):
        raise typer.BadParameter("name either --person ID or --credential ID")
    life = None if ttl is None else tokens.seconds(ttl)
    wanted = tokens.Wanted(person, credential, group or [], life, admin)
    print(tokens.create(UpSettings.load(), wanted))


@token_app.command("list")
def list_tokens(
    principal: Annotated[
        str | None, typer.Option(metavar="P", help="Only those of person:ID or credential:ID.")
    ] = None,
    ended: Annotated[bool, typer.Option("--all", help="Also those that expired or were revoked.")] = False,
) -> None:
    """List tokens, newest first: whose they are, when they end, when they were used last. Never the tokens."""
    from service_kit.cli import tokens  # noqa: PLC0415 - see above

    _table(tokens.listed(UpSettings.load(), principal, ended=ended))


@token_app.command("revoke")
def revoke(
    token: Annotated[
        str, typer.Argument(help="The token (gk_… or a JWT) or its id (tok_…).", metavar="TOKEN")
    ],
) -> None:
    """Revoke a token; it is refused from the next request on."""
    from service_kit.cli import tokens  # noqa: PLC0415 - see above

    tokens.revoke(UpSettings.load(), token)
    _say("revoked")


@group_app.command("create")
def create_group(
    name: _Group,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="What it is for; at most 1,000 characters.")
    ] = "",
) -> None:
    """Create a group and print its whole name. A grant may name a group that is not kept here, too."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    print(access.create_group(UpSettings.load(), name, description))


@group_app.command("list")
def list_groups(
    member: Annotated[
        str | None, typer.Option(metavar="P", help="Only those this principal was put in.")
    ] = None,
) -> None:
    """List groups by name, with how many are in each."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    _table(access.groups(UpSettings.load(), member))


@group_app.command("show")
def show_group(name: _Group) -> None:
    """Show a group and everybody in it."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    _lines(access.group(UpSettings.load(), name))


@group_app.command("delete")
def delete_group(name: _Group) -> None:
    """Delete a group, its memberships and every grant it holds: a later one of this name inherits nothing."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    access.delete_group(UpSettings.load(), name)
    _say("deleted")


@group_app.command("add")
def add_members(name: _Group, principal: _Principals) -> None:
    """Put somebody in a group; it holds for the next request. Groups do not nest."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    for one in access.add_members(UpSettings.load(), name, principal):
        _say(f"added {one}")


@group_app.command("remove")
def remove_members(name: _Group, principal: _Principals) -> None:
    """Take somebody out of a group; it holds for the next request."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    for one in access.remove_members(UpSettings.load(), name, principal):
        _say(f"removed {one}")


@access_app.command("explain")
def explain(
    memory: Annotated[str, typer.Argument(metavar="MEMORY", help="Its id (hmem_…).")],
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="person:ID, group:ID, and so on.")],
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="G", help="A group its credential is taken to name; repeatable."),
    ] = None,
) -> None:
    """Say why a principal holds what it holds on a memory: the grants, and what a cutoff stopped."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    _lines(access.explain(UpSettings.load(), memory, principal, group or []))


@audit_app.command("list")
def list_audit(
    actor: Annotated[str | None, typer.Option(metavar="P", help="Only what this principal did.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="ID", help="Only what concerns it.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this: grant.add, access.check, …")
    ] = None,
    outcome: Annotated[str | None, typer.Option(metavar="allowed|refused", help="Only these.")] = None,
    since: _Since = None,
    most: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 50,
) -> None:
    """List changes of access and refused attempts, newest first."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    narrowing = access.Narrowing(actor, memory, action, outcome, since)
    _table(access.audit(UpSettings.load(), narrowing, most))


@audit_app.command("export")
def export_audit(since: _Since = None, until: _Until = None) -> None:
    """Write the audit as lines of JSON, oldest first, complete up to now."""
    from service_kit.cli import access  # noqa: PLC0415 - see above

    _lines(access.export(UpSettings.load(), access.Narrowing(since=since, until=until)))


@jobs_app.command("list")
def list_jobs(
    status: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Of derivations pending, completed, failed; of runs queued, running, completed, stopped, failed. Else all but completed and stopped.",
        ),
    ] = None,
    most: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 50,
) -> None:
    """List derivations and consolidation runs, newest first: of which memory, since when they wait, and why one failed."""
    from service_kit.cli import jobs  # noqa: PLC0415 - see above

    _table(jobs.listed(UpSettings.load(), status, most))


@jobs_app.command("retry")
def retry_job(job: Annotated[str, typer.Argument(metavar="ID", help="A job that has failed.")]) -> None:
    """Begin a failed job again. What it derived already is not derived twice."""
    from service_kit.cli import jobs  # noqa: PLC0415 - see above

    print(jobs.retry(UpSettings.load(), job))


@base_app.command("install")
def install_base(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One that `grove base list` names.")],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Longest time for npm.")] = 600.0,
) -> None:
    """Install an agent from npm, exactly the locked version, without its install scripts, into GROVE_HOME."""
    from service_kit.cli import bases  # noqa: PLC0415 - see above

    for line in bases.install(UpSettings.load(), name, timeout):
        _say(line)


@base_app.command("list")
def list_bases() -> None:
    """List the agents that can be installed, and whether each is and runs."""
    from service_kit.cli import bases  # noqa: PLC0415 - see above

    _table(bases.listed(UpSettings.load()))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _table(rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they have to be; the first row is the heading."""
    kept = list(rows)
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    for row in kept:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


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
