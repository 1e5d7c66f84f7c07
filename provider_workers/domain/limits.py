"""How much a provider takes and gives at once; what is larger is refused in words.

The first group holds for every provider. A gateway may be stricter.
"""

from typing import Final

MAX_CONTENT_BYTES: Final = 1024 * 1024
"""Text and extension parts of one record together, UTF-8."""
MAX_ATTRIBUTES_BYTES: Final = 64 * 1024
"""One record's attributes, UTF-8 JSON."""
MAX_PARTS: Final = 1_000
MAX_REFERENCES: Final = 100
MAX_TYPE: Final = 100
"""Characters of a record type's name."""
MAX_REL: Final = 64
"""Characters of a reference's relation."""
MAX_ID: Final = 200
"""Characters of an id a caller names."""

MAX_FILES: Final = 1_000
"""Files one question names."""
MAX_EPISODES: Final = 500
"""Episodes of one observe."""
MAX_OBSERVE_BYTES: Final = 4 * 1024 * 1024
"""Content and attributes of one observe's episodes together."""
MAX_ERASED: Final = 1_000
"""Records one erase names."""
MAX_JOB_RECORDS: Final = 1_000
"""Records a job's answer lists: its episodes first, then facts in their order."""

MAX_FILTER_NODES: Final = 200
MAX_FILTER_DEPTH: Final = 16
MAX_FILTER_VALUES: Final = 1_000
"""Values of one ``in`` or ``nin``."""
MAX_FILTER_PATH: Final = 16
"""Segments of ``attributes.a.b.c``."""
MAX_FILTER_TYPES: Final = 100

MAX_QUESTION: Final = 10_000
"""Characters of a recall's query or text."""
MAX_MEMORIES: Final = 100_000
"""Memories one recall searches."""
DEFAULT_HITS: Final = 8
MAX_HITS: Final = 100

MAX_COUNTED: Final = 10_000
"""Memories one count covers."""
MAX_EXIST: Final = 10_000
"""Records one existence question names."""
