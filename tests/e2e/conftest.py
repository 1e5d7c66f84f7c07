from collections.abc import Generator

import pytest

from tests.e2e.people import Person, person
from tests.fixtures.stack import Stack


@pytest.fixture
def alice(stack: Stack) -> Generator[Person]:
    """Somebody new, to whom everything in the test belongs."""
    with person(stack, "alice") as caller:
        yield caller


@pytest.fixture
def bob(stack: Stack) -> Generator[Person]:
    """Somebody else who is new."""
    with person(stack, "bob") as caller:
        yield caller
