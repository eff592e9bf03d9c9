"""The bridge from the command line to the application: configuration, opening, serving, exporting."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec

from betimes.app.betimes import DEFAULT_APP, Betimes
from betimes.app.configuration import Configuration, environment_body, file_body, loopback_allowed, place_of, read
from betimes.app.imports import import_object
from betimes.app.places import demand_there, is_there
from betimes.app.scorers import import_provider
from betimes.app.server import hide_password
from betimes.app.settings import Settings
from betimes.cli.bootstrap import Application, ServeOptions, Target
from betimes.core.errors import Invalid
from betimes.engine.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from betimes.app.server import Announce


class Wired:
    """`betimes.cli.bootstrap.Wiring`, on `Betimes`."""

    def open_application(
        self, target: Target, *, starts: bool = False, exists: bool = True, else_memory: bool = False
    ) -> AbstractAsyncContextManager[Application]:
        if target.url:
            from betimes.app.remote_application import RemoteApplication

            return cast(AbstractAsyncContextManager[Application], RemoteApplication(target))
        log_warnings()
        configuration = _load_configuration(target)
        if else_memory and target.db is None and not is_there(configuration.db):
            configuration = msgspec.structs.replace(configuration, db="memory://")
        if exists and target.app is None:
            demand_there(configuration.db)
        return _application(target, configuration, policy=configuration.policy if starts else None, workers=False)

    def serve(self, target: Target, options: ServeOptions, announce: Announce) -> None:
        from betimes.app.server import Serving, demand_server, log_to_stderr, run

        def reread() -> Configuration:
            return _load_configuration(target, _server_overrides(options))

        if options.role != "worker":
            demand_server()
        clock = VirtualClock(options.virtual_clock) if options.virtual_clock else None
        if clock is not None and options.role != "all":
            raise Invalid("a virtual clock is for one process that does everything; leave --role out")
        configuration = reread()
        # A virtual clock is for tests: what they write goes to no database that this command line does not name.
        if clock is not None and target.db is None and target.app is None:
            configuration = msgspec.structs.replace(configuration, db="memory://")
        log_to_stderr()
        bt = _application(
            target, configuration, policy=configuration.policy, workers=options.role != "api", clock=clock
        )
        run(Serving(bt, configuration, options.role, reread), announce)

    def policy(self, target: Target) -> dict[str, Any] | None:
        return _load_configuration(target).policy

    def configuration(self, target: Target) -> dict[str, Any]:
        configuration = _load_configuration(target)
        if place := configuration.enrichment.python:
            import_provider(place)
        return without_secrets(configuration)

    async def export(self, application: Application, path: str, progress: Callable[[Any], None]) -> Any:
        from betimes.ledger.lake.export import export

        return await export(application.engine.store, application.engine.kinds, path, progress=progress)


def _load_configuration(target: Target, over: Mapping[str, Any] | None = None) -> Configuration:
    named = {} if target.db is None else {"db": target.db}
    return read(target.config, over={**named, **(over or {})})


def _server_overrides(options: ServeOptions) -> dict[str, Any]:
    """Return the settings of the server that the command line names."""
    said = {"host": options.host, "port": options.port, "dev": options.dev}
    return {"server": {name: value for name, value in said.items() if value is not None}}


def _says_db(target: Target) -> bool:
    """Return whether the file or the environment does."""
    place = place_of(target.config, os.environ)
    return "db" in environment_body(os.environ)[0] or (place is not None and "db" in file_body(place))


def _application(
    target: Target,
    configuration: Configuration,
    *,
    policy: Mapping[str, Any] | None,
    workers: bool,
    clock: VirtualClock | None = None,
) -> Betimes:
    if target.app is None:
        return Betimes(configuration.db, policy=policy, clock=clock, workers=workers, settings=configuration.settings)
    if target.db is not None or clock is not None:
        raise Invalid(
            "--app brings its own database and clock; leave --db and --virtual-clock out "
            "(for virtual time, pass clock=VirtualClock(…) to its Betimes)"
        )
    bt = _load_application(target.app)
    if _says_db(target) and configuration.db != bt.url:
        own, other = hide_password(bt.url), hide_password(configuration.db)
        told = f"{target.app} keeps its data in {own}, and the configuration says {other}"
        raise Invalid(f"{told}; leave db out of one of them", (("db", "the application has its own"),))
    settings = _combine_settings(bt, configuration, target.app)
    # Whoever names the application is no visitor: one that declares nothing any more has dropped what it declared.
    bt.configure(policy=policy, workers=workers, settings=settings, app=DEFAULT_APP)
    return bt


def _combine_settings(bt: Betimes, configuration: Configuration, app: str) -> Settings:
    """Return the application's settings with those of the configuration; raise `Invalid` if both set one."""
    usual, own = Settings(), bt.settings
    told = configuration.with_keys.settings
    parts: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        if getattr(told, name) != getattr(usual, name):
            parts[name] = getattr(told, name)
    twice = sorted(name for name, part in parts.items() if getattr(own, name) not in (getattr(usual, name), part))
    if twice:
        message = f"both {app} and the configuration say {', '.join(twice)}; say each in one place only"
        raise Invalid(message, tuple((name, f"{app} says it in Betimes(settings=…)") for name in twice))
    combined = msgspec.structs.replace(own, **parts)
    if configuration.server.dev:
        return msgspec.structs.replace(combined, webhooks=loopback_allowed(combined.webhooks))
    return combined


def _load_application(place: str) -> Betimes:
    """Return the `Betimes` that `module:name` names, found from the working folder too."""
    found: Betimes = import_object(place, "an application", "shop:bt", Betimes)
    return found


def without_secrets(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration as data; credentials are in URLs, so of those only the kind is shown."""
    body = cast(dict[str, Any], msgspec.to_builtins(configuration))
    body["db"] = hide_password(configuration.db)
    body["encryption"]["keys"] = ["…"] * len(configuration.encryption.keys)
    body["secrets"] = dict.fromkeys(configuration.secrets, "…")
    channels = [body["channels"] or {}, body["sources"], *(tenant["channels"] for tenant in body["tenants"].values())]
    for named in channels:
        for channel in named.values():
            if "urls" in channel:
                channel["urls"] = [f"{urlsplit(url).scheme}://…" for url in channel["urls"]]
            if "url" in channel:
                channel["url"] = _host_of(channel["url"])
    if body["enrichment"]["url"]:
        body["enrichment"]["url"] = _host_of(body["enrichment"]["url"])
    return body


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"


def log_warnings() -> None:
    """Log only warnings and errors beside the answer of a command that ends."""
    from betimes.app.server import log_to_stderr

    log_to_stderr(logging.WARNING)
