"""The `group` family: create, look up, cancel and wait for groups."""

from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall, Write
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.store import groups
from semantica_daemon.store.writes.groups import create
from semantica_daemon.wire.group import WaitGroupParams, WaitGroupResult


def bindings(readers: Readers, waiting: Waiting) -> dict[str, Binding]:
    async def wait(connection: Connection, params: WaitGroupParams) -> WaitGroupResult:
        ended = await waiting.until_group_ended(params.chain_group_id, params.timeout_ms)
        await connection.calls.turn()
        return WaitGroupResult(ended, await readers.query(groups.summary, params.chain_group_id))

    return {
        "group.create": Write(create),
        "group.get": Call(readers.taking_params(groups.get)),
        "group.list": Call(readers.taking_params(groups.listed)),
        "group.cancel": Call(waiting.cancel_group, writes=True),
        "group.wait": ConnectionCall(wait),
    }
