from __future__ import annotations

from ninja import Router

from dashboard.api.bodies import answers
from dashboard.visitor import SignedIn
from jobs.server_folders import ServerFolders, server_folders

router = Router()


@router.get("", response=answers(ServerFolders), summary="Folders of the server to import from")
def server_folders_list(request: SignedIn, prefix: str = "") -> ServerFolders:
    """What a path that begins with `prefix` may go on with, below `IMPORT_ROOTS` alone.

    Hidden entries are left out, and of more than 200 the rest.
    """
    return server_folders(prefix)
