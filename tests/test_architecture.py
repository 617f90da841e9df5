"""The house keeps its rooms: who imports whom, how long things are, where SQL may stand, what nothing is called."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "semantica_daemon"
MODULES = sorted(PACKAGE.rglob("*.py"))
PYTHON = sorted([*MODULES, *(ROOT / "tests").rglob("*.py")])

# Whose modules a room may import; its own always. "" is the package itself (VERSION, PROTOCOL).
MAY_IMPORT: dict[str, set[str]] = {
    "": set(),
    "errors": set(),
    "clock": set(),
    "failures": set(),
    "failpoints": set(),
    "environment": set(),
    "places": set(),
    "paths": {"places"},
    "forks": set(),
    "lock": {"forks", "paths", "errors"},
    "supervisor": set(),
    "model": {"environment", "errors"},
    "store": {"model", "errors", "failpoints"},
    "engine": {"supervisor", "forks", "store", "model", "environment", "errors", "clock", "failpoints", "failures"},
    "rpc": {"engine", "store", "model", "errors", "clock", "paths", "forks", "lock", ""},
    "config": {"model", "errors"},
    "logs": {"store", "model"},
    "client": {"places", "environment", ""},
    "daemon": {
        "rpc", "engine", "store", "model", "errors", "clock", "config", "logs", "paths", "lock", "forks",
        "failpoints", "environment", "supervisor", "",
    },
    "serving": {"daemon", "engine", "config", "logs", "paths", "clock", "errors", ""},
    "__main__": {"serving", "errors", ""},
}  # fmt: skip
IMPURE = {
    "aiosqlite", "anyio", "asyncio", "datetime", "io", "logging", "os", "pathlib", "random", "socket", "sqlite3",
    "structlog", "subprocess", "sys", "tempfile", "threading", "time",
}  # fmt: skip
EDGES = {"model/cron.py": {"datetime"}}  # cronsim and zoneinfo speak it; epoch ms go in and come out
BANNED = {"utils", "util", "helpers", "helper", "common", "base", "manager", "service"}
# Around a verb, around user code, around a request; the writer's own, carried over from its thread, end the daemon.
CATCH_ALLS = {"store/database.py", "engine/in_process.py", "rpc/connection.py"}
CATCH_ALLS |= {"engine/thread.py", "engine/writer.py", "serving.py", "client/__main__.py"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 40

SQL = re.compile(
    r"\b(SELECT\s+\S+.*\bFROM\b|INSERT\s+(OR \w+ )?INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b|CREATE\s+(TABLE|INDEX)\b"
    r"|PRAGMA\s+\w+|BEGIN IMMEDIATE|SAVEPOINT)",
    re.DOTALL,
)
NEW_JOB = re.compile(r"\b(INSERT|REPLACE)\s+(OR\s+\w+\s+)?INTO\s+jobs\b")
SET_STATE = re.compile(r"\bUPDATE\s+(OR\s+\w+\s+)?jobs\s+SET\b(?:(?!\bWHERE\b).)*?\bstate\s*=", re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported(tree: ast.Module) -> Iterator[str]:
    """Full names of what is imported, `from package import module` as package.module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(tree: ast.Module) -> set[str]:
    rooms = set()
    for name in imported(tree):
        package, _, rest = name.partition(".")
        if package == "semantica_daemon":
            first = rest.partition(".")[0]
            is_module = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
            rooms.add(first if is_module else "")
    return rooms


def texts(tree: ast.Module) -> Iterator[str]:
    """Every string of a module, f-strings joined, docstrings left out."""
    documented = (node for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    docstrings = {ast.get_docstring(node, clean=False) for node in documented}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & inside:
            yield from {node.value} - docstrings


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_room_is_known() -> None:
    assert {room_of(path) for path in MODULES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    assert rooms_imported(tree_of(path)) <= MAY_IMPORT[room] | {room}


def test_only_the_daemon_sees_the_whole_config() -> None:
    assert {room_of(path) for path in MODULES if "config" in rooms_imported(tree_of(path))} == {"daemon", "serving"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_stand_at_the_top(path: Path) -> None:
    """The client may be lazy; it is measured in milliseconds."""
    tree = tree_of(path)
    inside = {id(node) for function in functions(tree) for node in ast.walk(function)}
    nested = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and id(node) in inside]
    assert not nested or room_of(path) == "client"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_imported_only_for_types(path: Path) -> None:
    assert "TYPE_CHECKING" not in path.read_text()


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) == "model"], ids=name_of)
def test_the_model_is_pure(path: Path) -> None:
    tree = tree_of(path)
    assert not {name.partition(".")[0] for name in imported(tree)} & IMPURE - EDGES.get(name_of(path), set())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) != "store"], ids=name_of)
def test_sql_stands_only_in_the_store(path: Path) -> None:
    assert [text for text in texts(tree_of(path)) if SQL.search(text)] == []


def test_one_module_writes_new_jobs_and_one_the_changes_of_their_state() -> None:
    assert (writers(NEW_JOB), writers(SET_STATE)) == ({"store/arrival.py"}, {"store/transition.py"})


def writers(statement: re.Pattern[str]) -> set[str]:
    return {name_of(path) for path in MODULES if any(statement.search(text) for text in texts(tree_of(path)))}


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES_OF_A_FILE
    assert ast.get_docstring(ast.parse(text)) or not text.strip(), "a module without a docstring"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_short(path: Path) -> None:
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(tree_of(path))}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_has_a_name_that_says_nothing(path: Path) -> None:
    named = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    named += [node.name for node in functions(tree_of(path))]
    words = {word.lower() for name in [*named, path.stem, path.parent.name] for word in words_of(name)}
    assert not words & BANNED


def words_of(name: str) -> list[str]:
    return re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)


def test_catch_alls_stand_only_at_the_edges() -> None:
    """Elsewhere, what is caught without a name of its own is raised again."""
    found = {name_of(path) for path in MODULES for node in ast.walk(tree_of(path)) if _swallows(node)}
    assert found <= CATCH_ALLS


def _swallows(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    everything = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    )
    return everything and not isinstance(node.body[-1], ast.Raise)


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("UPDATE jobs\nSET updated_at = 1, state = 'DONE'\nWHERE id = 1", True),
        ("UPDATE jobs SET stop_state = 'CANCELLED' WHERE state = 'RUNNING'", False),
        ("UPDATE jobs_old SET state = 1", False),
    ],
)
def test_a_write_of_the_state_is_recognised(text: str, writes: bool) -> None:
    assert bool(SET_STATE.search(text)) == writes
