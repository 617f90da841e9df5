"""How a graph of jobs is drawn: the shape of its trees, what fits into a line, and the document for Graphviz."""

import itertools
from typing import Any

from semantica_daemon.cli.graph_drawing import ASCII, BOXES, characters, dot, lines
from tests.cases import each_case


def graph(**parents: str) -> dict[str, Any]:
    """Jobs by name, each with the names of its parents; one that begins with ? is not shown."""
    common = {"job_type": "T", "state": "DONE", "started_at": None, "finished_at": None}
    nodes = [
        {"job_id": name, "argv": ["run", name], "hidden_parents": needs.count("?"), **common}
        for name, needs in parents.items()
    ]
    edges = [{"parent_id": one, "job_id": name} for name, needs in parents.items() for one in needs if one in parents]
    return {"nodes": nodes, "edges": edges, "truncated": False}


def drawn(found: dict[str, Any], chars: Any = BOXES) -> list[str]:
    """The trees and the notes, without what is between them."""
    rows = [line.replace("DONE    run ", "") for line in lines(found, chars, None, False)]
    return [" ".join(word for word in row.split("  ") if word) for row in rows]


def test_a_chain_stays_in_its_column() -> None:
    assert drawn(graph(a="", b="a", c="b")) == ["● a a", "↓ b b", "↓ c c"]


def test_children_are_branches_and_their_chains_go_on_below_them() -> None:
    found = graph(a="", b="a", c="a", d="b", e="b", f="c")
    assert [line.rsplit(" ", 1)[0] for line in drawn(found)] == ["● a", "├─● b", "│ ├─● d", "│ └─● e", "└─● c", "↓ f"]


def test_a_job_with_several_parents_is_drawn_below_the_newest_and_names_the_others() -> None:
    assert drawn(graph(a="", b="a", c="a", d="bc"))[-1] == "↓ d d (also needs b)"
    assert drawn(graph(a="", b="", c="", d="", e="", f="abcde"))[-1] == "↓ f f (also needs a, b, c, 1 more job)"


@each_case(
    ("needs", "note"),
    [
        ("?", "(needs 1 job not shown here)"),
        ("??", "(needs 2 jobs not shown here)"),
        ("a?", "(also needs 1 job not shown here)"),
    ],
)
def test_parents_that_are_not_shown_are_counted(needs: str, note: str) -> None:
    assert drawn(graph(a="", b=needs))[-1].endswith(f"b {note}")


def test_ascii_has_the_same_shape() -> None:
    found = graph(a="", b="a", c="a", d="b")
    assert [line.rsplit(" ", 1)[0] for line in drawn(found, ASCII)] == ["* a", "|-* b", "| v d", "`-* c"]
    assert all(line.isascii() for line in lines(found, ASCII, 30, True))


@each_case(
    ("variables", "chars"),
    [
        ({"LANG": "de_DE.UTF-8"}, BOXES),
        ({"LANG": "C.utf8"}, BOXES),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, ASCII),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, BOXES),
        ({"LANG": "de_DE.ISO-8859-1"}, ASCII),
        ({"LC_ALL": "", "LANG": "POSIX"}, ASCII),
        ({}, ASCII),
    ],
)
def test_the_locale_decides_which_characters_are_used(variables: dict[str, str], chars: Any) -> None:
    assert characters(variables) is chars


def test_a_line_fits_the_terminal_and_only_the_state_is_coloured() -> None:
    found = graph(a="")
    found["nodes"][0]["argv"] = ["echo", "x" * 200]
    (line,) = lines(found, BOXES, 60, True)
    assert "\x1b[32mDONE\x1b[0m" in line
    assert len(line) - len("\x1b[32m\x1b[0m") <= 60
    assert line.endswith("…")


def test_a_long_chain_is_drawn_without_recursion() -> None:
    names = [f"job{number}" for number in range(5000)]
    found = graph(**dict.fromkeys(names, ""))
    found["edges"] = [{"parent_id": one, "job_id": two} for one, two in itertools.pairwise(names)]
    assert len(list(lines(found, BOXES, 80, False))) == 5000


def test_the_graphviz_document_escapes_what_a_command_may_hold() -> None:
    found = graph(a="", b="a")
    found["nodes"][1]["argv"] = ["say", 'a "b"\\c\nd']
    text = "\n".join(dot(found))
    assert text.startswith("digraph semantica {")
    assert '  "a" -> "b";' in text
    assert r'''label="say 'a \"b\"\\c d'\nb DONE"''' in text
