"""A headless browser for tests that click, read and look."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.waiting import until

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no Chromium with its chromedriver is installed"
)

# Bokeh's widgets are in shadow roots, which a plain query does not enter.
_DEEP = """
const found = [];
const look = (root) => {
  for (const each of root.querySelectorAll("*")) {
    if (each.matches(arguments[0])) found.push(each);
    if (each.shadowRoot) look(each.shadowRoot);
  }
};
look(document);
return found;
"""
_ALL = f"const all = (function() {{{_DEEP}}})(arguments[0]);\n"
_TEXTS = f"{_ALL}return all.map((each) => each.innerText);"
_CLICK = f"{_ALL}all.forEach((each) => each.click());"
# How many pixels of the canvases in a section are neither blank nor of one colour.
_INKED = """
const colours = new Map();
const look = (root) => {
  for (const each of root.querySelectorAll("*")) {
    if (each.tagName == "CANVAS" && each.width && each.height) {
      const data = each.getContext("2d")?.getImageData(0, 0, each.width, each.height).data ?? [];
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3]) {
          const colour = data[i] << 16 | data[i + 1] << 8 | data[i + 2];
          colours.set(colour, (colours.get(colour) ?? 0) + 1);
        }
    }
    if (each.shadowRoot) look(each.shadowRoot);
  }
};
look(document.querySelector(arguments[0]));
const counts = [...colours.values()].sort((a, b) => b - a);
return counts.slice(1).reduce((a, b) => a + b, 0);
"""


class Browser:
    """A page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open a page with all evidence unfolded, and wait until all charts are drawn."""
        self.driver.get(url)
        self.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        self.until(lambda: self.run("return window.Bokeh?.documents?.[0]?.is_idle ?? false"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        """All elements, those in shadow roots too."""
        return self.run(_DEEP, selector)

    def texts(self, selector: str) -> list[str]:
        """What is read in all of them, at one instant: a page that is alive replaces its rows."""
        return self.run(_TEXTS, selector)

    def click(self, selector: str) -> None:
        """Click on all of them, at one instant."""
        self.run(_CLICK, selector)

    def inked(self, section: str) -> int:
        """How many pixels its charts have in another colour than the ground."""
        return self.run(_INKED, section)

    def drag(self, section: str, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Drag with the mouse, from and to points that are counted from the middle."""
        from selenium.webdriver import ActionChains

        element = self.driver.find_element("css selector", section)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        hand = ActionChains(self.driver, duration=50).move_to_element_with_offset(element, *start)
        by = end[0] - start[0], end[1] - start[1]
        hand.click_and_hold().move_by_offset(*by).release().perform()

    def write(self, selector: str, text: str) -> None:
        """Write into the first input that fits, and leave it."""
        self.all(selector)[0].send_keys(text + "\n")

    def until(self, condition: Callable[[], Any]) -> Any:
        """What the condition comes to when it holds; fails if it never does."""
        return until(condition, every=0.05)

    def complaints(self) -> list[str]:
        """What the browser's console has against the page."""
        log = self.driver.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def browser(width: int = 1200, *, dark: bool = False) -> Iterator[Browser]:
    """A browser with a window of this width."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("headless=new", "no-sandbox", "disable-gpu", f"window-size={width},1000"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        if dark:
            scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        yield Browser(driver)
    finally:
        driver.quit()
