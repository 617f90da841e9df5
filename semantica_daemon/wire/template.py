"""The `template` family: job specs that are stored under a name."""

from typing import Annotated

from msgspec import Raw, Struct

from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.types import Label, Params, about


class PutTemplateParams(Params, frozen=True):
    name: Annotated[Label, about("name of the template; the same name again replaces it")]
    spec: Annotated[JobSpec, about("the job it stands for")]
    template_id: Annotated[Label | None, about("change this one, by id or name, and give it the name")] = None


class TemplateAck(Struct, frozen=True):
    template_id: Annotated[str, about("id of the template")]
    name: Annotated[str, about("its name")]
    created: Annotated[bool, about("false: a known one was replaced")]


class TemplateParams(Params, frozen=True):
    template_id: Annotated[Label, about("id or name of the template")]


class TemplateView(Struct, frozen=True):
    """A stored template."""

    template_id: Annotated[str, about("id of the template")]
    name: Annotated[str, about("its name")]
    spec: Annotated[Raw, about("the job it stands for")]
    created_at: Annotated[int, about("when it was created, epoch ms")]
    updated_at: Annotated[int, about("when it was last replaced")]
    schedules: Annotated[list[str], about("names of the schedules that use it")]


class TemplateList(Struct, frozen=True):
    templates: Annotated[list[TemplateView], about("the templates by name")]


class DeleteTemplateResult(Struct, frozen=True):
    template_id: Annotated[str, about("id of the template")]
    deleted: Annotated[bool, about("always true")] = True
