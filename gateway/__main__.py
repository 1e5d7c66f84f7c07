"""``python -m gateway``: serve."""

import sys

from gateway.main import run
from gateway.settings import GatewaySettings
from service_kit.settings import load


def main() -> int:
    """Serve until told to stop."""
    return run(load(GatewaySettings))


if __name__ == "__main__":
    sys.exit(main())
