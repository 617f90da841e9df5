"""JSON-RPC 2.0 as bytes: requests taken apart without decoding their params, replies put together."""

import difflib
import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from semantica_daemon.errors import InvalidParams, InvalidRequest, ParseFailed, Refusal

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LONGEST_NAME = 100
NOTHING = Raw(b"")
NULL = Raw(b"null")
EMPTY = re.compile(rb"\[\s*(null)?\s*\]|{\s*}")  # vscode-jsonrpc writes an undefined argument as [null]
AT = re.compile(r" - at (?:`key` in )?`(\$[^`]*)`$")
UNKNOWN = re.compile(r"^Object contains unknown field `([^`]*)`")


class Request(Struct, frozen=True, gc=False):
    method: str
    jsonrpc: str = ""
    id: Raw = NOTHING
    params: Raw = NOTHING

    @property
    def key(self) -> bytes:
        return bytes(self.id)


class ErrorObject(Struct, frozen=True):
    code: int
    message: str
    data: dict[str, Any]


_request = msgspec.json.Decoder(Request)
_many = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder()
_id = msgspec.json.Decoder(str | int | float | None)
encode = msgspec.json.encode


def parse(message: bytes) -> Request:
    """One request. The id is kept as it was written, so that it goes back with its type."""
    try:
        request = _request.decode(message)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"not a request: {error}", 'send {"jsonrpc":"2.0","id":1,"method":"…"}') from None
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None
    if request.jsonrpc != "2.0":
        raise InvalidRequest('"jsonrpc" must be "2.0"', "this daemon speaks JSON-RPC 2.0", _id=request.id)
    _check_id(request.id)
    return request


def parse_many(message: bytes) -> list[Raw]:
    try:
        return _many.decode(message)
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None


def arguments(request: Request, decoder: "msgspec.json.Decoder[Any]", fields: tuple[str, ...]) -> Any:
    """The params as the Struct the method takes, or a refusal that carries the path."""
    text = bytes(request.params)
    if len(text) < 16 and (text in (b"", b"null") or EMPTY.fullmatch(text)):
        text = b"{}"
    elif text[:1] == b"[":
        raise InvalidParams("params must be an object - at `$`", "name the arguments", path="$")
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), fields) from None
    except UNDECODABLE as error:
        raise ParseFailed(f"params are not JSON: {error}", "one JSON document per line, in UTF-8") from None


def reply(request_id: Raw, result: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (bytes(request_id), encode(result))


def error_reply(request_id: Raw, refusal: Refusal) -> bytes:
    details = {key: value for key, value in refusal.details.items() if not key.startswith("_")}
    data = {"code": refusal.code, "retryable": refusal.retryable, "hint": refusal.hint, **details}
    error = encode(ErrorObject(refusal.number, refusal.message, data))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (bytes(request_id) or b"null", error)


def notification(method: str, params: Any) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def same(request_id: Raw) -> bytes:
    """The id in one way of writing, so that $/cancelRequest finds it; empty for a notification."""
    return encode(_any.decode(request_id)) if bytes(request_id) else b""


def id_of(message: bytes | Raw) -> Raw:
    """The id of something that is no valid request, if it has one that can be echoed."""
    try:
        found = _any.decode(message)
    except UNDECODABLE:
        return NULL
    request_id = found.get("id") if isinstance(found, dict) else None
    echoed = isinstance(request_id, str | int | float) and not isinstance(request_id, bool)
    return Raw(encode(request_id)) if echoed else NULL


def _check_id(request_id: Raw) -> None:
    """It is echoed as it came, so it must be sound before anything is done in its name."""
    try:
        if bytes(request_id):
            _id.decode(request_id)
    except msgspec.ValidationError:
        raise InvalidRequest("the id must be a string, a number or null", "use a number that counts up") from None
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None


def _invalid(message: str, fields: tuple[str, ...]) -> InvalidParams:
    at = AT.search(message)
    path = at[1] if at else "$"
    hint = "rpc.discover lists what each method takes"
    unknown = UNKNOWN.match(message)
    if unknown:
        name = unknown[1][:LONGEST_NAME]
        near = difflib.get_close_matches(name, fields, 1) if path == "$" else []
        hint = f"did you mean {near[0]}?" if near else hint
        path = f"{path}.{name}"
        message = f"unknown field - at `{path}`"
    elif not at:
        message = f"{message} - at `$`"
    return InvalidParams(message, hint, path=path)
