"""The settings page of the documentation."""

from pathlib import Path

from service_kit.cli.settings_docs import document, main

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_settings_page_says_what_the_classes_say():
    assert main(["--out", str(PAGE), "--check"]) == 0, "run `make gen`"


def test_a_page_that_is_not_current_is_found(tmp_path: Path):
    page = tmp_path / "settings.md"
    assert main(["--out", str(page), "--check"]) == 1
    assert main(["--out", str(page)]) == 0
    assert main(["--out", str(page), "--check"]) == 0


def test_every_setting_tells_what_it_means():
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert [row for row in rows if row.rstrip(" |").endswith("|")] == []
