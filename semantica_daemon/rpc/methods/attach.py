"""`job.attach`: the attachments of a connection. They end with it."""

from msgspec import Struct

from semantica_daemon.engine.attachments import Attachments
from semantica_daemon.rpc.binding import Binding, ConnectionCall
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.wire.job import Attached
from semantica_daemon.wire.types import Params


class AttachMethods(Struct, frozen=True):
    attachments: Attachments

    def bindings(self) -> dict[str, Binding]:
        return {"job.attach": ConnectionCall(self._attach)}

    async def _attach(self, connection: Connection, params: Params) -> Attached:
        attachment = self.attachments.open()
        connection.at_end.append(lambda: self.attachments.close(attachment))
        return Attached(attachment.attach_id)
