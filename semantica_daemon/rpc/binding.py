"""Binds the methods of the wire's table to code: to a verb of the store, or to a call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from semantica_daemon.errors import NotSupported, UnknownMethod, did_you_mean
from semantica_daemon.rpc.protocol import LONGEST_NAME
from semantica_daemon.store.database import Verb
from semantica_daemon.wire.methods import LATER, METHODS


class Write(Struct, frozen=True, gc=False):
    """Submits a verb to the command queue directly, without a task. `prepare` converts the params to the verb's
    request; without it the params are the request."""

    verb: Verb
    prepare: Callable[[Any], Any] | None = None
    writes: ClassVar[bool] = True


class Call(Struct, frozen=True, gc=False):
    """`writes`: refused while the daemon is stopping."""

    function: Callable[[Any], Awaitable[Any]]
    writes: bool = False


class ConnectionCall(Struct, frozen=True, gc=False):
    """A call that uses the connection it came on, its first argument. When the method `waits`, the function takes its
    turn (`Calls.turn`) before it loads the reply into memory; for all others the connection does, before they begin.
    `writes`: refused while the daemon is stopping."""

    function: Callable[[Any, Any], Awaitable[Any]]
    writes: bool = False


class Immediate(Struct, frozen=True, gc=False):
    """A function of the connection and the params that runs at once, before the next message is looked at."""

    function: Callable[[Any, Any], Any]
    writes: ClassVar[bool] = False


Binding = Write | Call | ConnectionCall | Immediate


class Method(Struct, frozen=True, gc=False):
    """A row of the table with its binding."""

    fields: tuple[str, ...]
    decode: Callable[[Any], Any]
    binding: Binding
    waits: bool


def bind(bindings: Mapping[str, Binding]) -> dict[str, Method]:
    """Raises when the bindings are not exactly the methods of the wire's table."""
    missing = {row.name for row in METHODS} ^ bindings.keys()
    if missing:
        raise ValueError(f"the table and the bindings differ in {', '.join(sorted(missing))}")
    methods = {}
    for row in METHODS:
        fields, decode = row.params.__struct_encode_fields__, msgspec.json.Decoder(row.params).decode
        methods[row.name] = Method(fields, decode, bindings[row.name], row.waits)
    return methods


def unknown_method(name: str) -> Exception:
    """The error for a method that does not exist."""
    family, _, verb = name.partition(".")
    if verb and verb in LATER.get(family, "").split():
        return NotSupported(f"{name} is not supported by this version", "a later version brings it")
    shown = name[:LONGEST_NAME]
    hint = did_you_mean(shown, (row.name for row in METHODS)) or "rpc.discover lists the methods"
    return UnknownMethod(f"no method {shown}", hint)
