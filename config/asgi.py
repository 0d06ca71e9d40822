from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Loads the apps, which everything below imports.
http = get_asgi_application()

from channels.routing import ProtocolTypeRouter

from dashboard.body_limit import BodyLimit
from dashboard.routing import websocket_application
from dashboard.uploads import UploadPieces

application = ProtocolTypeRouter({"http": UploadPieces(BodyLimit(http)), "websocket": websocket_application()})
