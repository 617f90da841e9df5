"""The payload of a command: its shape, and what of its length can be known before it is tried."""

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.admission import OWN_VARIABLES_BYTES, Admission
from semantica_daemon.model.command import LONGEST_STRING, CommandLine, check_length, check_variables, command_line
from semantica_daemon.wire.job import JobSpec
from tests.cases import each_case


@each_case(
    "payload",
    [
        {"argv": ["true"]},
        {"argv": ["echo", "", "ä\n"], "cwd": "/", "stdin": "", "umask": 0},
        {"argv": ["x"], "cwd": None, "stdin": None, "umask": None},
        {"argv": ["x"], "stdin": "a\0b", "umask": 0o777},
    ],
)
def test_a_sound_command_line_passes(payload: dict[str, Any]) -> None:
    assert command_line(payload).argv == payload["argv"]


@each_case("payload", [{}, {"argv": []}, {"argv": [""]}, {"argv": ["a\0"]}, {"argv": ["a"], "cwd": "b"}])
def test_a_refusal_names_the_path_in_its_message_and_beside_it(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as refused:
        command_line(payload)
    path = refused.value.details["path"]
    assert path.startswith("$.payload")
    assert f"`{path}`" in refused.value.message
    assert refused.value.hint


@each_case("name", ["A", "_", "a1", "_1", "A" * 1024])
def test_a_variable_that_is_one_passes(name: str) -> None:
    check_variables({name: "any = \n ä", "OTHER": ""})


@each_case("name", ["", "1A", "A-B", "A=B", "A\n", "A B", "Ä", "A" * 1025, "A\0"])
def test_a_name_that_no_shell_would_take_is_refused(name: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        check_variables({"SOUND": "x", name: "x"})
    assert refused.value.details["path"] == "$.env_vars"
    assert len(refused.value.message) < 200


def test_a_value_with_a_zero_byte_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidParams) as refused:
        check_variables({"A": "a\0b"})
    assert refused.value.details["path"] == "$.env_vars.A"


def fits(command: CommandLine, env: dict[str, str], most: int) -> bool:
    try:
        check_length(command, env, most)
    except InvalidParams:
        return False
    return True


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(words, min_size=1, max_size=5), st.dictionaries(words, words, max_size=3))
def test_the_limit_is_on_all_strings_together_to_the_byte(argv: list[str], env: dict[str, str]) -> None:
    strings = [*argv, *(f"{name}={value}" for name, value in env.items())]
    total = sum(len(text.encode()) + 1 + 8 for text in strings)
    command = CommandLine(argv)
    assert fits(command, env, total)
    assert not fits(command, env, total - 1)


def test_one_string_has_a_limit_of_its_own_which_is_the_system_s() -> None:
    """Proved on the system itself: the longest that is let through runs, and one byte more would not."""
    longest = "x" * (LONGEST_STRING - 1)
    most = os.sysconf("SC_ARG_MAX")
    assert fits(CommandLine(["true", longest]), {}, most)
    assert subprocess.run(["true", longest], check=False).returncode == 0
    assert not fits(CommandLine(["true", longest + "x"]), {}, most)
    assert not fits(CommandLine(["true"]), {"A": "x" * LONGEST_STRING}, most)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true", longest + "xx"], check=False)


def test_variables_of_the_daemon_count_unless_the_job_has_its_own() -> None:
    """As if the two environments were laid over each other, which is what a run is given."""
    inherited, env = {"A": "x" * 1000, "B": "y" * 1000}, {"A": "short"}
    whole = {**inherited, **env}
    spec = JobSpec(job_type="t", payload={"argv": ["true"]}, env_vars=env)
    needed = sum(len(f"{name}={value}") + 1 + 8 for name, value in whole.items()) + len("true") + 1 + 8
    Admission({}, inherited, needed + OWN_VARIABLES_BYTES).admit(spec)
    with pytest.raises(InvalidParams, match=f"{needed} bytes, the system takes {needed - 1}"):
        Admission({}, inherited, needed - 1 + OWN_VARIABLES_BYTES).admit(spec)
