"""The console's files over HTTP: a page for each of its places, and the modules it loads.

Pages differ only in the modules they name to be fetched at once; without that a browser would learn of each module from
the one before. Which those are is read from the modules themselves: `main.js` says where each page is.

A page may be cached by nobody and its modules for ever, because their address holds a digest of all of them. Nothing
is inline, nothing comes from elsewhere, and no text can become markup or a script: the policy in `CONTENT_POLICY` says
so to the browser. No key is needed to load the page; everything it shows it asks the API for, as whoever signs in.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as Served

from betimes.console.settings import ConsoleSettings

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
START = "main.js"
EARLY = "server.js"
"""The module with the first questions, which is run before the others are there."""
_IMPORT = re.compile(r'^(?:import|export) [^;]*?"\./([\w.]+)";', re.MULTILINE)
_PLACE = re.compile(r'place\("([^"]+)", "[^"]*", \(\) => import\("\./([\w.]+)"\)')
_NAME = re.compile(r"\\{\w+\\}")
_COMMON = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_PAGE = {
    **_COMMON,
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_ASSET = {**_COMMON, "Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


class Asset(NamedTuple):
    """A file, as it is and compressed."""

    media_type: str
    plain: bytes
    packed: bytes


def console_routes(settings: ConsoleSettings, *, dev: bool) -> list[Served]:
    """Return the routes of the console; none where it is switched off."""
    if not settings.enabled:
        return []
    assets = load_assets()
    base = f"/console/static/{_digest(assets)}"
    pages = _render_pages(assets, base, settings, dev)

    async def show_page(request: Request) -> Response:
        found = next((page for pattern, page in pages if pattern.fullmatch(request.url.path)), pages[0][1])
        return Response(found, headers=_PAGE, media_type="text/html; charset=utf-8")

    async def send_asset(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None or not request.url.path.startswith(f"{base}/"):
            raise HTTPException(404)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, headers={**_ASSET, "Content-Encoding": "gzip"}, media_type=asset.media_type)
        return Response(asset.plain, headers=_ASSET, media_type=asset.media_type)

    return [
        Served("/", _lead_in, methods=["GET"]),
        Served("/console/static/{version}/{name}", send_asset, methods=["GET"]),
        Served("/console/grafana.json", _send_dashboard, methods=["GET"]),
        Served("/console", show_page, methods=["GET"]),
        Served("/console/{page:path}", show_page, methods=["GET"]),
    ]


async def _lead_in(request: Request) -> Response:
    """Lead browsers to the console; to everybody else there is nothing here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return RedirectResponse("/console", 307)


async def _send_dashboard(request: Request) -> Response:
    """Send the dashboard of the numbers in `/metrics`, to be imported in Grafana."""
    headers = {**_COMMON, "Content-Disposition": 'attachment; filename="betimes-grafana.json"'}
    dashboard = files("betimes.console").joinpath("grafana.json").read_bytes()
    return Response(dashboard, headers=headers, media_type="application/json")


@cache
def load_assets() -> dict[str, Asset]:
    """Return every file of the console by its name."""
    folder = files("betimes.console").joinpath("static")
    return {found.name: _load_asset(found) for found in sorted(folder.iterdir(), key=lambda one: one.name)}


def _load_asset(found: Traversable) -> Asset:
    plain = found.read_bytes()
    return Asset(MEDIA_TYPES["." + found.name.rpartition(".")[2]], plain, gzip.compress(plain, mtime=0))


def _digest(assets: dict[str, Asset]) -> str:
    digest = sha256()
    for name, asset in assets.items():
        digest.update(name.encode() + b"\0" + asset.plain)
    return digest.hexdigest()[:16]


def modules_of(assets: Mapping[str, Asset], name: str) -> list[str]:
    """Return a module and every module that it imports, itself or through others."""
    found = [name]
    for one in found:  # which grows meanwhile
        found += [other for other in _IMPORT.findall(assets[one].plain.decode()) if other not in found]
    return list(dict.fromkeys(found))


def page_modules(assets: Mapping[str, Asset]) -> list[tuple[str, list[str]]]:
    """Return the places of the console, each with the modules it needs, those of the frame first."""
    frame = modules_of(assets, START)
    places = _PLACE.findall(assets[START].plain.decode())
    return [(path, list(dict.fromkeys([*frame, *modules_of(assets, page)]))) for path, page in places]


def _render_pages(
    assets: Mapping[str, Asset], base: str, settings: ConsoleSettings, dev: bool
) -> list[tuple[re.Pattern[str], bytes]]:
    template = files("betimes.console").joinpath("page.html").read_text("utf-8")
    told = {"base": base, "early": EARLY, "start": START, "texts": settings.texts}
    told |= {"actions": str(settings.actions).lower(), "dev": str(dev).lower()}
    told["proxy"] = str(bool(settings.trust_header)).lower()
    told["grafana"] = escape(settings.grafana)
    pages = []
    for path, modules in page_modules(assets):
        preloads = "\n".join(f'<link rel="modulepreload" href="{base}/{name}">' for name in modules)
        pattern = re.compile(_NAME.sub("[^/]+", re.escape(path)) + "/?")
        pages.append((pattern, template.format_map({**told, "preloads": preloads}).encode()))
    return pages
