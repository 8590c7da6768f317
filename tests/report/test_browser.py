"""The page in a real browser: Chromium, opened from a file."""

import json
import shutil

import example_findings as examples
import numpy as np
import pytest
from example_findings import FIGURES, HOSTILE, STEPS, example, written

from penfac.report import words
from penfac.report.page import page

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium is not installed"
)

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"
    ),
]
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1280,900", "--hide-scrollbars",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    service = webdriver.ChromeService(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser, tmp_path):
    """Opens the page of some findings, in a window as wide as asked, light or dark.
    At the end of the test: nothing was said on the console, nothing was fetched."""

    def open_page(
        findings: dict | None = None, width: int = 1280, dark: bool = False
    ) -> object:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": 900,
                "deviceScaleFactor": 1,
                "mobile": width < 500,
            },
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(written(tmp_path, page(findings or example(), FIGURES)).as_uri())
        return browser

    browser.get_log("browser"), browser.get_log("performance")
    yield open_page
    assert browser.get_log("browser") == []
    assert fetched(browser) == []


def fetched(browser) -> list[str]:
    """Addresses our page asked for that are neither files nor inside it."""
    events = [
        json.loads(e["message"])["message"] for e in browser.get_log("performance")
    ]
    urls = [
        e["params"]["request"]["url"]
        for e in events
        if e["method"] == "Network.requestWillBeSent"
        and e["params"]["documentURL"].startswith("file:")  # no tab of Chromium's own
    ]
    assert urls, "the log of requests is empty: it did not listen"
    return [u for u in urls if not u.startswith(("file:", "data:", "about:"))]


def first(browser, selector: str):
    return browser.find_element(By.CSS_SELECTOR, selector)


def every(browser, selector: str) -> list:
    return browser.find_elements(By.CSS_SELECTOR, selector)


def texts(browser, selector: str) -> list[str]:
    return [e.text for e in every(browser, selector)]


def hover(browser, part: float) -> None:
    """The pointer over the first chart, so far along the steps."""
    place = browser.execute_script(
        """const plot = document.querySelector(".plot");
        plot.scrollIntoView({block: "center"});
        const base = plot.querySelector(".base").getBoundingClientRect();
        return [base.left + base.width * arguments[0], base.top - 60];""",
        part,
    )
    actions = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(*(int(x) for x in place))
    actions.perform()


def readout(browser) -> dict[str, list[str]]:
    """What is shown for each arm: mean, deviation, n."""
    rows = every(browser, ".readout tr")
    return {
        row.get_attribute("data-arm"): [
            cell.text for cell in row.find_elements(By.TAG_NAME, "td")
        ][1:]
        for row in rows
    }


def expected(findings: dict, k: int) -> dict[str, list[str]]:
    """The same, worked out from the findings."""
    said = {}
    for arm in findings["panels"][0]["arms"]:
        there = [s["returns"][k] for s in arm["seeds"] if len(s["returns"]) > k]
        mean, std = float(np.mean(there)), float(np.std(there, ddof=1))
        said[arm["arm"]] = [
            words.number(mean), f"± {words.number(std)}", f"n = {len(there)}"
        ]  # fmt: skip
    return said


def y_labels(browser) -> list[str]:
    return texts(browser, ".chart:first-of-type .axis .y")


def x_labels(browser) -> list[str]:
    return texts(browser, ".chart:first-of-type .axis .x")


def test_it_opens_from_a_file_without_a_word(shown):
    """The fixture checks console and network; here, that all is drawn and visible."""
    browser = shown()
    assert browser.current_url.startswith("file:")
    assert len(every(browser, ".chart .plot")) == 2
    assert len(every(browser, ".chart:first-of-type path.mean")) == 3
    loaded = "return [...document.images].map((i) => i.complete && i.naturalWidth > 0)"
    assert all(browser.execute_script(loaded))


