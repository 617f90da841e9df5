"""The `template` family: job specs that are stored under a name."""

from semantica_daemon.engine.readers import Readers
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import catalogue
from semantica_daemon.store.writes import templates
from semantica_daemon.wire.template import TemplateList, TemplateParams, TemplateView
from semantica_daemon.wire.types import Params


class TemplateMethods:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def bindings(self) -> dict[str, Binding]:
        return {
            "template.put": Write(templates.put),
            "template.get": Call(self._get),
            "template.list": Call(self._list),
            "template.delete": Write(templates.delete),
        }

    async def _get(self, params: TemplateParams) -> TemplateView:
        return await self._readers.query(catalogue.template, params.template_id)

    async def _list(self, _: Params) -> TemplateList:
        return TemplateList(await self._readers.query(catalogue.templates))
