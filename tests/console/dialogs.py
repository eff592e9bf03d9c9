"""Dialogs of the console that ask before something is done."""

from playwright.async_api import Page, expect


async def confirm(page: Page, title: str, button: str | None = None) -> None:
    """Read the dry run of the open dialog, confirm it with the keyboard, and close it; `button` if it says a count."""
    dialog = page.get_by_role("dialog", name=title)
    await expect(dialog.get_by_text("A dry run:")).to_be_visible()
    does_it = dialog.get_by_role("button", name=button or title, exact=True)
    await expect(does_it).to_be_enabled()  # a key does not wait for that, and is lost
    await does_it.press("Enter")
    await expect(dialog.get_by_text("Done.")).to_be_visible()
    await page.keyboard.press("Escape")
