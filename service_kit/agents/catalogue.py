"""The agents that can be installed, pinned."""

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

__all__ = ["AGENTS", "Agent"]

_LOCKS: Final = Path(__file__).parent / "locks"
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent by the name of its base. ``package`` is npm's; ``licence`` what a person has to know before installing;
    ``native``: the program for a platform, below where it is installed, with ``{platform}`` for ``linux-x64`` and the like.
    """

    name: str
    package: str
    licence: str
    native: str

    @property
    def lock(self) -> Path:
        """The folder of its ``package.json`` and ``package-lock.json``."""
        return _LOCKS / self.name

    @property
    def version(self) -> str:
        """The version that is installed."""
        manifest = json.loads((self.lock / "package.json").read_text(encoding="utf-8"))
        return cast("str", manifest["dependencies"][self.package])

    @property
    def program(self) -> Path | None:
        """Its program, below where it is installed; None: there is none for this platform."""
        machine = _MACHINES.get(platform.machine().lower())
        return None if machine is None else Path(self.native.format(platform=f"{sys.platform}-{machine}"))


AGENTS: Final = {
    one.name: one
    for one in (
        Agent(
            "claude-code",
            "@anthropic-ai/claude-code",
            "proprietary: its use is subject to the legal agreements its LICENSE.md and README.md name",
            "node_modules/@anthropic-ai/claude-code-{platform}/claude",
        ),
    )
}
