"""``python -m tests.eval --data locomo10.json``: evaluate recall, write JSON and Markdown, print the latter."""

import argparse
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.caller import Caller
from tests.eval.dataset import locomo
from tests.eval.report import markdown
from tests.eval.study import Study
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import running


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.eval")
    parser.add_argument("--data", type=Path, required=True, help="LoCoMo-10's JSON file")
    parser.add_argument(
        "--out", type=Path, default=Path("build/eval.json"), help="JSON; .md is written beside it"
    )
    parser.add_argument("--derivation", choices=("none", "rules", "observations"), default="none")
    parser.add_argument(
        "--without",
        metavar="SIGNALS",
        default="",
        help="signals the ranking leaves out, as in words,keys (GROVE_NATIVE_WITHOUT_SIGNALS)",
    )
    parser.add_argument("--without-captions", action="store_true", help="leave out what shared photos show")
    parser.add_argument("--conversations", help="their places from 1, as in 1,2; all when absent")
    parser.add_argument(
        "--url", help="a running product, with a token in the environment as TOKEN; else one is started"
    )
    return parser.parse_args()


@contextmanager
def _caller(url: str | None, without: str) -> Generator[Caller]:
    if url:
        if without:
            raise SystemExit("--without is for a product that is started here")
        with Caller(url.rstrip("/"), os.environ["TOKEN"]) as caller:
            yield caller
        return
    with (
        short_directory() as directory,
        running(directory / "home", {"GROVE_NATIVE_WITHOUT_SIGNALS": without}) as stack,
        Caller(stack.url, stack.token(person="evaluator")) as caller,
    ):
        yield caller


def main() -> None:
    """Everything, for as long as it takes."""
    asked = _arguments()
    talks = locomo(asked.data, captions=not asked.without_captions)
    if asked.conversations:
        talks = [talks[int(place) - 1] for place in asked.conversations.split(",")]
    with _caller(asked.url, asked.without) as caller:
        report = Study(caller, asked.derivation, talks).run()
    report["without"] = asked.without
    report["captions"] = not asked.without_captions
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    table = markdown(report)
    asked.out.with_suffix(".md").write_text(table, encoding="utf-8")
    sys.stdout.write(table)


if __name__ == "__main__":
    main()
