"""JSON-RPC 2.0 as bytes: parses requests without decoding their params, and builds replies and requests."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from semantica_daemon.errors import InvalidParams, InvalidRequest, ParseFailed, Refusal, did_you_mean, located
from semantica_daemon.model.encoding import encode_large

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LONGEST_NAME = 100
NO_PARAMS = Raw(b"{}")
EMPTY = re.compile(rb"null|\[\s*(null)?\s*\]")  # vscode-jsonrpc writes an undefined argument as [null]
UNKNOWN = re.compile(r"^Object contains unknown field `([^`]*)`")

Id = str | int | float | None


class Request(Struct, frozen=True, gc=False):
    """The id is UNSET in a notification."""

    method: str
    jsonrpc: str = ""
    id: Id | UnsetType = UNSET
    params: Raw = NO_PARAMS


class RequestId(Struct, frozen=True):
    """The id of a message that is no valid request."""

    id: Id = None


class Reply(Struct, frozen=True, gc=False):
    jsonrpc: str
    id: Id
    result: Any


class ErrorObject(Struct, frozen=True):
    code: int
    message: str
    data: Any = None


class ErrorReply(Struct, frozen=True, gc=False):
    jsonrpc: str
    id: Id
    error: ErrorObject


class Response(Struct, frozen=True):
    """A client's response to a request of the daemon, whose ids are strings."""

    id: str
    result: Any = None
    error: ErrorObject | None = None


_request = msgspec.json.Decoder(Request).decode
_request_id = msgspec.json.Decoder(RequestId).decode
_response = msgspec.json.Decoder(Response).decode
_many = msgspec.json.Decoder(list[Raw]).decode
_any_json = msgspec.json.Decoder(Raw).decode
encode = msgspec.json.Encoder().encode


def parse(message: bytes) -> Request:
    try:
        if not message.isascii():
            str(message, "utf-8")  # the decoder does not look into fields that it skips
        request = _request(message)
    except msgspec.ValidationError as error:
        _check_json(message)  # the decoder stops at the first wrong type
        if str(error).endswith("`$.id`"):
            raise InvalidRequest("the id must be a string, a number or null", "use a number that counts up") from None
        raise InvalidRequest(f"not a request: {error}", 'send {"jsonrpc":"2.0","id":1,"method":"…"}') from None
    except UNDECODABLE as error:
        raise _not_json(error) from None
    if request.jsonrpc != "2.0":
        raise InvalidRequest('"jsonrpc" must be "2.0"', "this daemon speaks JSON-RPC 2.0")
    return request


def parse_many(message: bytes) -> list[Raw]:
    try:
        str(message, "utf-8")
        return _many(message)
    except UNDECODABLE as error:
        raise _not_json(error) from None


def parse_response(message: bytes) -> Response | None:
    """None: the message is no response to a request of the daemon."""
    try:
        return _response(message)
    except UNDECODABLE:
        return None


def arguments(request: Request, decode: Callable[[Any], Any], fields: tuple[str, ...]) -> Any:
    """Decodes the params to the Struct of the method; raises a refusal with the path of the wrong field."""
    try:
        return decode(request.params)
    except msgspec.ValidationError as error:
        text, message = bytes(request.params), str(error)
    except UNDECODABLE as error:
        raise ParseFailed(f"params are not JSON: {error}", "one JSON document per line, in UTF-8") from None
    if EMPTY.fullmatch(text):
        return arguments(Request(request.method), decode, fields)
    if text[:1] == b"[":
        raise InvalidParams("params must be an object", "name the arguments", path="$")
    raise _invalid(message, fields)


def reply(request_id: Id, result: Any) -> bytes:
    return encode(Reply("2.0", request_id, result))


def large_reply(request_id: Id, result: Any) -> bytearray:
    return encode_large(Reply("2.0", request_id, result))


def error_reply(request_id: Id, refusal: Refusal) -> bytes:
    data = {"code": refusal.code, "retryable": refusal.retryable, "hint": refusal.hint, **refusal.details}
    if "path" in data:
        data["problem"] = refusal.problem
    error = ErrorObject(refusal.number, refusal.message, data)
    return encode(ErrorReply("2.0", request_id, error))


def notification(method: str, params: Any) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def request(request_id: str, method: str, params: Any) -> bytes:
    parts = encode(request_id), encode(method), encode(params)
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % parts


def id_of(message: bytes) -> Id:
    """The id of an invalid request, if it has one that can be echoed."""
    try:
        return _request_id(message).id
    except UNDECODABLE:
        return None


def _check_json(message: bytes) -> None:
    try:
        _any_json(message)
    except UNDECODABLE as error:
        raise _not_json(error) from None


def _not_json(error: Exception) -> ParseFailed:
    return ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8")


def _invalid(message: str, fields: tuple[str, ...]) -> InvalidParams:
    problem, path = located(message)
    hint = "rpc.discover lists what each method takes"
    unknown = UNKNOWN.match(message)
    if unknown:
        name = unknown[1][:LONGEST_NAME]
        hint = (did_you_mean(name, fields) if path == "$" else "") or hint
        path = f"{path}.{name}"
        problem = "unknown field"
    return InvalidParams(problem, hint, path=path, rule="schema")
