"""What `hold`, `release` and `archive` share: a call that changes the jobs of a selection, and what they print."""

from semantica_daemon import prose
from semantica_daemon.cli import ids, selection
from semantica_daemon.cli.command import Any, Command, Option, Terminal

DRY_RUN = Option("--dry-run", "change nothing; print the ids of the jobs that would be changed")


class Wording:
    """`kind`: of the jobs that are changed. `one` and `many`: what has become of them; in `one`, {} is the job.
    `would`: what would become of them. `not_changed`: why a job was left alone."""

    def __init__(self, kind: str, one: str, many: str, would: str, not_changed: str) -> None:
        self.kind = kind
        self.one = one
        self.many = many
        self.would = would
        self.not_changed = not_changed


def command(name: str, selected: str, wording: Wording, summary: str, examples: str) -> Command:
    """The command that calls `job.NAME`. `selected`: the kind of jobs that an option such as --tag selects."""

    def run(arguments: Any, terminal: Terminal) -> None:
        with terminal.client() as client:
            params, phrase = selection.params(client, terminal, name, arguments)
            result = client.call(f"job.{name}", **params, dry_run=arguments.dry_run)
        if terminal.as_json:
            return terminal.print_json(result)
        changed = result["changed"]
        for job_id in changed:
            terminal.print(job_id)
        if arguments.dry_run:
            return terminal.note(f"{prose.count(len(changed), 'job')} would be {wording.would}")
        if changed:
            one = wording.one.format(prose.short_id(changed[0]))
            terminal.note(one if len(changed) == 1 else f"{len(changed)} jobs {wording.many}")
        for job_id in result["unchanged"] if arguments.id else ():
            terminal.note(f"job {prose.short_id(job_id)} {wording.not_changed}")
        if not changed and not arguments.id:
            terminal.note(f"no {wording.kind} job {phrase}")

    jobs = Option("id ID", "ids, prefixes of ids, or @last", ids.check, nargs="*")
    return Command(summary, run, [jobs, *selection.selectors(selected).values(), DRY_RUN], examples)
