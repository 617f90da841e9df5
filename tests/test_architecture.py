"""One test per architecture rule: import directions, purity of the model, where SQL stands, lengths, names, catch-alls.

Each test collects every offender of its rule before it fails.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "semantica_daemon"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# What each package or top-level module may import besides itself; "" is the package's own __init__.py.
MAY_IMPORT: dict[str, set[str]] = {
    "": set(),
    "errors": set(),
    "clock": set(),
    "failures": set(),
    "failpoints": set(),
    "environment": set(),
    "paths": set(),
    "prose": set(),
    "forks": set(),
    "systemd": {"environment", "errors"},
    "signing": {"paths"},
    "lock": {"forks", "paths", "errors"},
    "processes": set(),
    "supervisor": {"processes"},
    "wire": {"errors"},
    "model": {"wire", "prose", "environment", "errors"},
    "store": {"wire", "model", "errors", "failpoints"},
    "engine": {
        "supervisor", "processes", "forks", "store", "model", "wire", "prose", "environment", "errors", "clock",
        "failpoints", "failures", "signing",
    },
    "rpc": {"engine", "processes", "store", "model", "wire", "errors", "clock", "paths", "forks", "lock", ""},
    "config": {"model", "prose", "errors"},
    "logs": {"store", "model"},
    "client": {"paths", "environment", ""},
    "cli": {"client", "paths", "prose", "environment", ""},
    "daemon": {
        "rpc", "engine", "store", "model", "wire", "errors", "clock", "config", "logs", "paths", "lock", "forks",
        "failpoints", "environment", "processes", "systemd", "reload", "",
    },
    "reload": {"config", "wire", "errors"},
    "serving": {
        "daemon", "processes", "engine", "store", "config", "logs", "paths", "clock", "environment", "errors",
        "systemd", "",
    },
    "quick_start": set(),
    "__main__": {"quick_start", "serving", "errors", ""},
}  # fmt: skip
# A command starts in milliseconds because it imports little; cryptography is imported when the first receipt needs it.
MAY_IMPORT_IN_FUNCTIONS = {"client", "cli", "signing"}
IMPURE_MODULES = {
    "aiosqlite", "anyio", "asyncio", "datetime", "io", "logging", "os", "pathlib", "random", "socket", "sqlite3",
    "structlog", "subprocess", "sys", "tempfile", "threading", "time",
}  # fmt: skip
ALLOWED_IN_MODEL = {"model/cron.py": {"datetime"}}  # cronsim and zoneinfo take datetimes; its callers pass epoch ms
BANNED_WORDS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "service"}
NAMED_BY_THE_COMMAND = {"cli/service.py"}
CATCH_ALLS = {
    "cli/main.py", "engine/attempt.py", "engine/in_process.py", "engine/writer.py",
    "rpc/calls.py", "serving.py", "store/database.py",
}  # fmt: skip
INSERTS_JOBS = {"store/writes/new_job.py"}
UPDATES_STATE = {"store/transition.py", "store/run_transition.py"}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40

SQL = re.compile(
    r"\b(SELECT\s+\S+.*\bFROM\b|INSERT\s+(OR \w+ )?INTO\b|UPDATE\s+(OR \w+ )?\w+\s+SET\b|DELETE\s+FROM\b"
    r"|CREATE\s+(TABLE|INDEX)\b|PRAGMA\s+\w+|BEGIN IMMEDIATE|SAVEPOINT)",
    re.DOTALL,
)
INSERT_JOB = re.compile(r"\b(INSERT|REPLACE)\s+(OR\s+\w+\s+)?INTO\s+jobs\b")
UPDATE_STATE = re.compile(r"\bUPDATE\s+(OR\s+\w+\s+)?jobs\s+SET\b(?:(?!\bWHERE\b).)*?\bstate\s*=", re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_imports_go_one_way() -> None:
    found = [f"{name_of(path)} imports {wrong}" for path in MODULES for wrong in sorted(wrong_imports(path))]
    report(found)
    users = {package_of(path) for path in MODULES if "config" in packages_imported(path)}
    assert users == {"daemon", "reload", "serving"}


def test_imports_stand_at_the_top_and_none_is_only_for_types() -> None:
    found = [f"{name_of(path)} has TYPE_CHECKING" for path in MODULES if "TYPE_CHECKING" in source_of(path)]
    eager = [path for path in MODULES if package_of(path) not in MAY_IMPORT_IN_FUNCTIONS]
    found += [f"{name_of(path)}:{line} imports in a function" for path in eager for line in nested_imports(path)]
    report(found)


def test_the_model_has_no_io_no_clock_and_no_async() -> None:
    model = [path for path in MODULES if package_of(path) == "model"]
    assert model
    found = [f"{name_of(path)} imports {name}" for path in model for name in sorted(impure_imports(path))]
    found += [f"{name_of(path)} is async" for path in model if has_node(path, ast.AsyncFunctionDef, ast.Await)]
    report(found)


def test_sql_stands_only_in_the_store() -> None:
    outside = [path for path in MODULES if package_of(path) != "store"]
    report([f"{name_of(path)}: {text}" for path in outside for text in strings_of(path) if SQL.search(text)])


def test_one_module_inserts_jobs_and_one_changes_their_state() -> None:
    assert UPDATE_STATE.search("UPDATE jobs\nSET updated_at = 1, state = 'DONE'\nWHERE id = 1")
    assert not UPDATE_STATE.search("UPDATE jobs SET stop_state = 'CANCELLED' WHERE state = 'RUNNING'")
    assert not UPDATE_STATE.search("UPDATE jobs_old SET state = 1")
    assert modules_with(INSERT_JOB) == INSERTS_JOBS
    assert modules_with(UPDATE_STATE) == UPDATES_STATE


def test_files_are_short_and_have_a_docstring() -> None:
    files = [path for path in [*MODULES, *TESTS] if source_of(path).strip()]
    lines = {path: source_of(path).count("\n") for path in files}
    found = [f"{path} has {count} lines" for path, count in lines.items() if count > MAX_FILE_LINES]
    found += [f"{path} has no docstring" for path in files if not ast.get_docstring(tree_of(path))]
    report(found)


def test_functions_are_short_and_names_say_something() -> None:
    all_functions = [(path, function) for path in MODULES for function in functions(path)]
    long = [(path, function) for path, function in all_functions if length_of(function) > MAX_FUNCTION_LINES]
    found = [f"{name_of(path)}: {function.name} has {length_of(function)} lines" for path, function in long]
    named = [path for path in MODULES if name_of(path) not in NAMED_BY_THE_COMMAND]
    found += [f"{name_of(path)}: {word}" for path in named for word in sorted(words_in_names(path) & BANNED_WORDS)]
    report(found)


def test_catch_alls_stand_only_at_the_edges() -> None:
    """Elsewhere a handler of Exception raises again."""
    inner = [path for path in MODULES if name_of(path) not in CATCH_ALLS]
    report([f"{name_of(path)} swallows Exception" for path in inner if any(map(swallows, ast.walk(tree_of(path))))])


def report(offenders: list[str]) -> None:
    assert not offenders, "\n" + "\n".join(offenders)


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def package_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


@cache
def source_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(source_of(path), str(path))


@cache
def imports_of(path: Path) -> list[str]:
    """Full names of what is imported; `from package import module` gives package.module."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def packages_imported(path: Path) -> set[str]:
    """Packages and top-level modules of semantica_daemon that this module imports."""
    packages = set()
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "semantica_daemon":
            first = rest.partition(".")[0]
            is_module = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
            packages.add(first if is_module else "")
    return packages


