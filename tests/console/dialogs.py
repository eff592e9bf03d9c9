"""Dialogs of the console that ask before something is done."""

from playwright.async_api import Page, Request, expect

from tests.console.test_every_page import AXE, CONTRAST, RULES

MADE_OF = """() => {
  const kept = ["role", "disabled", "type", "open", "aria-expanded"];
  const of = (one) => `${one.tagName} ${one.getAttribute("class")} ${kept.map((name) => one.getAttribute(name))}`;
  const parts = [...document.querySelectorAll("dialog[open] *")].map(of);
  return parts.filter((part, place) => !parts.slice(0, place).includes(part)).join();
}"""
"""What the open dialog is made of: elements with their classes and states, each once."""
LOOKED_AT: set[str] = set()


async def confirm(page: Page, title: str, button: str | None = None) -> None:
    """Read the dry run of the open dialog, confirm it with the keyboard, and close it; `button` if it says a count."""
    dialog = page.get_by_role("dialog", name=title)
    await expect(dialog.get_by_text("A dry run:")).to_be_visible()
    does_it = dialog.get_by_role("button", name=button or title, exact=True)
    await expect(does_it).to_be_enabled()  # a key does not wait for that, and is lost
    await does_it.press("Enter")
    await expect(dialog.get_by_text("Done.")).to_be_visible()
    await page.keyboard.press("Escape")


async def check_dialog(page: Page) -> None:
    """Find what axe finds in the open dialog, in light and dark, unless one that is made of the same was looked at."""
    made_of = await page.evaluate(MADE_OF)
    if made_of in LOOKED_AT:
        return
    LOOKED_AT.add(made_of)
    if await page.evaluate("typeof axe") == "undefined":
        await page.evaluate(AXE)
    for scheme, rules in (("light", RULES), ("dark", CONTRAST)):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
        found = await page.evaluate(
            "(options) => axe.run('dialog[open]', options).then((found) => found.violations)", options
        )
        assert [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found] == [], scheme


def is_write(request: Request) -> bool:
    """Return whether a request changes something."""
    return request.method != "GET" and "betimes-dry-run" not in request.headers