@pytest.mark.parametrize("k", [0, 4, 9, 20])
def test_hovering_shows_the_numbers_of_the_nearest_evaluation(shown, k):
    """A little beside it too; arms in the order of their means."""
    browser = shown()
    hover(browser, min(1, k / 20 + 0.008))
    step = f"{STEPS[k]:,}".replace(",", words.THIN)
    assert first(browser, ".readout .step").text == f"step {step}"
    want = expected(example(), k)
    assert readout(browser) == want
    if k == 9:
        assert list(readout(browser)) == ["penfac", "ppo", "ddpg"]


def test_an_arm_that_has_not_come_so_far_says_so(shown):
    findings = example()
    for seed in findings["panels"][0]["arms"][2]["seeds"]:
        seed["steps"], seed["returns"] = STEPS[:5], seed["returns"][:5]
    browser = shown(findings)
    hover(browser, 0.8)
    assert readout(browser)["ddpg"] == ["no evaluation here"]
    assert len(every(browser, ".front .dot")) == 2


def test_leaving_the_chart_ends_the_readout(shown):
    browser = shown()
    hover(browser, 0.5)
    assert first(browser, ".readout").is_displayed()
    ActionChains(browser).move_to_element(first(browser, ".chart h3")).perform()
    assert not first(browser, ".readout").is_displayed()


def test_the_legend_hides_an_arm_and_the_scale_follows(shown):
    """Steps stay where they are; the other chart is left alone."""
    browser = shown()
    tall, wide = y_labels(browser), x_labels(browser)
    entry = first(browser, ".entry")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    arms = [
        a.get_attribute("data-arm") for a in every(browser, ".chart:first-of-type .arm")
    ]
    assert arms == ["ppo", "ddpg"]
    assert y_labels(browser) != tall
    assert x_labels(browser) == wide
    hover(browser, 0.5)
    assert list(readout(browser)) == ["ppo", "ddpg"]
    assert len(every(browser, ".chart:nth-of-type(2) .arm")) == 3
    entry.click()
    assert y_labels(browser) == tall


def test_all_arms_can_be_hidden(shown):
    browser = shown()
    for entry in every(browser, ".chart:first-of-type .entry"):
        entry.click()
    hover(browser, 0.5)
    assert "No arm is shown." in first(browser, ".readout").text


def test_steps_on_a_log_scale_keep_their_zero(shown):
    """0 stands at the left edge, then the first evaluation; the numbers stay right."""
    browser = shown()
    first(browser, ".log").click()
    assert x_labels(browser) == ["0", "50k", "100k", "200k", "500k", "1M"]
    assert "log scale" in first(browser, ".axis .end").text
    finite = "return !document.querySelector('.mean').getAttribute('d').includes('NaN')"
    assert browser.execute_script(finite)
    hover(browser, 0)
    assert readout(browser) == expected(example(), 0)
    hover(browser, 1)
    assert readout(browser) == expected(example(), 20)
    first(browser, ".log").click()
    assert x_labels(browser)[1] == "100k"


def test_every_seed_is_a_thin_line(shown):
    browser = shown()
    assert not every(browser, ".seed-lines")
    first(browser, ".each").click()
    lines = "return [...document.querySelectorAll('.seed-lines')].map((p) => " + (
        "p.getAttribute('d').split('M').length - 1)"
    )
    assert browser.execute_script(lines) == [10, 9, 10]
    first(browser, ".each").click()
    assert not every(browser, ".seed-lines")


def test_the_keyboard_does_all_the_mouse_does(shown):
    """Buttons by tab and space; the chart itself by arrows, Home, End and Escape."""
    browser = shown()
    browser.execute_script("document.querySelector('.log').focus()")

    def press(*keys: str) -> None:
        ActionChains(browser).send_keys(*keys).perform()

    press(Keys.SPACE)
    assert first(browser, ".log").get_attribute("aria-pressed") == "true"
    press(Keys.TAB, Keys.TAB, Keys.HOME)
    assert first(browser, ".readout .step").text == "step 0"
    press(Keys.ARROW_RIGHT)
    assert readout(browser) == expected(example(), 1)
    press(Keys.END, Keys.ARROW_RIGHT)
    assert readout(browser) == expected(example(), 20)
    press(Keys.ESCAPE)
    assert not first(browser, ".readout").is_displayed()
    press(Keys.TAB, Keys.ENTER)
    assert first(browser, ".entry").get_attribute("aria-pressed") == "false"


