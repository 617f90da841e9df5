"""JSON-RPC 2.0 as bytes: parses requests without decoding their params, and builds replies and notifications."""

import difflib
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from semantica_daemon.errors import InvalidParams, InvalidRequest, ParseFailed, Refusal, located

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LONGEST_NAME = 100
NO_ID = Raw(b"")
NULL = Raw(b"null")
EMPTY = re.compile(rb"null|\[\s*(null)?\s*\]")  # vscode-jsonrpc writes an undefined argument as [null]
UNKNOWN = re.compile(r"^Object contains unknown field `([^`]*)`")


class Request(Struct, frozen=True, gc=False):
    """The id is kept as raw JSON, so that the reply has it in the same type; NO_ID in a notification."""

    method: str
    jsonrpc: str = ""
    id: Raw = NO_ID
    params: Raw = NO_ID


class NumberedRequest(Struct, frozen=True, gc=False):
    """A request as most clients send it: the decoder alone validates it."""

    method: str
    jsonrpc: Literal["2.0"]
    id: Annotated[int, Meta(ge=0)]
    params: Raw = NO_ID


AnyRequest = Request | NumberedRequest
Id = Raw | int


class Reply(Struct, frozen=True, gc=False):
    jsonrpc: str
    id: Id
    result: Any


class ErrorReply(Struct, frozen=True, gc=False):
    jsonrpc: str
    id: Id
    error: "ErrorObject"


class ErrorObject(Struct, frozen=True):
    code: int
    message: str
    data: Any = None


_numbered = msgspec.json.Decoder(NumberedRequest).decode
_request = msgspec.json.Decoder(Request)
_many = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder()
_id = msgspec.json.Decoder(str | int | float | None)
encode = msgspec.json.Encoder().encode


def parse(message: bytes) -> AnyRequest:
    try:
        return _numbered(message)
    except UNDECODABLE:
        return _parse_any(message)


def _parse_any(message: bytes) -> Request:
    try:
        request = _request.decode(message)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"not a request: {error}", 'send {"jsonrpc":"2.0","id":1,"method":"…"}') from None
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None
    if request.jsonrpc != "2.0":
        raise InvalidRequest('"jsonrpc" must be "2.0"', "this daemon speaks JSON-RPC 2.0", _id=request.id)
    if request.id is not NO_ID:
        _check_id(request.id)
    return request


def parse_many(message: bytes) -> list[Raw]:
    try:
        return _many.decode(message)
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None


def arguments(request: AnyRequest, decode: Callable[[Any], Any], fields: tuple[str, ...]) -> Any:
    """Decodes the params to the Struct of the method; raises a refusal with the path of the wrong field."""
    try:
        return decode(b"{}" if request.params is NO_ID else request.params)
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


def error_reply(request_id: Id, refusal: Refusal) -> bytes:
    details = {key: value for key, value in refusal.details.items() if not key.startswith("_")}
    data = {"code": refusal.code, "retryable": refusal.retryable, "hint": refusal.hint, **details}
    if "path" in details:
        data["problem"] = refusal.problem
    error = ErrorObject(refusal.number, refusal.message, data)
    return encode(ErrorReply("2.0", NULL if request_id is NO_ID else request_id, error))


def notification(method: str, params: Any) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def id_key(request_id: Id) -> bytes:
    """The id in its normal form, so that $/cancelRequest finds it; empty for a notification."""
    if isinstance(request_id, int):
        return encode(request_id)
    return b"" if request_id is NO_ID else encode(_any.decode(request_id))


def id_of(message: bytes | Raw) -> Raw:
    """The id of an invalid request, if it has one that can be echoed."""
    try:
        found = _any.decode(message)
    except UNDECODABLE:
        return NULL
    request_id = found.get("id") if isinstance(found, dict) else None
    echoed = isinstance(request_id, str | int | float) and not isinstance(request_id, bool)
    return Raw(encode(request_id)) if echoed else NULL


def _check_id(request_id: Raw) -> None:
    """The id is echoed as raw JSON, so it is validated before anything is done."""
    try:
        _id.decode(request_id)
    except msgspec.ValidationError:
        raise InvalidRequest("the id must be a string, a number or null", "use a number that counts up") from None
    except UNDECODABLE as error:
        raise ParseFailed(f"not JSON: {error}", "one JSON document per line, in UTF-8") from None


def _invalid(message: str, fields: tuple[str, ...]) -> InvalidParams:
    problem, path = located(message)
    hint = "rpc.discover lists what each method takes"
    unknown = UNKNOWN.match(message)
    if unknown:
        name = unknown[1][:LONGEST_NAME]
        near = difflib.get_close_matches(name, fields, 1) if path == "$" else []
        hint = f"did you mean {near[0]}?" if near else hint
        path = f"{path}.{name}"
        problem = "unknown field"
    return InvalidParams(problem, hint, path=path, rule="schema")
