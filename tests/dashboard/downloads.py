"""Files that the server sends bit by bit, as a browser gets them."""

from __future__ import annotations

import csv
import io

from asgiref.sync import async_to_sync
from django.test import AsyncClient


def download(user, path):
    """The answer and its rows; needs a database that other threads see."""

    async def fetch():
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer = await browser.get(f"/api/v1{path}")
        assert answer.status_code == 200
        return answer, b"".join([chunk async for chunk in answer.streaming_content]).decode()

    answer, text = async_to_sync(fetch)()
    return answer, list(csv.reader(io.StringIO(text)))
