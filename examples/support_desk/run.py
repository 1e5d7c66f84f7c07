"""A support desk on Grovekeeper: who remembers what, and who may not know that it exists.

Start the server with `make run`, then in a second terminal:

    .venv/bin/python examples/support_desk/run.py

Seven weeks of conversations are loaded into a tree of memories; five callers then look at the same tree.
"""

import argparse
import os
import re
import secrets
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import httpx
from desk import Caller, Json, RefusedError, conversations
from people import CUSTOMERS, HANDBOOK, NEW_HOURS, PEOPLE

ROOT = "Brinegate Instruments"
HARNESSES = ("Desk assistant", "Lab assistant")
NEVER_ISSUED = "hmem_" + "0" * 32
RECORD = re.compile(r"hrec_[0-9a-f]{32}")  # new in every run
QUOTED = 2
WIDTH = 118


class Desk:
    """The example's story, chapter by chapter; each prints what it did and saw."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.callers = callers
        # Keys are this run's own: a later run is a new load, not a replay of this one.
        self.run = secrets.token_hex(4)
        self.memory: dict[str, str] = {}
        self.handbook: dict[str, Json] = {}

    # -- loading ---------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what an earlier run of this example left behind."""
        for memory in self.callers["ruth"].listing():
            if memory["name"] == ROOT:
                self.callers["ruth"].call("DELETE", f"/v1/memories/{memory['id']}")
        for name in ("tom", "lab"):
            for harness in self.callers[name].get("/v1/harnesses")["harnesses"]:
                if harness["name"] in HARNESSES:
                    self.callers[name].call("DELETE", f"/v1/harnesses/{harness['id']}")

    def plant(self) -> None:
        """The tree and its grants."""
        ruth, maya = self.callers["ruth"], self.callers["maya"]
        root = self._create(ruth, "root", ROOT, "The company's handbook: prices, hours, warranty, returns.")
        self._grant("root", "person:maya", "read", "write", "create")
        self._create(ruth, "team", "Support team", "What the support people tell one another.", root)
        customers = self._create(ruth, "customers", "Customers", "One memory for each customer, below.", root)
        for branch in ("team", "customers"):
            self._grant(branch, "group:support", "read", "write")
        for key, (name, description) in CUSTOMERS.items():
            self._create(ruth, key, name, description, customers)
        self._grant("ostrander", "credential:ostrander-backend", "read")
        notes = {
            "name": "Maya's notes",
            "description": "One-to-ones and pay.",
            "parent_id": self.memory["team"],
            "restricted": True,
        }
        self.memory["private"] = maya.post("/v1/memories", notes)["id"]

    def load(self) -> None:
        """Everything that was said, through observe; and the handbook, as stated facts."""
        heading("Loading")
        for key, content in HANDBOOK.items():
            self.handbook[key] = self._remember(content)
        talks = conversations()
        jobs: list[tuple[Caller, str, str]] = []
        for name, turns in talks.items():
            writer = self.callers["maya" if turns[0].memory in ("team", "private") else "tom"]
            memory = self.memory[turns[0].memory]
            job = writer.observe(memory, turns, f"{self.run}-{name}")
            jobs.append((writer, memory, job["id"]))
            if name == "mill-street-offline":
                again = writer.observe(memory, turns, f"{self.run}-{name}")
                say(
                    f"sent one conversation twice with one Idempotency-Key: same job {again['id'] == job['id']}"
                )
        written = [
            record for caller, memory, job in jobs for record in caller.wait_for(memory, job)["records"]
        ]
        derived = sum(record["type"] == "fact" for record in written)
        turns_total = sum(len(turns) for turns in talks.values())
        say(
            f"{len(talks)} conversations, {turns_total} turns observed; {len(jobs)} jobs derived {derived} facts;"
            f" {len(HANDBOOK)} facts stated"
        )

    # -- looking ---------------------------------------------------------------------------------------------

    def trees(self) -> None:
        """Who holds what where, put together from what each caller's own walk returned."""
        heading("The tree, as each of them sees it")
        for name, person in PEOPLE.items():
            say(f"{name:<5} {person.who}")
        walks = {name: list(caller.walk()) for name, caller in self.callers.items()}
        rows = walks["maya"]  # hers is the longest; every other row would be found missing below
        everywhere = {memory["id"] for seen in walks.values() for _, memory in seen}
        say(f"\n{'':<34}records  {'  '.join(f'{name:<4}' for name in walks)}")
        for depth, memory in rows:
            label = "  " * depth + memory["name"] + (" (restricted)" if memory["restricted"] else "")
            held = [
                next((letters(seen) for _, seen in walks[name] if seen["id"] == memory["id"]), "-")
                for name in walks
            ]
            say(f"{label:<34}{memory['records']['count']:>7}  {'  '.join(f'{cell:<4}' for cell in held)}")
        if everywhere != {memory["id"] for _, memory in rows}:
            raise SystemExit("somebody sees a memory of another tree; run this against a home of its own")
        for name in ("tom", "lab"):
            entries = ", ".join(memory["name"] for depth, memory in walks[name] if depth == 0)
            say(f"{name} enters the tree at: {entries}")

    def questions(self) -> None:
        """The same questions by different people."""
        heading("Recall: the same question by different people")
        self._ask(
            "Who gets called first at night, and who after 5 minutes?", "ostrander", ("tom", "lab", "lee")
        )
        self._ask("Which quay is the market on now?", "reyes", ("tom", "lab"))
        say(f"    lab, of an id that was never issued: {self._refusal('lab', NEVER_ISSUED)}")
        self._ask("What is proposed for Tom's pay?", "private", ("maya", "tom", "ruth"), limit=1)
        say("Where a recall in Support team says one can go from there:")
        for name in ("maya", "tom"):
            answer = self.callers[name].recall(self.memory["team"], "late alarms", limit=1)
            below = ", ".join(child["name"] for child in answer["children"]) or "nothing"
            above = answer["parent"]["name"] if answer.get("parent") else "nothing"
            say(f"    {name}: {above} above, {below} below")

    def searching(self) -> None:
        """A subtree, words and filters, and questions that have no answer."""
        heading("Recall: further ways to ask, as tom")
        tom = self.callers["tom"]
        say("Across all customers (depth 1): who lost fish because a door stayed open?")
        self._show(
            tom.recall(
                self.memory["customers"], "Who lost fish because a door stayed open?", depth=1, limit=2
            )
        )
        say("The word “4417”, only what Noor Haddad said:")
        noor = {"field": "attributes.speaker", "op": "eq", "value": "Noor Haddad"}
        words = {"text": "4417", "filters": noor, "limit": 1}
        self._show(tom.post(f"/v1/memories/{self.memory['ostrander']}/recall", words))
        for question in (
            "Which football team does the chef support?",
            "How do I apply for a mortgage in Canada?",
        ):
            say(f"Never discussed: {question}")
            self._show(tom.recall(self.memory["mirador"], question, limit=1))

    def change(self) -> None:
        """A fact gets a new value; the old one is closed and still readable."""
        heading("A fact that changes")
        maya, root, hours = self.callers["maya"], self.memory["root"], self.handbook["hours"]
        question = "When is the support desk open?"
        before = maya.get(f"/v1/memories/{root}/records/{hours['id']}")["time"]["written_at"]
        maya.call("PATCH", f"/v1/memories/{root}/records/{hours['id']}", {"content": NEW_HOURS})
        say(f"maya revises it, then asks: {question}")
        self._show(maya.recall(root, question, limit=1))
        say("the same, as of the moment the handbook was written:")
        self._show(maya.recall(root, question, limit=1, as_of=before))
        say("its history:")
        for version in maya.get(f"/v1/memories/{root}/records/{hours['id']}/history")["data"]:
            writer = version["written_by"]
            author = f"{writer['kind']}:{writer['id']}"
            say(
                f"    version {version['version']}  {version['status']:<10} by {author}: {version['content']}"
            )

    # -- turns -----------------------------------------------------------------------------------------------

    def turns(self) -> None:
        """Agents with the same tree: each reaches what its harness was granted."""
        heading("Turns: agents of the built-in scripted base (no model), streamed")
        tom, lab = self.callers["tom"], self.callers["lab"]
        desk = self._harness(tom, HARNESSES[0])
        attach = {
            "memories": [
                {"memory_id": self.memory["team"], "access": "write", "default": True},
                {"memory_id": self.memory["ostrander"], "access": "read"},
            ]
        }
        notes = {"memories": [{"memory_id": self.memory["private"], "access": "read"}]}
        refused = attempt(lambda: tom.call("PUT", f"/v1/harnesses/{desk}/memories", attach))
        say(f"tom attaches two memories to his harness, which holds nothing yet: {refused}")
        self._grant("team", f"harness:{desk}", "read", "write")
        self._grant("ostrander", f"harness:{desk}", "read")
        tom.call("PUT", f"/v1/harnesses/{desk}/memories", attach)
        say("ruth grants the harness both; now they are attached")
        say(
            f"tom attaches Maya's notes: {attempt(lambda: tom.call('PUT', f'/v1/harnesses/{desk}/memories', notes))}"
        )
        asked = "recall in Ostrander Lab: Who gets called first at night, and who after 5 minutes?"
        first = self._talk("tom", desk, asked)
        self._talk("tom", desk, "remember: Bertie at the porters' desk has the freezer room key.", first)
        found = tom.recall(
            self.memory["team"], "Who has the key to the freezer room?", types=["fact"], limit=1
        )
        say("what the agent remembered, recalled by tom:")
        self._show(found)

        portal = self._harness(lab, HARNESSES[1])
        self._grant("ostrander", f"harness:{portal}", "read")
        own = {"memories": [{"memory_id": self.memory["ostrander"], "access": "read"}]}
        lab.call("PUT", f"/v1/harnesses/{portal}/memories", own)
        self._talk("lab", portal, "recall: When do the calibration certificates run out?")

    def revocation(self) -> None:
        """A grant that is taken back holds from the next request on."""
        heading("A grant taken back")
        ruth, branch = self.callers["ruth"], self.memory["ostrander"]
        for grant in ruth.get(f"/v1/memories/{branch}/grants")["data"]:
            if grant["principal"] == "credential:ostrander-backend":
                ruth.call("DELETE", f"/v1/memories/{branch}/grants/{grant['id']}")
        say(f"ruth revokes the lab's grant; the lab's next recall: {self._refusal('lab', branch)}")

    # -- helpers ---------------------------------------------------------------------------------------------

    def _create(
        self, caller: Caller, key: str, name: str, description: str, parent: str | None = None
    ) -> str:
        body = {"name": name, "description": description, "parent_id": parent}
        self.memory[key] = caller.post("/v1/memories", body)["id"]
        return self.memory[key]

    def _grant(self, memory: str, principal: str, *privileges: str) -> None:
        body = {"principal": principal, "privileges": list(privileges)}
        self.callers["ruth"].post(f"/v1/memories/{self.memory[memory]}/grants", body)

    def _remember(self, content: str) -> Json:
        body = {"type": "fact", "content": content}
        return self.callers["ruth"].post(f"/v1/memories/{self.memory['root']}/records", body)

    def _harness(self, caller: Caller, name: str) -> str:
        return str(caller.post("/v1/harnesses", {"name": name, "base": "scripted"})["id"])

    def _ask(self, question: str, memory: str, names: tuple[str, ...], limit: int = 2) -> None:
        """One question by several people; an answer equal to the one before it is said to be equal."""
        say(question)
        before: list[Json] = []
        for name in names:
            try:
                answer = self.callers[name].recall(self.memory[memory], question, limit=limit)
            except RefusedError as refused:
                say(f"    {name}: {refused.status} {refused.code}")
                continue
            # Not their scores: the last digit of one may differ from call to call.
            found = [result["record"] for result in answer["results"]]
            if found == before:
                say(f"    {name}: the same {len(before)} results")
            else:
                say(f"    {name}:")
                self._show(answer, indent=8)
            before = found

    def _refusal(self, name: str, memory: str) -> str:
        return attempt(lambda: self.callers[name].recall(memory, "anything"))

    def _show(self, answer: Json, indent: int = 4) -> None:
        """The results of one recall, a line each. Where the memory abstains, they only came nearest."""
        for result in answer["results"]:
            record = result["record"]
            said = (record["time"]["valid_from"] or "")[:10], record["attributes"].get("speaker", "")
            source = " ".join(part for part in said if part) or f"by a {record['written_by']['kind']}"
            found = f"{result['score']:.2f} {'+'.join(result['why'])}"
            if answer["abstain"]:
                found = "abstains, this is no answer"
            line = f"{' ' * indent}{found} · {record['type']}, {source}: "
            say(line + shorten(record["content"], WIDTH - len(line)))
        if not answer["results"]:
            say(f"{' ' * indent}{'abstains, nothing was found' if answer['abstain'] else 'no result'}")

    def _talk(self, name: str, harness: str, text: str, previous: str | None = None) -> str:
        """Run one streamed turn and print it as it happened; answers the response's id."""
        say(f"{name} asks: {text}")
        last: Json = {}
        for event in self.callers[name].turn(harness, text, previous):
            last = event
            if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
                say(f"    calls {event['item']['name']}")
        response = last["response"]
        messages: list[Json] = [item for item in response["output"] if item["type"] == "message"]
        for message in messages:
            lines = "".join(part["text"] for part in message["content"]).splitlines()
            for line in lines[: 1 + QUOTED]:
                say(f"    {shorten(RECORD.sub('a record', line), WIDTH - 4)}")
            if len(lines) > 1 + QUOTED:
                say(f"    … and {len(lines) - 1 - QUOTED} more")
        if response["status"] != "completed":
            raise SystemExit(f"the turn ended {response['status']}: {response.get('error')}")
        return str(response["id"])


