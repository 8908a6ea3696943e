"""The page: its own files, and plotly's script from the installed Python package, compressed and cached."""

from __future__ import annotations

import gzip
import mimetypes
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response

from tangokg.serve.failures import problem

PAGE = Path(__file__).parent / "page"
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def page_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    def index(request: Request) -> Response:
        return _send(request, PAGE / "index.html", "no-cache")

    @router.get("/page/plotly.min.js")
    def plotly(request: Request) -> Response:
        return _send(request, _plotly(), "public, max-age=86400")

    @router.get("/page/{name:path}")
    def file(request: Request, name: str) -> Response:
        return _send(request, PAGE / name, "no-cache")

    return router


@cache
def _plotly() -> Path:
    """Located without importing plotly, which is slow."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _send(request: Request, path: Path, caching: str) -> Response:
    """A file of the page, or of plotly; anything else is not found."""
    try:
        inside = path == _plotly() or path.resolve().is_relative_to(PAGE.resolve())
        content, packed, tag = _read(path, path.stat().st_mtime_ns) if inside else (b"", b"", "")
    except (OSError, ValueError):
        tag = ""
    if not tag:
        return problem(404, "there is no such page.")
    headers = {"ETag": tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if "gzip" in request.headers.get("accept-encoding", "") and len(packed) < len(content):
        return Response(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(content, headers=headers, media_type=kind)


@cache
def _read(path: Path, changed: int) -> tuple[bytes, bytes, str]:
    """Content, compressed content and tag of a file; ``changed`` is its modification time."""
    content = path.read_bytes()
    return content, gzip.compress(content, 6, mtime=0), f'"{sha256(content).hexdigest()[:32]}"'
