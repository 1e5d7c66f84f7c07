"""The whole product counts requests where all its gateways would."""

import hashlib
import re

import httpx
import redis

from tests.e2e.people import Person
from tests.fixtures.stack import Stack


def test_requests_are_counted_in_the_redis_of_the_deployment_without_a_name(stack: Stack, alice: Person):
    alice.get("/v1/grovekeeper/whoami")
    url = stack.state().redis_url
    assert url is not None
    key = f"grove:limit:requests:{hashlib.sha256(alice.principal.encode()).hexdigest()[:32]}"
    client = redis.Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType] - half typed
    with client:
        # Emptied by hand: no test sends a million requests.
        client.set(key, 2**53, px=60_000)
        answer = alice.send("GET", "/v1/grovekeeper/whoami")
        client.delete(key)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "rate_limited"
    assert answer.headers["retry-after"] == "1"
    metrics = httpx.get(f"{stack.ops('gateway')}/metrics").text
    assert re.search(
        r'^grove_gateway_rate_limited_total{[^}]*grove_rate_limit_name="requests"[^}]*} \d',
        metrics,
        re.MULTILINE,
    )
    assert alice.send("GET", "/v1/grovekeeper/whoami").status_code == 200
