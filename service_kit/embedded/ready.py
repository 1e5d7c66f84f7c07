"""Whether a service says it is ready."""

import http.client

__all__ = ["is_ready"]


def is_ready(ops: str, timeout_s: float = 5.0) -> bool:
    """Ask ``/readyz`` at ``host:port``, once."""
    host, _, port = ops.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
