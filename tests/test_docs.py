"""Every command that the README and docs/ show is run for real, as a new user: in an empty home, by the installed
`semantica`. Where a page shows what a command prints, it has to print that."""

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = Path(sys.executable).parent / "semantica"
# Stand-ins for the programs that the pages use as examples; each ends at once, and well.
PROGRAMS = ("make", "lint", "npm")
SCRIPTS = ("backup.sh", "release.sh", "reindex", "smoke-test", "promote")
WITHIN_S = 50
# How the commands begin that are run; others are only shown.
SHOWN = ("semantica ", "for ", "API_TOKEN", "git --version", "seq ", "printf ")
CODE = ("", "semantica_daemon", "migrations", "scripts", "tests")
PAGES = ("", "docs", "scripts")


class Step(NamedTuple):
    """A command as it is shown, and what it is shown to print; None when the page does not say."""

    command: str
    printed: str | None


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def steps(page: str) -> list[Step]:
    """Of the console blocks: `$` begins a command, `>` goes on with it, anything else is what it prints."""
    found: list[Step] = []
    for row in (row for block in fenced(page, "console") for row in block.splitlines()):
        if row.startswith("$ "):
            found.append(Step(row[2:], None))
        elif row.startswith("> "):
            found[-1] = Step(f"{found[-1].command}\n{row[2:]}", None)
        else:
            found[-1] = Step(found[-1].command, f"{found[-1].printed or ''}{row}\n")
    return [step for step in found if step.command.startswith(SHOWN)]


class NewUser:
    """A home with nothing in it but the files that a page tells to write, and the programs of its examples."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "repository"
        for folder in (self.folder, home / "bin", home / "run"):
            folder.mkdir(mode=0o700)
        (home / "bin" / "semantica").symlink_to(INSTALLED)
        for name in (*(f"bin/{name}" for name in PROGRAMS), *(f"repository/{name}" for name in SCRIPTS)):
            (home / name).write_text("#!/bin/sh\nexit 0\n")
            (home / name).chmod(0o755)
        path = f"{home / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        self.env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(home / "run")}
        self("git init -q; touch a.py")

    def write(self, name: str, text: str) -> None:
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text(text)

    def __call__(self, command: str) -> str:
        """What it writes to stdout; it has to end well."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def user(home: Path) -> Iterator[NewUser]:
    user = NewUser(home)
    yield user
    user("semantica stop")


FILES = {
    "docs/commands.md": [("sh", "repository/report.sh")],
    "docs/handlers.md": [("python", "jobs/index.py"), ("toml", ".config/semantica/config.toml")],
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/chains.md",
        "docs/commands.md",
        "docs/handlers.md",
        "docs/install.md",
        "docs/map.md",
        "docs/scheduling.md",
        "docs/workers.md",
    ],
)
def test_every_command_works_and_prints_what_the_page_says(user: NewUser, page: str) -> None:
    for language, name in FILES.get(page, ()):
        user.write(name, fenced(page, language)[0])
    shown = steps(page)
    assert len(shown) >= 4
    for step in shown:
        if "| jq" in step.command and shutil.which("jq") is None:
            warnings.warn(f"NOT TESTED, as there is no jq: {step.command}", stacklevel=1)
            continue
        printed = user(step.command)
        assert step.printed is None or printed == step.printed, step.command


def test_the_python_of_the_readme_runs_a_job(user: NewUser) -> None:
    user.write("repository/example.py", fenced("README.md", "python")[0])
    assert user(f"{sys.executable} example.py") == "0\n"


def test_every_link_leads_to_a_file() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(links) > 20
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def test_every_file_that_a_page_for_developers_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "docs" / "architecture.md").read_text()
    found = re.findall(r"(?<![\w./])(?:(?:[a-z_]+/)*[a-z_]{2,}\.py\b|(?:[a-z_]+/)+)", text)
    named = {name for name in found if "example" not in name}
    assert len(named) > 30
    assert [name for name in sorted(named) if not any((ROOT / place / name).exists() for place in CODE)] == []


def test_the_code_cites_only_pages_that_are_in_the_repository() -> None:
    files = [file for folder in CODE[1:] for kind in ("*.py", "*.sql") for file in (ROOT / folder).rglob(kind)]
    texts = [file.read_text() for file in files]
    cited = {name for text in texts for name in re.findall(r"[\w/-]*\w\.md\b", text)}
    assert "docs/decisions.md" in cited
    assert [name for name in sorted(cited) if not any((ROOT / place / name).exists() for place in PAGES)] == []
