"""`semantica add --each`: one job for each line of stdin, many of them in one call. `add` adds a single job."""

import json
from collections.abc import Iterator

from semantica_daemon import prose
from semantica_daemon.cli import job_options, last_job, needs, payload
from semantica_daemon.cli.command import Any, Json, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.terminal import print_error

LINE = "{}"
LABELS = ("subject_key", "idempotency_key", "user_tag", "chain_group_id")
MOST_IN_CALL = 1000
LARGEST_CALL = 15_000_000  # bytes; the daemon takes a little more


def add(arguments: Any, terminal: Terminal) -> None:
    """Prints the ids in the order of the lines, after each call, whose jobs are added together or not at all."""
    if not any(LINE in word for word in arguments.command):
        hint = "write {} where the line belongs: semantica add --each -- lint {} < files"
        raise CommandFailed("--each: the command has no {}", hint)
    if arguments.stdin or arguments.payload == "-":
        raise CommandFailed("--each reads the lines from stdin, and so would --stdin", "leave out one of them")
    lines = [line for line in payload.read_stdin().split("\n") if line]
    if not lines:
        return terminal.note("stdin has no lines: no job was added")
    spec, acks = job_options.job_spec(arguments), list[Json]()
    try:
        with terminal.client() as client:
            spec = payload.complete(client, needs.resolve(client, terminal.paths, spec))
            # The same for all jobs, so it is sent once in each call.
            shared = {"environment": spec.pop("environment")} if "environment" in spec else {}
            for jobs in _calls([_for_line(spec, line, arguments) for line in lines], len(json.dumps(shared))):
                added = client.call("job.enqueue_many", jobs=jobs, **shared)["jobs"]
                acks += added
                _print_ids(terminal, added)
    finally:
        if acks and terminal.as_json:
            terminal.print_json({"jobs": acks})
        if acks and len(acks) < len(lines):
            print_error(_summary(acks, len(lines)))
        elif acks:
            terminal.note(_summary(acks, len(lines)))


def _print_ids(terminal: Terminal, added: list[Json]) -> None:
    """At once, so that the ids of stored jobs are known even if this command is killed."""
    last_job.remember(terminal.paths, added[-1]["job_id"])
    if not terminal.as_json:
        terminal.show(added, [ack["job_id"] for ack in added])
        terminal.flush()


def _for_line(spec: Json, line: str, arguments: Any) -> Json:
    """The spec with the line for each {}."""
    argv = [word.replace(LINE, line) for word in spec["payload"]["argv"]]
    labels = {name: spec[name].replace(LINE, line) for name in LABELS if name in spec}
    found = {**spec, **labels, "payload": {**spec["payload"], "argv": argv}}
    if arguments.env and "env_vars" in spec:
        named = {text.partition("=")[0] for text in arguments.env if "=" in text}
        values = spec["env_vars"].items()
        found["env_vars"] = {name: text.replace(LINE, line) if name in named else text for name, text in values}
    if arguments.type is None and "template_id" not in spec:
        found["job_type"] = payload.default_type(arguments, argv, found.get("subject_key"))
    return found


def _calls(jobs: list[Json], shared_bytes: int) -> Iterator[list[Json]]:
    """Splits the jobs at the limits of a call, which has so many bytes besides."""
    call: list[Json] = []
    size = shared_bytes
    for job in jobs:
        own = len(json.dumps(job))
        if call and (len(call) == MOST_IN_CALL or size + own > LARGEST_CALL):
            yield call
            call, size = [], shared_bytes
        call.append(job)
        size += own
    if call:
        yield call


def _summary(acks: list[Json], lines: int) -> str:
    known = sum(ack["existing"] for ack in acks)
    text = f"added {prose.count(len(acks) - known, 'job')}"
    text += f"; {known} {'was' if known == 1 else 'were'} added before" if known else ""
    return f"{text}; {prose.count(lines - len(acks), 'line')} are left" if lines > len(acks) else text
