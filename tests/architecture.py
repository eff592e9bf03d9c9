"""The rules the source tree is held to, as functions from a folder to the offences found in it.

Every check reads files and parses them; none imports what it looks at. An offence is a line of text that
names the file, the line and the rule, so that a failing test says what to change.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "betimes"
LINES_MAX = 400

DOMAINS = frozenset({"runs", "notifications", "intents", "schedules", "sensors", "scores"})
"""The folders of one shape."""
SHAPE = tuple(
    f"{name}.py"
    for name in ("model", "reasons", "decide", "fold", "domain", "tables", "service", "views", "routes", "commands")
)
"""The files that every domain has."""
OUTER = {
    "service", "routes", "commands", "worker",  # what callers see, and what is done outside a commit
    "registry", "payloads", "triggers",
    "delivery", "enrichment", "history", "inboxes", "message_texts",
    "actions", "bulk_claims", "claim_stock", "claimer", "due", "http_source", "lists", "sources",
    "evaluators", "identity_tokens", "proof",
    "hourly_sweep", "sweep",
}  # fmt: skip
"""The files of a domain that are not pure. All others decide, fold or describe, and import pure files only."""
PURE_ELSEWHERE = frozenset(
    {
        "backtest/decide.py",
        "backtest/model.py",
        "domain/completions.py",
        "domain/declaration.py",
        "domain/definition_rules.py",
        "domain/derivation.py",
        "domain/hooks.py",
        "domain/json_view.py",
        "domain/operations/model.py",
        "domain/run_requests.py",
        "domain/saved_responses/model.py",
        "domain/struct_forms.py",
        "domain/targets.py",
        "domain/variations.py",
        "domain/warnings.py",
        "http/policy.py",
    }
)
"""Pure files that belong to no domain."""

PURE = frozenset({"core", "pure"})
ENGINE = PURE | {"engine"}
SERVICES = ENGINE | {"domain"}
FRAMEWORKS = SERVICES | {"catalogue", "tenancy"}
READERS = FRAMEWORKS | {"http", "cli", "ledger"}
EVERYTHING = READERS | DOMAINS | {"admin", "backtest", "outbound", "stores", "testing", "app", "console", PACKAGE}

# What each part may import. `pure` stands for the pure files of every folder, wherever they are; the package's own
# `__init__` is the part "betimes".
ARROWS: dict[str, frozenset[str]] = {
    "core": frozenset({"core"}),
    "pure": PURE,
    "engine": frozenset({"core", "engine"}),
    "stores": frozenset({"core", "engine", "stores"}),
    "domain": SERVICES,
    "outbound": SERVICES | {"outbound"},
    **{name: SERVICES | {name, "outbound"} for name in DOMAINS},
    "tenancy": SERVICES | DOMAINS | {"admin"},
    "catalogue": PURE,
    "http": FRAMEWORKS | {"http"},
    "cli": FRAMEWORKS | {"cli"},
    "admin": FRAMEWORKS | {"admin"},
    "ledger": FRAMEWORKS | {"ledger", "notifications"},
    "backtest": READERS | {"backtest"},
    "console": READERS | {"console"},
    "testing": ENGINE | {"stores", "testing"},
    "app": EVERYTHING,
    "demo": EVERYTHING | {"demo"},
    "__main__": EVERYTHING,
    PACKAGE: EVERYTHING,
}
EDGES = {"routes": "http", "commands": "cli", "command": "cli"}
"""Files by the last word of their name, and the framework that they alone may import."""

# Modules that wire an application together and so belong to `app`, wherever users find them.
WIRING = ("cli/bootstrap.py", "testing/fixtures.py")

AMBIENT = re.compile(
    r"""
      (random|secrets|uuid)(\..+)?
    | time\.(time|monotonic|perf_counter|process_time)(_ns)?
    | time\.(localtime|gmtime|ctime)
    | datetime\.(datetime|date)\.(now|utcnow|today)
    | os\.(environb?|getenvb?|urandom|getrandom)(\..+)?
    | whenever\.\w+\.(now|today)\w*
    """,
    re.VERBOSE,
)

# The one module that may open time-zone data, and what would open the machine's.
ZONE_DOOR = "core/zones.py"
ZONE_DATA = re.compile(
    r"""
      (zoneinfo|tzdata|pytz|dateutil)(\..+)?
    | time\.(localtime|mktime|tzset|tzname|timezone|altzone|daylight)
    | whenever\.(ZonedDateTime|SYSTEM_TZ|reset_tzpath|reset_system_tz|clear_tzcache|get_tzpath)(\..+)?
    """,
    re.VERBOSE,
)
ZONE_METHODS = {"to_tz", "assume_tz", "to_system_tz", "assume_system_tz"}
LOCAL_WITHOUT_ZONE = {"astimezone": 0, "fromtimestamp": 1}
"""Methods that take the machine's own zone if they get no more arguments than this."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}


def imports_against_the_arrows(package: Path) -> list[str]:
    """Return the imports, also relative and type-checking ones, that no arrow allows."""
    offences = []
    for path in python_files(package):
        part = part_of(path, package)
        if part not in ARROWS:
            offences.append(f"{path}: the part {part!r} has no place in the architecture")
            continue
        edge = EDGES.get(path.stem.rpartition("_")[2]) if part != "pure" else None
        for line, module in imported_modules(path, package):
            target = part_of_module(module)
            if target not in ARROWS[part] and target != edge:
                offences.append(f"{path}:{line}: {part} must not import {target}")
    return offences