def wrong_imports(path: Path) -> set[str]:
    own = package_of(path)
    assert own in MAY_IMPORT, f"{own}: say in MAY_IMPORT what this package may import"
    return packages_imported(path) - MAY_IMPORT[own] - {own}


def nested_imports(path: Path) -> list[int]:
    inside = [node for function in functions(path) for node in ast.walk(function)]
    return [node.lineno for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


def impure_imports(path: Path) -> set[str]:
    allowed = ALLOWED_IN_MODEL.get(name_of(path), set())
    return {name.partition(".")[0] for name in imports_of(path)} & IMPURE_MODULES - allowed


def has_node(path: Path, *kinds: type[ast.AST]) -> bool:
    return any(isinstance(node, kinds) for node in ast.walk(tree_of(path)))


def modules_with(pattern: re.Pattern[str]) -> set[str]:
    return {name_of(path) for path in MODULES if any(pattern.search(text) for text in strings_of(path))}


@cache
def strings_of(path: Path) -> list[str]:
    """Every string of a module except docstrings; an f-string is joined, with x for each replacement."""
    nodes = list(ast.walk(tree_of(path)))
    skipped = {id(docstring_node(node)) for node in nodes if isinstance(node, ast.Module | ast.ClassDef | Function)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    skipped |= {id(part) for node in joined for part in ast.walk(node)}
    plain = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in skipped]
    texts = [text for text in plain if isinstance(text, str)]
    return texts + ["".join(constant_or_x(part) for part in node.values) for node in joined]


def docstring_node(node: ast.Module | ast.ClassDef | Function) -> ast.expr | None:
    first = node.body[0] if node.body else None
    return first.value if isinstance(first, ast.Expr) else None


def constant_or_x(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "x"


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def length_of(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def words_in_names(path: Path) -> set[str]:
    names = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    names += [function.name for function in functions(path)]
    names += [path.stem, path.parent.name]
    return {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def swallows(node: ast.AST) -> bool:
    """Is this a handler of everything that does not raise again?"""
    if not isinstance(node, ast.ExceptHandler):
        return False
    names = ("Exception", "BaseException")
    catches_all = node.type is None or (isinstance(node.type, ast.Name) and node.type.id in names)
    return catches_all and not isinstance(node.body[-1], ast.Raise)
