"""`job.attach` and `job.input`: the attachments of a connection, which end with it, and the stdin of their jobs."""

import binascii

from msgspec import Struct

from semantica_daemon.engine.attachments import Attachments
from semantica_daemon.errors import InvalidParams
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.wire.attach import Attached, AttachParams, InputParams, InputResult


class AttachMethods(Struct, frozen=True):
    attachments: Attachments

    def bindings(self) -> dict[str, Binding]:
        return {"job.attach": ConnectionCall(self._attach), "job.input": Call(self._input)}

    async def _attach(self, connection: Connection, params: AttachParams) -> Attached:
        attachment = self.attachments.open(params.stdin, _window(params))
        connection.at_end.append(lambda: self.attachments.close(attachment))
        return Attached(attachment.attach_id)

    async def _input(self, params: InputParams) -> InputResult:
        attachment = self.attachments.find(params.attach_id)
        if attachment is None:
            raise InvalidParams("no open attachment has this id", "call job.attach first", path="$.attach_id")
        if (window := _window(params)) is not None:
            attachment.resize(window)
            return InputResult(attachment.has_input)
        try:
            data = binascii.a2b_base64(params.data, strict_mode=True)
        except ValueError as error:
            raise InvalidParams(f"not base64: {error}", "encode the bytes in base64", path="$.data") from None
        return InputResult(await attachment.write(data, params.eof))


def _window(params: AttachParams | InputParams) -> tuple[int, int] | None:
    if (params.rows is None) != (params.columns is None):
        raise InvalidParams("rows and columns go together", "give both, or none of them", path="$.rows")
    return None if params.rows is None or params.columns is None else (params.rows, params.columns)
