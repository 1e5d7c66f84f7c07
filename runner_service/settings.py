"""What runner_service may be told."""

from pydantic import Field

from service_kit.settings import AgentSettings, ModelSettings, RelaySettings


class Settings(ModelSettings, RelaySettings, AgentSettings):
    """Settings of runner_service."""

    mcp_listen: str = Field(
        default="127.0.0.1:0",
        description="host:port where agents find the memory tools' MCP server and the relay to models; keep it on"
        " loopback.",
    )
    runner_concurrency: int = Field(default=16, ge=1, le=1000, description="Turns one runner runs at a time.")
    runner_queue_limit: int = Field(
        default=1000, ge=1, description="Tasks that may wait; more are refused as unavailable."
    )
    runner_lease_s: float = Field(
        default=15.0, gt=1, description="Silence after which a runner's turns are ended by another."
    )
    runner_heartbeat_s: float = Field(default=5.0, gt=0, description="How often a runner says it lives.")
    runner_reconcile_s: float = Field(
        default=5.0, gt=0, description="Seconds between looks for turns whose runner died."
    )
    runner_poll_s: float = Field(default=1.0, gt=0, description="Look for queued tasks at least this often.")
    runner_drain_s: float = Field(
        default=10.0,
        ge=0,
        description="How long running turns may finish after SIGTERM before they are stopped.",
    )
    runner_max_step: int = Field(
        default=50, ge=1, description="Most model calls of a turn, whatever it asks for."
    )
    runner_timeout_s: int = Field(
        default=1800, ge=1, description="Longest time of a turn, in seconds, whatever it asks for."
    )
    runner_unstored_keep_s: float = Field(
        default=3600.0,
        ge=0,
        description="How long responses that are not to be stored are kept after their end.",
    )
    runner_session_keep_s: float = Field(
        default=0.0,
        ge=0,
        description="How long an idle session is kept at least, with all of it; 0: until it is deleted.",
    )
    model_history_characters: int = Field(
        default=400_000,
        ge=1_000,
        description="Characters of earlier turns that are shown to the model; beyond, the oldest turns are left out.",
    )
    runner_scripted_beat_s: float = Field(
        default=0.075, ge=0, le=5, description="Pause between two pieces of what the scripted base says."
    )


def named(listed: str) -> tuple[str, ...]:
    """The names in a list separated by commas, in order."""
    return tuple(dict.fromkeys(one.strip() for one in listed.split(",") if one.strip()))