def test_the_command_is_copied_or_at_least_selected(shown):
    browser = shown()
    button = first(browser, "[data-copy]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    said = browser.execute_async_script(
        "setTimeout(() => arguments[0](document.getElementById('copied').textContent), 300)"
    )
    assert said in ("Copied", "Selected")


@pytest.mark.parametrize("make", [example, examples.hostile])
def test_a_phone_never_scrolls_sideways(shown, make):
    """Tables scroll in their own boxes; the readout lies under the chart."""
    browser = shown(make(), width=390)
    inside = "return document.documentElement.scrollWidth <= 390"
    assert browser.execute_script(inside)
    hover(browser, 0.5)
    assert first(browser, ".readout.under").is_displayed()
    browser.execute_script(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )
    assert browser.execute_script(inside)


def test_charts_follow_the_window(shown):
    browser = shown()
    box = "return document.querySelector('.back').getAttribute('viewBox')"
    before = browser.execute_script(box)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    after = browser.execute_async_script(
        f"setTimeout(() => arguments[0]((() => {{ {box} }})()), 300)"
    )
    assert before != after
    assert float(after.split()[2]) < 700


def test_black_ink_is_light_in_the_dark(shown):
    """The seventh arm is black on paper."""
    ink = "return getComputedStyle(document.querySelector('.arm.ink-6 .mean')).stroke"
    findings = examples.large(1, 8, 2, 5)
    assert shown(findings).execute_script(ink) == "rgb(0, 0, 0)"
    browser = shown(findings, dark=True)
    assert browser.execute_script(ink) == "rgb(244, 244, 240)"
    background = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(background) == "rgb(21, 24, 27)"


def test_a_hostile_name_does_not_run(shown):
    """It is read as text in the heading, the legend and the readout."""
    browser = shown(examples.hostile())
    assert browser.execute_script("return window.hacked") is None
    assert first(browser, "h1").text == HOSTILE
    assert first(browser, ".entry .name").text == HOSTILE
    hover(browser, 0.5)
    assert HOSTILE in readout(browser)
    assert browser.execute_script("return window.hacked") is None


def test_odd_curves_are_drawn(shown):
    """One evaluation, none at all, returns that never change, all below zero."""
    findings = example()
    arms = findings["panels"][0]["arms"]
    for seed in arms[0]["seeds"]:
        seed["steps"], seed["returns"] = [0], [-5.0]
    for arm in arms[1:]:
        arm["seeds"] = []
    for arm in findings["panels"][1]["arms"]:
        arm["seeds"] = []
    browser = shown(findings)
    first(browser, ".log").click()
    hover(browser, 0.5)
    assert readout(browser) == {"penfac": ["−5.00", "± 0", "n = 10"]}
    assert "No evaluations yet." in first(browser, ".chart:nth-of-type(2)").text


def test_paper_shows_what_was_folded(shown):
    browser = shown()
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert not every(browser, "details:not([open])")
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert every(browser, "details:not([open])")


def test_twenty_curves_of_sixty_seeds_stay_smooth(shown):
    """Drawing all seeds takes less than a second, a move of the pointer no time."""
    browser = shown(examples.large(1, 20))
    timed = """
        const button = document.querySelector(".each");
        const plot = document.querySelector(".plot");
        const begin = performance.now();
        button.click();
        const drawn = performance.now();
        for (let k = 0; k < 100; k++) {
          plot.dispatchEvent(new PointerEvent("pointermove", {clientX: 100 + 8 * k}));
        }
        return [drawn - begin, (performance.now() - drawn) / 100];
    """
    drawing, moving = browser.execute_script(timed)
    assert drawing < 1000
    assert moving < 16
