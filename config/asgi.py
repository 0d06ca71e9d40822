from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Loads the apps, which everything below imports.
http = get_asgi_application()

from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.urls import get_resolver

from config.prefix import BelowPrefix
from dashboard.at_once import AtOnce
from dashboard.body_limit import BodyLimit
from dashboard.request_log import NamedRequests
from dashboard.routing import websocket_application
from dashboard.uploads import UploadPieces

# Loads every view: otherwise the first who ask wait for seconds, all of them after a restart.
_ = get_resolver().url_patterns
_routed = ProtocolTypeRouter({"http": UploadPieces(BodyLimit(AtOnce(http))), "websocket": websocket_application()})
application = NamedRequests(BelowPrefix(_routed, settings.URL_PREFIX))
