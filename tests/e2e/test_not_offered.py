"""What is not offered is not advertised either, and is answered as what does not exist."""

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.routes import ended_response, harness
from tests.e2e.shapes import refusal

SESSION = "/v1/sessions/{session_id}"
HARNESS = "/v1/harnesses/{harness_id}"
CONTAINER = "/v1/containers/cntr_1/files"
LEFT_OUT: dict[str, tuple[tuple[str, str], ...]] = {
    "files_output": (
        ("GET", f"{SESSION}/files"),
        ("GET", f"{SESSION}/files/archive"),
        ("GET", f"{CONTAINER}/file_1/content"),
        ("GET", f"{CONTAINER}/..%2f..%2fetc%2fpasswd/content"),
        ("GET", f"{CONTAINER}/file_1/pdf"),
    ),
    "environments": (("POST", "/v1/environments"), ("GET", "/v1/environments/henv_1")),
    "plugins": (("GET", f"{HARNESS}/plugins/p/files"), ("GET", f"{HARNESS}/plugin")),
}
"""By capability the addresses that belong to it."""


@pytest.mark.requirement(
    "AR-2-02",
    "AR-2-03",
    "AR-3-05",
    "AR-3-06",
    "SU-files-03",
    "SU-files-05",
    "SU-files-06",
)
@pytest.mark.parametrize("capability", LEFT_OUT)
def test_a_capability_that_is_not_advertised_has_no_addresses(alice: Person, capability: str):
    assert alice.get("/v1/uhp")["capabilities"][capability] is False
    names = ended_response(alice) | harness(alice)
    for method, path in LEFT_OUT[capability]:
        refusal(alice.send(method, path.format(**names), {}), 404, "grovekeeper_not_found")


@pytest.mark.requirement("AR-2-02", "SU-tasks-17")
@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_image", "image_url": "data:image/png;base64,YQ=="},
    ],
    ids=" ".join,
)
def test_a_task_that_brings_a_file_is_refused(alice: Person, part: Json):
    assert alice.get("/v1/uhp")["capabilities"]["files_input"] is False
    task = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Read it."}, part]}]}
    refusal(alice.send("POST", "/v1/responses", task), 400, "invalid_input")
