"""`semantica retry`: adds jobs that have ended once more, each as a new job."""

from semantica_daemon import prose
from semantica_daemon.cli import ids, last_job
from semantica_daemon.cli.add import print_notes
from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.payload import parse_object


def run(arguments: Any, terminal: Terminal) -> None:
    changes = {} if arguments.payload is None else {"payload": parse_object(arguments.payload, "the payload")}
    with terminal.client() as client:
        for text in arguments.id:
            job_id = ids.resolve(client, terminal.paths, text)
            ack = client.call("job.retry", job_id=job_id, force=arguments.force, **changes)
            last_job.remember(terminal.paths, ack["job_id"])
            if terminal.as_json:
                terminal.print_json(ack, lines=len(arguments.id) > 1)
            else:
                terminal.print(ack["job_id"])
            terminal.note(f"job {prose.short_id(ack['job_id'])} repeats {prose.short_id(job_id)}")
            print_notes(terminal, ack)


OPTIONS = [
    ids.JOBS,
    Option("--force", "also when a newer job of the same subject and type is known"),
    Option("--payload JSON", "with this payload instead of its own"),
]
COMMAND = Command(
    "Add jobs that have ended once more. Each is a new job with the same command, folder, environment and options; it "
    "starts as soon as it can, whatever time or event the first one waited for. Prints the new ids.",
    run,
    OPTIONS,
    """
  semantica retry @last && semantica logs -f @last
  semantica retry 3f2a 77c0
  semantica retry 3f2a --force       although a newer version of its file was added since""",
)