def say(line: str) -> None:
    """Print one line, at once."""
    print(line.rstrip(), flush=True)


def shorten(text: str, width: int) -> str:
    """Whole words of a text, as many as fit."""
    return textwrap.shorten(text, width, placeholder=" …")


def letters(memory: Json) -> str:
    """The caller's privileges on a memory: r(ead), w(rite), c(reate), d(elete)."""
    return "".join(name[0] for name in ("read", "write", "create", "delete") if name in memory["privileges"])


def heading(title: str) -> None:
    """Print a chapter's title."""
    say(f"── {title} " + "─" * (WIDTH - len(title) - 4))


def attempt(act: Callable[[], object]) -> str:
    """The refusal that an act ran into, or that it was allowed."""
    try:
        act()
    except RefusedError as refused:
        return f"{refused.status} {refused.code}"
    return "allowed"


def arguments() -> tuple[str, str]:
    """URL and admin token, from the command line or from where `make run` puts them."""
    home = Path(os.environ.get("GROVE_HOME", Path.home() / ".local/share/grovekeeper"))
    port = os.environ.get("GROVE_PORT", "8080")
    parser = argparse.ArgumentParser(
        description="Load a support desk into Grovekeeper and look at it as five people."
    )
    parser.add_argument("--url", default=f"http://127.0.0.1:{port}", help="where the server answers")
    parser.add_argument("--admin-token", help="default: what is in $GROVE_HOME/admin.token")
    given = parser.parse_args()
    token: str | None = given.admin_token
    if token is None:
        try:
            token = (home / "admin.token").read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise SystemExit(
                f"no admin token ({problem}); is `make run` up? Or give --admin-token"
            ) from problem
    return str(given.url), token


def main() -> int:
    """Tokens for five callers, the story, and the tokens revoked again."""
    url, admin_token = arguments()
    admin = Caller(url, admin_token)
    issued = {
        name: admin.post("/v1/grovekeeper/tokens", {person.kind: person.id, "groups": list(person.groups)})
        for name, person in PEOPLE.items()
    }
    try:
        desk = Desk({name: Caller(url, token["token"]) for name, token in issued.items()})
        desk.clear()
        desk.plant()
        desk.load()
        for chapter in (
            desk.trees,
            desk.questions,
            desk.searching,
            desk.change,
            desk.turns,
            desk.revocation,
        ):
            say("")
            chapter()
    finally:
        for token in issued.values():
            admin.call("DELETE", f"/v1/grovekeeper/tokens/{token['id']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except httpx.TransportError as problem:
        sys.exit(f"the server did not answer ({type(problem).__name__}); is `make run` up?")
    except RefusedError as refused:
        sys.exit(f"the server refused: {refused}")
