"""The parts of `semantica map` that need no daemon: replacement strings, items, halts, numbers of jobs, the bar."""

import os
import uuid
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.cli import map_bar
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.halt import Halt, halt
from semantica_daemon.cli.job_numbers import JobNumbers
from semantica_daemon.cli.map_intake import subject_of
from semantica_daemon.cli.map_items import Items, Texts
from semantica_daemon.cli.map_output import TaggedWriter
from semantica_daemon.cli.map_record import MapRecord, MapRecords, derived_name, item_key, with_turn, without_turn
from semantica_daemon.cli.map_results import folder_name
from semantica_daemon.cli.replacement import Template
from semantica_daemon.paths import find
from tests.cases import each_case


@each_case(
    ("command", "item", "argv"),
    [
        ("echo", "a b", ["echo", "a b"]),
        ("echo x", "a", ["echo", "x", "a"]),
        ("mv {} {}.old", "a b", ["mv", "a b", "a b.old"]),
        ("x {.} {/} {//} {/.}", "/a/b.c.gz", ["x", "/a/b.c", "b.c.gz", "/a", "b.c"]),
        ("x {.} {/} {//} {/.}", "foo", ["x", "foo", "foo", ".", "foo"]),
        ("x {.} {/} {//} {/.}", "x.y/z", ["x", "x.y/z", "z", "x.y", "z"]),
        ("x {.} {/} {//} {/.}", ".bashrc", ["x", "", ".bashrc", ".", ""]),
        ("x {.} {/} {//} {/.}", "a/", ["x", "a/", "", ".", ""]),
        ("x {//}", "/a", ["x", "/"]),
        ("x {//}", "", ["x", "."]),
        ("{#}", "a", ["7"]),
        ("{} {#}{#}", "run", ["run", "77"]),
        ("x {}", "{} {#} {.}", ["x", "{} {#} {.}"]),
        ("x {1} {a} {", "i", ["x", "{1}", "{a}", "{", "i"]),
    ],
)
def test_replacement_strings_are_those_of_gnu_parallel(command: str, item: str, argv: list[str]) -> None:
    assert Template(command.split()).argv(item, 7) == argv


def read_all(data: bytes, pieces: int, separator: bytes = b"\n") -> list[str]:
    """The items of a stream that comes in so many pieces."""
    reading, writing = os.pipe()
    items, found = Items([], reading, separator), list[str]()
    length = max(1, len(data) // pieces)
    for start in range(0, len(data), length):
        os.write(writing, data[start : start + length])
        items.read()
        while items.waiting:
            found.append(items.take())
    os.close(writing)
    while not items.is_exhausted:
        items.read()
        while items.waiting:
            found.append(items.take())
    os.close(reading)
    return found


@given(st.lists(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))), st.integers(1, 9))
def test_a_stream_has_the_same_items_however_it_is_cut(texts: list[str], pieces: int) -> None:
    wanted = [text for text in texts if text]
    assert read_all("\n".join(texts).encode(), pieces) == wanted
    assert read_all("\0".join(texts).encode(), pieces, b"\0") == wanted


@each_case(
    ("item", "problem"),
    [(b"\xff", "is not UTF-8"), (b"a\0b", "has a NUL byte"), (b"x" * 131_072, "an argument may have 131071")],
)
def test_an_item_that_no_argument_can_be_is_refused(item: bytes, problem: str) -> None:
    items = Items(["first", os.fsdecode(item)])
    items.take()
    with pytest.raises(CommandFailed, match=f"item 2 {problem}|item 2 has .* {problem}"):
        items.take()


def test_words_may_be_empty_items() -> None:
    items = Items(["", "a"])
    assert [items.take(), items.take()] == ["", "a"]
    assert items.is_exhausted


@each_case(
    ("text", "due"),
    [
        ("never", []),
        ("soon,fail=1", [(0, 1, None), (9, 2, 99)]),
        ("now,fail=3", [(0, 3, None)]),
        ("now,success=2", [(2, 0, None), (3, 9, None)]),
        ("soon,done=4", [(2, 2, None), (0, 4, None)]),
        ("soon,fail=50%", [(0, 5, 10), (5, 5, 10)]),
    ],
)
def test_a_halt_is_due_when_enough_have_ended(text: str, due: list[tuple[int, int, int | None]]) -> None:
    policy = halt(text)
    assert policy.text == text
    assert all(policy.is_due(*counts) for counts in due)
    assert not policy.is_due(1, 0, None)
    assert not policy.is_due(0, 0, 10)


