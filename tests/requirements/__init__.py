"""Every requirement of the specification, in our words: the table that the marks of the tests refer to.

A sentence's id stays what it is; a new sentence gets the next number of its section. ``tests/architecture`` holds
the table against the marks, both ways, and ``make gen`` writes docs/conformance.md from both.
"""

from typing import Final

from tests.requirements.architecture import ARCHITECTURE
from tests.requirements.memories_objects import OBJECTS
from tests.requirements.memories_recall import RECALL
from tests.requirements.memories_seam import SEAM
from tests.requirements.model import Requirement
from tests.requirements.surface import SURFACE

__all__ = ["REQUIREMENTS", "SECTIONS", "Requirement"]

REQUIREMENTS: Final = (*OBJECTS, *RECALL, *SEAM, *ARCHITECTURE, *SURFACE)
"""In the order of the specification."""

SECTIONS: Final = {
    "ME": {
        "2": "The memory object",
        "3.1": "Grants and inheritance",
        "3.2": "The cutoff",
        "3.3": "Enforcement",
        "4": "Records",
        "4.1": "Types",
        "4.2": "References",
        "5": "Operations",
        "5.1": "Two ways to write",
        "5.2": "Two ways to remove",
        "5.3": "Nothing is overwritten",
        "6.1": "Reading is a walk",
        "6.2": "The request",
        "6.3": "The response",
        "6.4": "Named queries",
        "6.5": "Free queries",
        "7": "Files",
        "8": "Types",
        "9": "Attaching memories to a harness",
        "9.1": "What a session does",
        "9.2": "Consolidation runs",
        "10.1": "The contract",
        "10.2": "The capability document",
        "10.3": "What an adapter owes",
        "11": "Discovery",
        "12": "Errors",
        "13": "Security",
        "14": "Conformance",
    },
    "AR": {
        "1": "Roles",
        "2": "Conformance classes",
        "3": "Object model",
        "4": "Transport",
        "5": "Authentication",
        "6": "Design principles",
    },
    "SU": {
        "requests": "Every request",
        "errors": "Errors",
        "discovery": "Discovery",
        "tasks": "Tasks",
        "streaming": "Streaming",
        "sessions": "Sessions",
        "files": "Files",
        "harnesses": "Harnesses and models",
        "memories": "Memories: what the chapter leaves to the wire",
        "revisions": "Two revisions of the Memories chapter",
    },
}
"""The chapters' sections, by number or name."""
