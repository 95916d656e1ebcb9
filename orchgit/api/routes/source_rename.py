"""`PUT /v1/gitops/source/NAME/rename`: a source gets another name."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.services.gitops.source_rename import rename_source


async def rename(call: ApiCall) -> Response:
    """Renames the source to `Name`. Its jobs, held versions, drift, rollouts and the approvals that
    they wait for belong to it under the new name at once."""
    name, gitops = call.path["name"], call.api.gitops
    new_name = nomad_json.get(nomad_json.decode_tree(await call.body()), "Name", "")
    if not new_name:
        raise InvalidInputError(f'cannot rename source "{name}": Name is the new name')
    with call.context.snapshot() as snapshot:
        known = snapshot.sources.get(name)
    if known is not None and gitops is not None:
        # A credential names the sources that may use it.
        await asyncio.to_thread(gitops.check_source, replace(known, name=new_name))
    index = await rename_source(call.context, name, new_name)
    warnings = []
    if gitops is not None and gitops.is_declared(name):
        warnings.append(
            f'the configuration names source "{name}": rename its block on every server, or the '
            "next server that leads adds it again"
        )
    return call.answer({"Index": index, "Warnings": warnings}, index=index)


ENDPOINTS = [endpoint("/v1/gitops/source/{name}/rename", put=rename)]
