"""Which variables go on to a job, and which of them are secrets: by name, as a table."""

from semantica_daemon.environment import allowed, is_reserved, is_secret
from tests.cases import each_case

GO_ON = [
    "PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TERM", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "SSH_AUTH_SOCK",
    "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "NVM_DIR", "PYENV_ROOT",
]  # fmt: skip
STAY = ["PWD", "OLDPWD", "PYTHONPATH", "LD_PRELOAD", "GITHUB_TOKEN", "path", "XPATH", "NOTIFY_SOCKET", "SEMANTICA_HOME"]
OURS = [
    "SEMANTICA_SOCKET", "SEMANTICA_ANYTHING", "TRACEPARENT", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
    "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "INVOCATION_ID", "JOURNAL_STREAM",
]  # fmt: skip
SECRETS = [
    "GITHUB_TOKEN", "token", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MyPassword", "API_KEY", "APIKEY2", "DB_PASS",
    "PASS", "MYSQL_PASSWD", "API_KEYS", "GOOGLE_APPLICATION_CREDENTIALS", "NPM_AUTH", "AUTH_HEADER", "TOKEN2",
    "GPG_PASSPHRASE",
]  # fmt: skip
NO_SECRETS = [
    "PATH", "HOME", "USER", "SSH_AUTH_SOCK", "EDITOR", "", "COMPASS", "KEYBOARD", "GIT_AUTHOR_NAME", "GIT_ASKPASS",
    "TOKENIZERS_PARALLELISM", "GNOME_KEYRING_CONTROL", "XAUTHORITY", "MONKEY", "S", "_",
]  # fmt: skip


@each_case("name", GO_ON)
def test_what_a_program_needs_to_feel_at_home_goes_on(name: str) -> None:
    assert allowed({name: "x"}) == {name: "x"}


@each_case("name", STAY)
def test_anything_else_stays(name: str) -> None:
    assert allowed({name: "x"}) == {}


@each_case("name", OURS)
def test_what_is_ours_or_a_service_s_is_never_taken_from_outside(name: str) -> None:
    assert is_reserved(name)
    assert allowed({name: "x"}) == {}


@each_case("name", GO_ON)
def test_what_goes_on_is_neither_ours_nor_a_secret(name: str) -> None:
    assert not is_reserved(name)
    assert not is_secret(name)


@each_case(("names", "expected"), [(SECRETS, True), (NO_SECRETS, False)])
def test_a_secret_is_known_by_its_name(names: list[str], expected: bool) -> None:
    assert [is_secret(name) for name in names] == [expected] * len(names)
