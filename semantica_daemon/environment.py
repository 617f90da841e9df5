"""Which environment variables a job gets, and which of them are secrets. Standard library only: the client applies it
to the environment of its caller, the daemon to its own."""

import os
from binascii import b2a_base64

NAMES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "TMPDIR", "EDITOR",
    "VISUAL", "PAGER", "VIRTUAL_ENV", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
    "GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "JAVA_HOME", "VOLTA_HOME",
    "PNPM_HOME", "BUN_INSTALL",
})  # fmt: skip
PREFIXES = (
    "LC_", "CONDA_", "XDG_", "PYENV_", "NVM_", "FNM_", "NODENV_", "RBENV_", "ASDF_", "MISE_", "SDKMAN_", "JENV_",
)  # fmt: skip
# Set by a service manager: with them a job would talk to the manager of the daemon.
SERVICE_MANAGER = ("NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "WATCHDOG_", "LISTEN_")
# The words that mark the name of a variable as secret.
SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "APIKEY", "KEY", "CREDENTIAL", "AUTH")
LONGEST_SHORT_WORD = 4
REDACTED = "***"
# What Python sets LC_CTYPE to when it starts in the C locale (PEP 538).
COERCED = ("C.UTF-8", "C.utf8")


def allowed(environment: "os._Environ[str] | dict[str, str]") -> dict[str, str]:
    """The variables that a job gets without asking for them."""
    return {name: value for name, value in environment.items() if is_allowed(name)}


def restore_locale(environment: "os._Environ[str]", at_start: str = "/proc/self/environ") -> None:
    """Gives LC_CTYPE the value that this process was started with: Python changes it in the C locale. Where the system
    does not keep that value, the variable is removed."""
    if environment.get("LC_CTYPE") not in COERCED or environment.get("LC_ALL"):
        return
    try:
        with open(at_start, "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        variables = []
    given = [one for one in variables if one.startswith(b"LC_CTYPE=")]
    if given:
        environment["LC_CTYPE"] = os.fsdecode(given[0].partition(b"=")[2])
    else:
        del environment["LC_CTYPE"]


def is_allowed(name: str) -> bool:
    """Whether the name is on the short list."""
    return name in NAMES or name.startswith(PREFIXES)


def environment_to_send(
    environment: "os._Environ[str] | dict[str, str]", folder: "str | None" = None
) -> "dict[str, str | dict[str, str]]":
    """The environment as the client hands it over with a command, without the variables that only the daemon sets. A
    value that is not UTF-8 is sent as base64. `folder`: where the command runs, if that is not the current one."""
    chosen = {name: value for name, value in environment.items() if not is_reserved(name) and is_text(name)}
    if folder is not None and "PWD" in chosen:
        chosen["PWD"] = folder
    return {name: value if is_text(value) else _packed(value) for name, value in chosen.items()}


def _packed(value: str) -> "dict[str, str]":
    return {"base64": b2a_base64(os.fsencode(value), newline=False).decode()}


def variables_to_send(environment: "os._Environ[str] | dict[str, str]", everything: bool = False) -> dict[str, str]:
    """What the client stores in a template: the allowed variables, or all of them, as far as a job may be given them
    and JSON can carry them."""
    chosen = environment if everything else allowed(environment)
    return {name: value for name, value in chosen.items() if may_be_given(name) and is_text(value)}


def may_be_given(name: str) -> bool:
    """False for the names of exported shell functions and for the daemon's own variables."""
    return name.isidentifier() and name.isascii() and not is_reserved(name)


def is_text(value: str) -> bool:
    """False when bytes that are not UTF-8 came in as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_secret(name: str, words: "tuple[str, ...]" = SECRET_WORDS) -> bool:
    """Decided by the name, whose parts are separated by `_`. A part is secret when it is one of the words, or ends with
    one that has more than four letters: PGPASSWORD and API_KEYS are secrets, COMPASS and KEYBOARD are not. A secret
    value is passed to the process and never stored, shown or hashed."""
    if name in NAMES:
        return False
    parts = [part.rstrip("0123456789") for part in name.upper().split("_")]
    parts += [part.removesuffix("S") for part in parts]
    return any(word in parts or (len(word) > LONGEST_SHORT_WORD and _ends_with(parts, word)) for word in words)


def _ends_with(parts: "list[str]", word: str) -> bool:
    return any(part.endswith(word) for part in parts)


def is_reserved(name: str) -> bool:
    """Variables that only the daemon sets for a job, and those of its service manager."""
    return name.startswith(("SEMANTICA_", *SERVICE_MANAGER)) or name == "TRACEPARENT"
