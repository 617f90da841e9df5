"""job.enqueue_many: the environment that its jobs share."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError


def command(**fields: Any) -> dict[str, Any]:
    return {"job_type": "env", "payload": {"argv": ["env"], "cwd": "/"}, **fields}


async def output(real: Harness, job_id: str) -> str:
    await real.ended(job_id)
    return str((await real.call("job.logs", job_id=job_id))["chunk"])


async def test_the_environment_of_a_call_is_that_of_its_jobs_that_have_none(real: Harness) -> None:
    """Its secrets too, which are not shown; a variable that a job sets wins."""
    shared = {"PATH": "/usr/bin:/bin", "COLOUR": "green", "SIZE": "1", "A_TOKEN": "hidden"}
    jobs = [command(), command(env_vars={"SIZE": "2"}), command(environment={"PATH": "/usr/bin:/bin"})]
    acks = (await real.call("job.enqueue_many", jobs=jobs, environment=shared))["jobs"]
    first, second, third = [(await output(real, ack["job_id"])).splitlines() for ack in acks]
    assert {"COLOUR=green", "SIZE=1", "A_TOKEN=hidden"} <= set(first)
    assert {"COLOUR=green", "SIZE=2", "A_TOKEN=hidden"} <= set(second)
    assert not any(row.startswith(("COLOUR", "SIZE", "A_TOKEN")) for row in third)
    shown = (await real.job(acks[0]["job_id"]))["environment"]
    assert shown["secrets"] == ["A_TOKEN"]


async def test_a_job_of_a_template_gets_the_environment_of_its_call(real: Harness) -> None:
    await real.call("template.put", name="show", spec=command())
    job = {"job_type": "env", "template_id": "show"}
    (ack,) = (await real.call("job.enqueue_many", jobs=[job], environment={"COLOUR": "green"}))["jobs"]
    assert "COLOUR=green" in await output(real, ack["job_id"])


@each_case("environment", [{"A=B": "c"}, {"A": "b\0"}, {"A": "x" * 131_071}])
async def test_an_environment_that_no_process_can_have_is_refused(real: Harness, environment: dict[str, str]) -> None:
    with pytest.raises(RpcError) as caught:
        await real.call("job.enqueue_many", jobs=[command()], environment=environment)
    assert caught.value.code == -32602
    assert caught.value.data["path"].endswith("environment")