@each_case("text", ["", "soon", "soon,fail", "soon,fail=0", "later,fail=1", "now,fail=101%", "now,lost=1"])
def test_a_halt_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="soon,fail=1"):
        halt(text)


def test_the_code_of_a_halt_is_that_of_gnu_parallel() -> None:
    assert Halt("now", "fail", 1).exit_code(7, 1, 10) == 7
    assert Halt("now", "fail", 3).exit_code(7, 4, 10) == 4
    assert Halt("soon", "fail", 50, is_percent=True).exit_code(7, 4, 8) == 50
    assert Halt("now", "success", 1).exit_code(7, 4, 8) == 0


def test_numbers_of_jobs_are_found_again() -> None:
    random, numbers = Random(0), JobNumbers()
    ids = [str(uuid.UUID(int=random.getrandbits(128), version=4)) for _ in range(5000)]
    assert [numbers.add(job_id, number) for number, job_id in enumerate(ids, 1)] == list(range(1, 5001))
    assert [numbers.get(job_id) for job_id in ids] == list(range(1, 5001))
    assert (numbers.add(ids[6], 9999), len(numbers)) == (7, 5000)
    assert numbers.get(str(uuid.UUID(int=random.getrandbits(128), version=4))) == 0


def test_texts_are_kept_by_number() -> None:
    texts = Texts()
    assert [texts.append("a"), texts.append(""), texts.append("ü b")] == [1, 2, 3]
    texts.put(7, "x")
    assert [texts[1], texts[2], texts[3], texts[7]] == ["a", "", "ü b", "x"]
    assert [texts.size(3), texts.size(7)] == [4, 1]


@given(st.binary(max_size=60), st.integers(1, 20))
def test_a_tag_begins_each_line_however_the_output_is_cut(data: bytes, length: int) -> None:
    reading, writing = os.pipe()
    writer = TaggedWriter("item")
    written = os.dup(1)
    os.dup2(writing, 1)
    try:
        for start in range(0, len(data), length):
            writer("stdout", data[start : start + length])
    finally:
        os.dup2(written, 1)
        os.close(written)
        os.close(writing)
    found = os.read(reading, 100_000)
    os.close(reading)
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    assert found == b"".join(b"item\t" + line for line in lines if line)


def test_long_items_have_subjects_and_folders_of_their_own() -> None:
    first, second = "x" * 5000 + "1", "x" * 5000 + "2"
    assert subject_of(first) != subject_of(second)
    assert len(subject_of(first)) <= 512
    assert folder_name(first) != folder_name(second)
    assert len(folder_name("ü" * 5000).encode()) <= 255


def test_the_key_of_an_item_may_have_a_turn() -> None:
    key = item_key("map:a:b", "item")
    assert [without_turn(with_turn(key, turn)) for turn in (1, 2, 30)] == [(key, 1), (key, 2), (key, 30)]


def test_a_record_is_found_again_and_the_newest_is_the_one_kept_last(home: Path) -> None:
    records = MapRecords(find({"SEMANTICA_HOME": str(home)}))
    assert (records.find("a"), records.newest()) == (None, None)
    for name in ("a", "b"):
        with records.locked(name):
            record = MapRecord.make(name, ["echo"], "/")
            record.sequence = 7
            records.keep(record)
    os.utime(home / "maps" / "a.json", ns=(2**62, 2**62))
    newest = records.newest()
    assert newest is not None
    assert (newest.name, newest.command, newest.sequence) == ("a", ["echo"], 7)
    (home / "maps" / "b.json").write_text("{")
    assert records.find("b") is None


def test_the_name_of_a_map_follows_from_command_folder_and_items() -> None:
    name = derived_name(["/usr/bin/gzip", "-9"], "/a", ["x"])
    assert name.startswith("gzip-")
    assert name == derived_name(["/usr/bin/gzip", "-9"], "/a", ["x"])
    others = [(["gzip"], "/a", ["x"]), (["/usr/bin/gzip", "-9"], "/b", ["x"]), (["/usr/bin/gzip", "-9"], "/a", ["y"])]
    assert name not in [derived_name(*other) for other in others]
    assert derived_name(["{}"], "/", []).startswith("map-")


def test_the_bar_shows_count_rate_and_the_time_that_is_left() -> None:
    assert map_bar.line(50, 200, 0, True, 25.0) == "━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25%  50/200  25/s  ETA 6s"
    assert map_bar.line(1500, 4000, 2, False, 0.5).endswith("37%  1,500/4,000+  0.5/s  2 failed")
    assert map_bar.line(0, 0, 0, True, 0.0).endswith("0%  0/0")
