"""Who takes part: the callers, the customers, and what the company's handbook says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    """Who calls, as what, and in which groups."""

    kind: str
    id: str
    who: str
    groups: tuple[str, ...] = ()


PEOPLE = {
    "ruth": Person("person", "ruth", "director; creates the tree, so holds everything on it"),
    "maya": Person("person", "maya", "support lead; granted read, write, create on the root", ("support",)),
    "tom": Person("person", "tom", "agent; has only what the group `support` was granted", ("support",)),
    "lab": Person("credential", "ostrander-backend", "a customer's own backend; granted read on its branch"),
    "lee": Person("person", "lee", "has a token and no grant"),
}

CUSTOMERS = {
    "halden": (
        "Halden Bakeries",
        "Three bakeries and soon a fourth: alarms, limits, invoices, who is in charge.",
    ),
    "ostrander": (
        "Ostrander Lab",
        "A tissue bank in deep freezers: who is called, what changed, what is due.",
    ),
    "reyes": (
        "Reyes Fish Market",
        "A fishmonger at the harbour: the move, the signal, the claim for the hake.",
    ),
    "northgate": ("Northgate Pharmacy", "A vaccine fridge, its reports and its auditor."),
    "mirador": ("Hotel Mirador", "Two kitchens, the contract and the season of the beach bar."),
}

HANDBOOK = {
    "hours": "The support desk is open from 08:00 to 18:00, Monday to Friday.",
    "prices": "A hub costs €209 and a puck €44. Basic is €9 and Plus €19 a month for each site.",
    "returns": "Returned pucks go to Unit 7, Ropewalk Estate, Ardmouth; a label is in every parcel.",
    "warranty": "The warranty on hubs and pucks is two years from the date of the invoice.",
    "product": "Frostline is a hub, wireless temperature sensors called pucks, and an app that raises alarms.",
}
NEW_HOURS = "The support desk is open from 07:00 to 19:00, Monday to Friday."
