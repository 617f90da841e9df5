"""The environment that a caller hands over with a command: what of it is stored, and what of it is shown. `environment`
has the rules for the names; `store/environments` stores each content once."""

import hashlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from semantica_daemon import environment
from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.command import LONGEST_STRING, POINTER_BYTES, size_of
from semantica_daemon.wire.job import Bytes
from semantica_daemon.wire.job_view import JobEnvironment

_variables = msgspec.json.Decoder(dict[str, str | Bytes])
_names = msgspec.json.Decoder(list[str])


class StoredEnvironment(Struct, frozen=True, gc=False):
    """The columns of `environments`: the variables without the secrets, and the names of the secrets, both as JSON.
    `left_out`: 1 when the values of the secrets are gone."""

    hash: str
    variables: str
    secrets: str | None
    left_out: int = 0

    @property
    def secret_names(self) -> list[str]:
        return _names.decode(self.secrets) if self.secrets else []


class CallerEnvironment(Struct, frozen=True, gc=False):
    """An environment that was checked, for one job or for all jobs of a call. `sizes`: the bytes of each variable."""

    sizes: dict[str, int]
    secrets: dict[str, str]
    stored: StoredEnvironment

    def size_beneath(self, env: dict[str, str]) -> int:
        """The bytes in the environment of a process, without the variables that `env` replaces; refuses a variable
        that is longer than the system takes."""
        sizes = {name: size for name, size in self.sizes.items() if name not in env} if env else self.sizes
        for name, size in sizes.items():
            if size > LONGEST_STRING:
                problem = f"variable {name[:80]} has {size} bytes, the system takes {LONGEST_STRING}"
                raise InvalidParams(problem, "leave it out, or put it into a file", path="$.environment")
        return sum(sizes.values()) + POINTER_BYTES * len(sizes)


def text_of(value: str | Bytes) -> str:
    """Bytes that are not UTF-8 become lone surrogates, as in os.environ."""
    return value if isinstance(value, str) else value.base64.decode("utf-8", "surrogateescape")


def checked_variables(variables: dict[str, str | Bytes]) -> dict[str, str]:
    """The variables that a job may be given; refuses what no environment can hold."""
    found = {}
    for name, value in variables.items():
        text = text_of(value)
        if not name or "=" in name or "\0" in name or "\0" in text:
            problem = f"{name[:80]!r} has an empty name, a = in its name, or a NUL byte"
            raise InvalidParams(problem, "send the variables as the system has them", path="$.environment")
        if not environment.is_reserved(name):
            found[name] = text
    return found


def prepared(given: dict[str, str | Bytes], is_secret: Callable[[str], bool]) -> CallerEnvironment:
    variables = checked_variables(given)
    sizes = {name: size_of(f"{name}={text}") for name, text in variables.items()}
    secrets = {name: value for name, value in variables.items() if is_secret(name)}
    return CallerEnvironment(sizes, secrets, stored(variables, list(secrets)))


def stored(variables: dict[str, str], secrets: list[str]) -> StoredEnvironment:
    plain = {name: _value(text) for name, text in variables.items() if name not in secrets}
    text = msgspec.json.encode(plain, order="sorted")
    names = msgspec.json.encode(sorted(secrets)) if secrets else b""
    return StoredEnvironment(hashlib.sha256(text + names).hexdigest(), text.decode(), names.decode() or None)


def variables_of(text: str) -> dict[str, str]:
    """The variables of a stored environment, without its secrets."""
    return {name: text_of(value) for name, value in _variables.decode(text).items()}


def view(kept: StoredEnvironment) -> JobEnvironment:
    """What callers are shown of it."""
    unusual = sorted(name for name in _variables.decode(kept.variables) if not environment.is_allowed(name))
    return JobEnvironment(kept.hash, unusual, kept.secret_names, kept.secret_names if kept.left_out else [])


def _value(text: str) -> str | Bytes:
    return text if environment.is_text(text) else Bytes(text.encode("utf-8", "surrogateescape"))
