"""The cron expression and the policies of a schedule: options of `add --every` and of `schedule put`."""

import argparse

from semantica_daemon.cli.parser import Namespace, Parser
from semantica_daemon.client.json_types import Json

POLICIES = ("misfire", "overlap")
NUMBERS_OF_FIELDS = (5, 6)


def cron(text: str) -> str:
    """A type for argparse: refuses text that has not the shape of a cron expression; the daemon checks the fields."""
    if text.startswith("@") or len(text.split()) in NUMBERS_OF_FIELDS:
        return text
    raise ValueError(f"{text!r} is not a cron expression: write '*/5 * * * *' or @daily")


def add_policies(group: "argparse._ArgumentGroup | Parser") -> None:
    group.add_argument("--misfire", choices=("run_once", "skip", "run_all"),
                       help="instants missed while no daemon ran: add one job (run_once), none, or all")  # fmt: skip
    group.add_argument("--overlap", choices=("queue", "skip", "supersede"),
                       help="its previous job is not over: wait for it (queue), add none, or replace it")  # fmt: skip


def policies(arguments: Namespace) -> Json:
    return {policy: value for policy in POLICIES if (value := getattr(arguments, policy)) is not None}
