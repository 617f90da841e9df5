"""The `machine` family: whether the machine is idle and on mains."""

from semantica_daemon.engine.machine import Machine
from semantica_daemon.rpc.binding import Binding, Call


def bindings(machine: Machine) -> dict[str, Binding]:
    return {"machine.get": Call(machine.view), "machine.activity": Call(machine.activity)}
