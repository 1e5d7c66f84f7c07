"""An example of every body that is read or answered, for the OpenAPI document.

They belong together: one memory, one record, one harness. A test reads each as what it is an example of.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.schemas.examples import harnesses, memories, operating, records
from gateway.schemas.examples.shared import Json

__all__ = ["EXAMPLES"]

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    **memories.EXAMPLES,
    **records.EXAMPLES,
    **harnesses.EXAMPLES,
    **operating.EXAMPLES,
}
"""By what each is an example of."""
