from collections.abc import Generator

import pytest

from tests.e2e.callers import Caller, person
from tests.fixtures.stack import Stack


@pytest.fixture
def alice(stack: Stack) -> Generator[Caller]:
    """Somebody new, to whom everything in the test belongs."""
    with person(stack, "alice") as caller:
        yield caller


@pytest.fixture
def bob(stack: Stack) -> Generator[Caller]:
    """Somebody else who is new."""
    with person(stack, "bob") as caller:
        yield caller
