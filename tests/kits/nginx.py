"""A real nginx with the configuration that Fovea ships, on free ports, with a certificate made for the occasion."""

from __future__ import annotations

import shutil
import string
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.browser.stack import PROJECT_DIR, free_port, listens, wait_for

TEMPLATE = PROJECT_DIR / "docker" / "nginx" / "fovea.conf.template"
HOST = "localhost"
# The variables of nginx itself begin with a dollar sign too, and without a brace.
_FILLED_IN = ("FOVEA_HOST", "FOVEA_UPSTREAM", "URL_PREFIX", "TLS_DIR")

_MAIN = string.Template("""
daemon off;
pid $folder/nginx.pid;
error_log stderr notice;
worker_processes 1;
events {}
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxied;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    include $folder/fovea.conf;
}
""")


@dataclass(frozen=True)
class Nginx:
    """Where it listens, and the certificate that it shows."""

    http_port: int
    https_port: int
    certificate: Path
    access_log: Path

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.https_port}"


def nginx_path() -> str | None:
    # /usr/sbin is on the path of administrators alone.
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def shipped_conf(**values: str) -> str:
    """The template, filled in as nginx's official image does it."""
    text = TEMPLATE.read_text()
    for name in _FILLED_IN:
        text = text.replace(f"${{{name}}}", values[name])
    assert "${" not in text, text
    return text


@contextmanager
def running_nginx(folder: Path, *, upstream_port: int, prefix: str) -> Iterator[Nginx]:
    """In front of a server at ``upstream_port`` of this machine."""
    program = nginx_path()
    assert program
    make_certificate(folder)
    http_port, https_port = free_port(), free_port()
    conf = shipped_conf(
        FOVEA_HOST=HOST, FOVEA_UPSTREAM=f"127.0.0.1:{upstream_port}", URL_PREFIX=prefix, TLS_DIR=str(folder)
    )
    conf = conf.replace("listen 443 ", f"listen 127.0.0.1:{https_port} ")
    conf = conf.replace("listen 80;", f"listen 127.0.0.1:{http_port};")
    conf = conf.replace("/var/log/nginx/", f"{folder}/")
    (folder / "fovea.conf").write_text(conf)
    (folder / "nginx.conf").write_text(_MAIN.substitute(folder=folder))
    log = (folder / "error.log").open("wb")
    process = subprocess.Popen([program, "-c", str(folder / "nginx.conf"), "-p", str(folder)], stdout=log, stderr=log)
    try:
        wait_for(
            "nginx listens",
            lambda: listens(https_port) or (process.poll() is not None and (folder / "error.log").read_text()),
        )
        assert process.poll() is None, (folder / "error.log").read_text()
        yield Nginx(http_port, https_port, folder / "fovea.crt", folder / "access.log")
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


def make_certificate(folder: Path) -> None:
    """``fovea.crt`` and ``fovea.key``, signed by itself, for ``localhost``."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(folder / "fovea.key"), "-out", str(folder / "fovea.crt")),
            *("-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
        ],
        check=True,
        capture_output=True,
    )
