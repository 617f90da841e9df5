"""The `template` family: job specs that are stored under a name."""

from semantica_daemon.engine.readers import Readers
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import catalogue
from semantica_daemon.store.writes import templates


def bindings(readers: Readers) -> dict[str, Binding]:
    return {
        "template.put": Write(templates.put),
        "template.get": Call(readers.taking_params(catalogue.template)),
        "template.list": Call(readers.taking_params(catalogue.templates)),
        "template.delete": Write(templates.delete),
    }
