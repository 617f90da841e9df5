"""What a command says of itself: the file $SEMANTICA_RESULT, and run.* by its token, while it is its run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.engine import results
from tests.cases import each_case
from tests.descriptors import own_descriptors
from tests.engine.commands import first_line, output, python, run, sh, start
from tests.engine.stream import events
from tests.harness import Harness, RpcError

TOKEN = "echo $SEMANTICA_RUN_TOKEN; read line < $PIPE; exit ${line:-0}"
# A client as anybody could write one: no package of ours, four lines.
CALL = """
import json, os, socket
def call(method, **params):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ["SEMANTICA_SOCKET"])
        params["run_token"] = os.environ["SEMANTICA_RUN_TOKEN"]
        s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\\n")
        return json.loads(s.makefile().readline())
"""


async def complaints(harness: Harness, job_id: str) -> list[str]:
    lines = await events(harness, "job.log", job_id=job_id)
    return [line["message"] for line in lines if line["level"] == "warn"]


@each_case("text", ['{"n": [1, "ä"]}', "7", '"x"', "[]", " \n{}\n", "false"])
async def test_a_json_document_it_leaves_is_its_result(house: Harness, text: str) -> None:
    job = await run(house, sh("cat > $SEMANTICA_RESULT"), stdin=text)
    assert (job["state"], job["result_summary"]) == ("DONE", json.loads(text))
    assert await complaints(house, job["job_id"]) == []


async def test_the_result_of_a_failed_run_is_kept_too(house: Harness) -> None:
    job = await run(house, sh("echo '{\"why\": 1}' > $SEMANTICA_RESULT; exit 1"))
    assert (job["state"], job["exit_code"], job["result_summary"]) == ("FAILED", 1, {"why": 1})


@each_case("failure_class", ["permanent", "infra", "transient", "odd"])
async def test_a_failing_command_says_of_which_kind_that_is(house: Harness, failure_class: str) -> None:
    script = sh(f'echo \'{{"failure_class": "{failure_class}"}}\' > $SEMANTICA_RESULT; exit 4')
    job = await run(house, script, max_attempts=2, backoff_base_ms=1)
    expected = "transient" if failure_class == "odd" else failure_class
    assert (job["error"]["class"], job["run_count"]) == (expected, 1 if expected == "permanent" else 2)


async def test_a_failing_command_says_when_it_is_tried_again(house: Harness) -> None:
    script = sh("echo '{\"retry_after_ms\": 0, \"n\": '$SEMANTICA_ATTEMPT'}' > $SEMANTICA_RESULT; exit 4")
    job = await run(house, script, max_attempts=3, backoff_base_ms=3_600_000)
    assert (job["state"], job["run_count"], job["result_summary"]) == ("FAILED", 3, {"retry_after_ms": 0, "n": 3})
    assert await complaints(house, job["job_id"]) == []


@each_case("given", ['"5"', "-1", "1.5", "true"])
async def test_an_unusable_retry_after_is_named_and_the_backoff_is_waited(house: Harness, given: str) -> None:
    script = sh(f"echo '{{\"retry_after_ms\": {given}}}' > $SEMANTICA_RESULT; exit $CODE")
    job = await run(house, script, max_attempts=2, backoff_base_ms=1, env_vars={"CODE": "4"})
    assert (job["state"], job["run_count"]) == ("FAILED", 2)
    named = "$SEMANTICA_RESULT: retry_after_ms is not a whole number of ms"
    assert await complaints(house, job["job_id"]) == [named] * 2
    well = await run(house, script, env_vars={"CODE": "0"})
    assert (well["state"], await complaints(house, well["job_id"])) == ("DONE", [])


@each_case(("code", "failure_class", "runs"), [(75, "transient", 2), (99, "transient", 2), (1, "permanent", 1)])
async def test_only_some_exit_codes_are_retried(house: Harness, code: int, failure_class: str, runs: int) -> None:
    retries = {"max_attempts": 2, "backoff_base_ms": 1, "retry_on": {"exit_codes": [75, 99]}}
    job = await run(house, sh(f"exit {code}"), **retries)
    assert (job["state"], job["error"]["class"], job["run_count"]) == ("FAILED", failure_class, runs)
    assert job["retry_on"] == {"exit_codes": [75, 99]}


async def test_a_signal_is_retried_whatever_exit_codes_are(house: Harness) -> None:
    retries = {"max_attempts": 2, "backoff_base_ms": 1, "retry_on": {"exit_codes": [75]}}
    job = await run(house, sh("kill -9 $$"), **retries)
    assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_SIGNAL", 2)


async def test_a_command_that_ends_well_has_not_failed_whatever_its_result_says(house: Harness) -> None:
    job = await run(house, sh('echo \'{"failure_class": "permanent"}\' > $SEMANTICA_RESULT'))
    assert (job["state"], job["error"]) == ("DONE", None)


SPOILT: dict[str, tuple[list[str], str]] = {
    "not JSON": (sh("echo hello > $SEMANTICA_RESULT"), "no JSON"),
    "two documents": (sh("echo '{}{}' > $SEMANTICA_RESULT"), "no JSON"),
    "bad UTF-8": (sh("printf '\"\\377\"' > $SEMANTICA_RESULT"), "no JSON"),
    "a pipe": (sh("mkfifo $SEMANTICA_RESULT"), "no regular file"),
    "a link": (sh("ln -s /etc/hostname $SEMANTICA_RESULT"), "cannot be read"),
    "a folder": (sh("mkdir $SEMANTICA_RESULT"), ""),
    "a device": (sh("ln -s /dev/zero $SEMANTICA_RESULT"), "cannot be read"),
    "too large": (sh("head -c 10000001 /dev/zero > $SEMANTICA_RESULT"), "10000001 bytes"),
    "nested too deep": (python("import os; open(os.environ['SEMANTICA_RESULT'], 'w').write('['*5000 + ']'*5000)"), ""),
}


@each_case("case", SPOILT)
async def test_a_result_that_is_none_is_complained_of_and_fails_nobody(house: Harness, case: str) -> None:
    argv, why = SPOILT[case]
    job = await run(house, argv)
    assert (job["state"], job["exit_code"], job["result_summary"]) == ("DONE", 0, None)
    (complaint,) = await complaints(house, job["job_id"])
    assert complaint.startswith("$SEMANTICA_RESULT: ")
    assert why in complaint


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.parametrize("kind", ["folder", "pipe", "text", "nothing"])
def test_reading_a_result_leaves_no_descriptor_open(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "result.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("x")
    before = own_descriptors()
    assert results.read(str(path)).complaint
    assert own_descriptors() == before


@each_case("script", ["true", ": > $SEMANTICA_RESULT", "echo > $SEMANTICA_RESULT"])
async def test_no_result_is_no_complaint(house: Harness, script: str) -> None:
    job = await run(house, sh(script))
    assert (job["result_summary"], await complaints(house, job["job_id"])) == (None, [])


async def test_a_result_of_ten_megabytes_is_kept(house: Harness) -> None:
    program = "import os; open(os.environ['SEMANTICA_RESULT'], 'w').write('\"' + 'x' * 9_999_998 + '\"')"
    job = await run(house, python(program))
    assert (job["state"], len(job["result_summary"])) == ("DONE", 9_999_998)


async def test_each_attempt_has_a_result_of_its_own(house: Harness) -> None:
    script = sh("test $SEMANTICA_ATTEMPT = 2 || { echo 1 > $SEMANTICA_RESULT; exit 1; }")
    job = await run(house, script, max_attempts=2, backoff_base_ms=1)
    assert (job["state"], job["result_summary"]) == ("DONE", None), "the first one's is not the second's"


async def test_a_process_reports_by_its_token(house: Harness) -> None:
    program = CALL + (
        "print(call('run.progress', percent=40, phase='a', items_completed=2, items_total=5, message='two'))\n"
        "print(call('run.log', message='look', level='warn', payload={'x': 1}))\n"
        "print(call('run.result', result={'found': 3}))\n"
    )
    job = await run(house, python(program))
    assert job["state"] == "DONE", await output(house, job["job_id"])
    progress = {"percent": 40, "phase": "a", "items_completed": 2, "items_total": 5, "message": "two"}
    assert (job["progress"], job["result_summary"]) == ({**progress, "percent": 100}, {"found": 3})
    (line,) = await events(house, "job.log", job_id=job["job_id"])
    assert (line["message"], line["level"], line["payload"]) == ("look", "warn", {"x": 1})
    (told,) = await events(house, "job.progress", job_id=job["job_id"])
    assert (told["message"], told["payload"]) == ("two", progress)


async def test_the_file_is_the_last_word_on_the_result(house: Harness) -> None:
    program = CALL + "call('run.result', result=1); open(os.environ['SEMANTICA_RESULT'], 'w').write('2')"
    assert (await run(house, python(program)))["result_summary"] == 2


SAID: dict[str, dict[str, Any]] = {
    "run.progress": {"percent": 1},
    "run.log": {"message": "x"},
    "run.result": {"result": 1},
}


async def refused(harness: Harness, method: str, **params: Any) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value.code, caught.value.data["code"]


@pytest.mark.parametrize("method", SAID)
async def test_a_wrong_or_late_token_is_refused_and_changes_nothing(
    house: Harness, tmp_path: Path, method: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    job_id = await start(house, sh(TOKEN), env_vars={"PIPE": str(pipe)})
    token = await first_line(house, job_id)
    assert await refused(house, method, run_token="0" * 32, **SAID[method]) == (4001, "E_RUN_OVER")
    assert (await house.call(method, run_token=token, **SAID[method]))["job_id"] == job_id
    pipe.write_text("0\n")
    ended = await house.ended(job_id)
    told = await events(house, job_id=job_id)
    assert token not in house.daemon.run_dependencies.run_tokens
    assert await refused(house, method, run_token=token, **SAID[method]) == (4001, "E_RUN_OVER")
    assert (await house.job(job_id), await events(house, job_id=job_id)) == (ended, told)


async def test_the_token_of_an_attempt_is_not_the_next_one_s(house: Harness) -> None:
    script = sh("echo $SEMANTICA_RUN_TOKEN; test $SEMANTICA_ATTEMPT = 2")
    job = await run(house, script, max_attempts=2, backoff_base_ms=1)
    tokens = {await output(house, job["job_id"], run=number) for number in (1, 2)}
    assert len(tokens) == 2


@each_case(("method", "params"), [
    ("run.progress", {"percent": 101}), ("run.progress", {"items_completed": -1}), ("run.progress", {"extra": 1}),
    ("run.log", {}), ("run.log", {"message": "x", "level": "loud"}), ("run.log", {"message": "x" * 65_537}),
    ("run.log", {"message": "x", "payload": {"x": "y" * 70_000}}), ("run.result", {}),
    ("run.result", {"result": "x" * 10_000_001}),
])  # fmt: skip
async def test_what_cannot_be_kept_is_refused_to_its_face(house: Harness, method: str, params: dict[str, Any]) -> None:
    job_id = await start(house, sh("echo $SEMANTICA_RUN_TOKEN; exec sleep 600"))
    token = await first_line(house, job_id)
    before = await house.job(job_id)
    assert (await refused(house, method, run_token=token, **params))[0] == -32602
    assert await house.job(job_id) == before
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)


async def test_a_report_that_was_answered_is_in_the_database(house: Harness) -> None:
    """And it comes before the end of its run: a hundred of them, the last one just before it exits."""
    program = CALL + "for n in range(100): assert 'result' in call('run.log', message=str(n))\n"
    job = await run(house, python(program))
    assert job["state"] == "DONE"
    lines = await events(house, job_id=job["job_id"])
    assert [line["message"] for line in lines if line["event_type"] == "job.log"] == [str(n) for n in range(100)]
    assert lines[-1]["event_type"] == "job.done"