def missing_files(package: Path) -> list[str]:
    """Return what the folders of the domains lack of the shape that all of them have."""
    return [
        f"{package / domain}: has no {name}"
        for domain in sorted(DOMAINS)
        for name in SHAPE
        if not (package / domain / name).exists()
    ]


def ambient_reads(package: Path) -> list[str]:
    """Uses of a clock, randomness or the environment where these must come in as arguments."""
    return [
        f"{path}:{line}: {name} is ambient; take it as an argument"
        for path in python_files(package)
        if part_of(path, package) in ("core", "pure", "engine")
        for line, name in outside_names(ast.parse(path.read_text()))
        if AMBIENT.fullmatch(name)
    ]


def hidden_imports(package: Path) -> list[str]:
    """Calls that import what no import statement shows, and so pass by every other check of imports."""
    return [
        f"{path}:{node.lineno}: __import__ hides an import; write an import statement"
        for path in python_files(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "__import__"
    ]


def zone_data_outside_the_door(package: Path) -> list[str]:
    """Look-ups of time zones anywhere but in the module that opens the pinned data."""
    return [
        f"{path}:{line}: {name} may read the machine's time zones; use {ZONE_DOOR}"
        for path in python_files(package)
        if path.relative_to(package).as_posix() != ZONE_DOOR
        for line, name in zone_look_ups(ast.parse(path.read_text()))
    ]


def zone_look_ups(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and call that opens time-zone data or goes by the machine's own zone."""
    for line, name in outside_names(tree):
        if ZONE_DATA.fullmatch(name):
            yield line, name
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in ZONE_METHODS:
                yield node.lineno, attr
            case ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=[]) if len(args) <= LOCAL_WITHOUT_ZONE.get(
                attr, -1
            ):
                yield node.lineno, f"{attr} without a zone"
            case ast.Call(args=[ast.Constant(value="tzdata"), *_]):
                yield node.lineno, "tzdata"
            case _:
                continue


def overlong_files(folder: Path) -> list[str]:
    """Files too long to tell one story."""
    lengths = ((path, len(path.read_text().splitlines())) for path in source_files(folder))
    return [f"{path}: {length} lines, at most {LINES_MAX}" for path, length in lengths if length > LINES_MAX]


def modules_without_docstring(folder: Path) -> list[str]:
    """Modules that do not open by saying what they hold."""
    return [
        f"{path}: no module docstring"
        for path in python_files(folder)
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]


def unfinished_work(folder: Path) -> list[str]:
    """Notes to oneself and bodies left out."""
    return [
        f"{path}:{number}: {found[0]}"
        for path in source_files(folder)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (found := UNFINISHED.search(line))
    ]


def vague_module_names(folder: Path) -> list[str]:
    """Modules and folders whose name says nothing about what they hold."""
    return [
        f"{path}: name it for what it holds"
        for path in python_files(folder)
        if VAGUE_NAMES & {*path.relative_to(folder).parent.parts, path.stem}
    ]


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def source_files(folder: Path) -> list[Path]:
    return sorted([*folder.rglob("*.py"), *folder.rglob("*.sql")])


def part_of(path: Path, package: Path) -> str:
    """Return the part of the architecture that a file belongs to."""
    inner = path.relative_to(package)
    if inner.as_posix() in WIRING:
        return "app"
    first = inner.parts[0].removesuffix(".py")
    if is_pure(inner):
        return "pure"
    return PACKAGE if first == "__init__" else first


def is_pure(inner: Path) -> bool:
    """Return whether a file, by its name, may import nothing but core and other pure files."""
    if inner.as_posix() in PURE_ELSEWHERE:
        return True
    return (
        len(inner.parts) > 1
        and inner.parts[0] in DOMAINS
        and inner.stem.rpartition("_")[2] != "views"
        and inner.stem not in OUTER | {"__init__"}
    )


def part_of_module(module: str) -> str:
    """Return the part that a dotted name below the package belongs to."""
    inner = Path(*module.split(".")).with_suffix(".py")
    return "pure" if is_pure(inner) else inner.parts[0].removesuffix(".py")


def imported_modules(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Yield the modules of the package that a file imports, by their names below it, each with its line."""
    containing = (PACKAGE, *path.relative_to(package).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(names=names):
                modules = [named_module(absolute_origin(node, containing), alias.name, package) for alias in names]
            case _:
                continue
        for module in dict.fromkeys(modules):
            root, _, rest = module.partition(".")
            if root == PACKAGE:
                yield node.lineno, rest or PACKAGE


def named_module(origin: str, name: str, package: Path) -> str:
    """Return what `from origin import name` reaches: a module of that name, or else the origin itself."""
    inner = "/".join([*origin.split(".")[1:], name])
    is_module = (package / f"{inner}.py").exists() or (package / inner).is_dir()
    is_part = origin == PACKAGE and name in ARROWS
    return f"{origin}.{name}" if is_module or is_part else origin


def absolute_origin(node: ast.ImportFrom, containing: tuple[str, ...]) -> str:
    if not node.level:
        return node.module or ""
    base = containing[: len(containing) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def outside_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every imported module, name and attribute chain under the dotted name it has where it is defined."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                origins[bound] = alias.name if alias.asname else bound
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := dotted_name(node, origins)):
            yield node.lineno, name


def dotted_name(node: ast.expr, origins: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return origins.get(name)
        case ast.Attribute(value=value, attr=attribute):
            base = dotted_name(value, origins)
            return f"{base}.{attribute}" if base else None
        case _:
            return None
