"""What people do with the console, in a browser, with the built program behind it.

    stories.py PROGRAM FILES PICTURES [STORY …]

Each story has a server and a store of its own. A line tells the result of each; the exit code is 1 if one fails.
"""

import faulthandler
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import traceback

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from scene import CHROMIUM, Server, Tab

STORIES = {}
PAGES = ["#/home", "#/people", "#/changes", "#/health", "#/rules", "#/requests", "#/webhooks", "#/keys", "#/data"]
WIDTHS = (320, 360, 768, 1280)
# A story that takes longer hangs: the program says where, and ends. The longest one takes a minute alone.
LONGEST_SECONDS = 300
# The rules of axe for WCAG 2.2, levels A and AA.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}


def story(run):
    STORIES[run.__name__] = run
    return run


def for_trying(run):
    """The server of the story runs in development mode."""
    run.mode = "development"
    return run


def with_shim(run):
    """The program of the story has another clock and another disk."""
    run.has_shim = True
    return run


def with_flags(*flags):
    """The server of the story runs with further flags."""
    def mark(run):
        run.flags = flags
        return run
    return mark


class Scene:
    def __init__(self, browser, server, files, pictures):
        self.browser, self.server, self.files, self.pictures = browser, server, pathlib.Path(files), pathlib.Path(pictures)
        self.tabs = []

    def tab(self, **options):
        tab = Tab(self.browser, self.server, **options)
        self.tabs.append(tab)
        return tab

    def ada(self):
        """Ada has a phone; her e-mail address belongs to another person until somebody merges the two."""
        self.customer = self.server.identify(customerid="ada", ios_idfv="PHONE-1")
        self.mail = self.server.identify(email="ada@example.com")
        self.server.event(self.customer, "opened", plan="pro")
        self.server.event(self.mail, "clicked", plan="free")
        return self

    def merge(self):
        status, answer = self.server.admin("POST", "/onym/v1/merges", {"from": self.mail, "into": self.customer, "reason": "same address"})
        assert status == 200, answer
        return answer["id"]


def check_page(tab, where):
    """What holds on every page and in every dialog."""
    found = Axe().run(tab.page, options=RULES).response["violations"]
    assert not found, f"{where}: axe: " + json.dumps([(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found])
    assert tab.page.locator("h1").count() == 1, f"{where}: one h1"
    small = tab.page.evaluate("""() => [...document.querySelectorAll('a, button, input, select')].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && !one.closest('.skip') && !one.matches('.skip, [type=radio], [type=checkbox]') && (box.height < 23.5 || box.width < 23.5)
            && getComputedStyle(one).display !== 'inline'; }).map((one) => one.outerHTML.slice(0, 100))""")
    assert not small, f"{where}: small targets: {small}"


def check_widths(tab, where):
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 800})
        wide = tab.page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width, f"{where}: {wide} pixels at a width of {width}"
    tab.page.set_viewport_size({"width": 1280, "height": 900})


def pictures(scene, tab, name):
    """The page in light and in dark, to be looked at; the dark one has its contrasts checked."""
    tab.picture(scene.pictures, f"{name}-light")
    tab.page.emulate_media(color_scheme="dark")
    check_page(tab, f"{name} dark")
    tab.picture(scene.pictures, f"{name}-dark")
    tab.page.emulate_media(color_scheme="light")


def confirm(tab, verb, reason="asked by mail"):
    dialog = tab.page.get_by_role("dialog")
    if dialog.get_by_label("Reason").count():
        expect(dialog.get_by_role("button", name=verb, exact=True)).to_be_disabled()
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()


@story
def a_link_opens_the_first_page(scene):
    tab = scene.tab().sign_in()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Home")
    expect(tab.page.get_by_text("● live")).to_be_visible()
    assert "code" not in tab.page.url, "the address has no code"
    assert not any("oc_" in url for url in tab.asked[1:]), "no code in an address"
    assert "oc_" not in scene.server.log_text(), "no code in the log"
    stored = tab.page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert "oc_" not in stored and "onym_" not in stored, stored
    tab.page.reload()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Home")


@story
def typing_goes_on_while_a_page_arrives(scene):
    scene.ada()
    tab = scene.tab()
    tab.page.route("**/onym/v1/stats", lambda route: (time.sleep(0.5), route.continue_()))
    tab.sign_in()
    tab.page.keyboard.press("Control+k")
    for letter in "ada@exam":
        tab.page.keyboard.type(letter)
        tab.page.wait_for_timeout(120)
    expect(tab.page.get_by_role("searchbox")).to_have_value("ada@exam")
    expect(tab.page.get_by_role("searchbox")).to_be_focused()


@story
def a_link_works_once(scene):
    link = scene.server.link()
    first = scene.tab()
    first.page.goto(link)
    first.page.get_by_role("navigation", name="Pages").wait_for()
    second = scene.tab()
    second.allowed = ["status of 401"]
    second.page.goto(link)
    expect(second.page.get_by_role("alert")).to_contain_text("code_used")
    check_page(second, "sign-in")
    second.page.get_by_label("Link or code").fill("oc_wrong")
    second.page.get_by_role("button", name="Sign in").click()
    expect(second.page.get_by_role("alert")).to_contain_text("code_unknown")
    second.page.get_by_label("Link or code").fill(scene.server.link())
    second.page.keyboard.press("Enter")
    second.page.get_by_role("navigation", name="Pages").wait_for()


@story
def the_first_call_is_received(scene):
    tab = scene.tab().sign_in()
    tab.settle()
    expect(tab.page.get_by_text("No call has made a person yet.")).to_be_visible()
    check_page(tab, "first steps")
    tab.picture(scene.pictures, "first-steps")
    # In production, no key is in the page.
    assert not any(key in tab.page.content() for key in (scene.server.keys["idsync"]["web_key"], scene.server.keys["linking"]["api_key"]))
    keys = scene.server.keys
    known = {"IDSync": keys["idsync"]["web_key"], "Claim": keys["claim"]["client_key"], "Entitlements": keys["entitlements"]["project_key"],
             "Linking": keys["linking"]["api_key"]}
    for name, key in known.items():
        snippet = tab.page.get_by_label(f"First call of {name}").inner_text().replace("KEY", key)
        answer = subprocess.run(["bash", "-c", snippet.replace("curl -s", "curl -s -w '%{http_code}' -o /dev/null", 1)], capture_output=True, text=True, timeout=20)
        assert answer.stdout in ("200", "201"), f"{name}: {answer.stdout} {answer.stderr}"
    tab.page.get_by_text("Received: the first person is here.").wait_for()
    tab.page.get_by_role("button", name="Show it").click()
    expect(tab.page.get_by_role("heading", name="Last changes")).to_be_visible()


@story
@for_trying
def demo_data_is_made_and_removed(scene):
    tab = scene.tab().sign_in()
    tab.settle()
    check_page(tab, "first steps with demo data")
    check_widths(tab, "first steps with demo data")
    tab.page.get_by_role("button", name="Make demo data").click()
    tab.page.get_by_role("button", name="Remove demo data…").wait_for(timeout=30000)
    assert scene.server.admin("GET", "/onym/v1/stats")[1]["people"] == 200
    check_page(tab, "home with demo data")
    check_widths(tab, "home with demo data")
    tab.picture(scene.pictures, "demo")
    tab.page.get_by_role("button", name="Remove demo data…").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("dialog")).to_contain_text("200 people of the demo data.")
    check_page(tab, "removal of demo data")
    confirm(tab, "Remove")
    tab.page.get_by_role("button", name="Make demo data").wait_for(timeout=30000)
    assert scene.server.admin("GET", "/onym/v1/demo")[1] == {"made": False, "possible": True}
    tab.page.get_by_role("button", name="Make demo data").click()
    tab.page.get_by_role("button", name="Remove demo data…").wait_for(timeout=30000)


@story
def a_person_is_found(scene):
    scene.ada()
    owl = "owl_anon_11111111-1111-4111-8111-111111111111"
    status, answer = scene.server.call("POST", "/v1/ingest", {"bundle_id": "com.example.demo", "events": [
        {"session_id": "99999999-9999-4999-8999-999999999999", "user_id": owl, "level": "info", "message": "hello"}]},
        {"Authorization": "Bearer " + scene.server.keys["claim"]["client_key"]})
    assert status == 200, answer
    tab = scene.tab().sign_in()
    for text, heading in [(scene.customer, "ada"), ("ADA@example.com", "ada@example.com"), ("email:ada@example.com", "ada@example.com"), ("ada", "ada"),
                          ("ios_idfv:PHONE-1", "ada"), (owl, None)]:
        tab.page.keyboard.press("Control+k")
        tab.page.keyboard.type(text)
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_function("() => location.hash.startsWith('#/person/')")
        tab.settle()
        if heading:
            expect(tab.page.get_by_role("heading", level=1)).to_have_text(heading)
        tab.go("#/home")
    tab.page.get_by_role("searchbox").fill("nobody-has-this")
    tab.page.get_by_role("button", name="Find").click()
    expect(tab.page.get_by_text("Nobody has this id or value now.")).to_be_visible()
    # A value of a person is in the fragment of an address of the page only, which no server sees.
    pages = [url for url in tab.asked if "/onym/v1/" not in url]
    assert not any("ada" in url.lower() for url in pages), pages


@story
def why_they_are_one_and_why_not(scene):
    scene.ada().merge()
    scene.server.identify(customerid="bob")
    tab = scene.tab().sign_in(to="#/explain?a=customerid%3Aada&b=email%3Aada%40example.com")
    expect(tab.page.get_by_text("They are one person:")).to_be_visible()
    expect(tab.page.get_by_role("cell", name="administrator")).to_be_visible()
    check_page(tab, "explain")
    tab.page.get_by_label("Second id").fill("customerid:bob")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("They are two people.")).to_be_visible()
    # Two nodes of the graph ask the same question.
    tab.go(f"#/person/{scene.customer}?tab=graph")
    for name in ("identity customerid:ada", "identity email:ada@example.com"):
        node = tab.page.get_by_role("button", name=name, exact=True)
        node.focus()
        tab.page.keyboard.press("Shift+Enter")
    tab.page.get_by_role("link", name="Why, or why not?").click()
    expect(tab.page.get_by_text("They are one person:")).to_be_visible()


@story
def the_last_question_counts(scene):
    """The answer to an earlier question comes last. It does not take the place of the later one's."""
    scene.ada().merge()
    scene.server.identify(customerid="bob")
    tab = scene.tab().sign_in(to="#/explain")
    held = []
    tab.page.route("**/onym/v1/explain?*", lambda route: route.continue_() if held else held.append(route))
    tab.page.get_by_label("First id").fill("customerid:ada")
    tab.page.get_by_label("Second id").fill("email:ada@example.com")
    tab.page.keyboard.press("Enter")
    assert until(lambda: (tab.page.wait_for_timeout(20), held)[1]), "the first question was asked"
    tab.page.get_by_label("Second id").fill("customerid:bob")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("They are two people.")).to_be_visible()
    held[0].continue_()
    # What comes after it has an answer, so it has one too.
    for _ in range(3):
        tab.page.evaluate("() => fetch('/healthz').then((answer) => answer.text())")
    expect(tab.page.get_by_text("They are two people.")).to_be_visible()
    assert tab.page.locator("[aria-busy]").count() == 0


@story
def a_merge_and_its_undo(scene):
    scene.ada()
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Merge…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("The other person").fill("email:ada@example.com")
    dialog.get_by_text("Properties of which one value hides the other").wait_for()
    check_page(tab, "merge")
    tab.picture(scene.pictures, "merge")
    confirm(tab, "Merge")
    tab.page.get_by_role("heading", name="Members").wait_for()
    tab.settle()
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["members_count"] == 2
    journal = scene.server.admin("GET", f"/onym/v1/people/{scene.customer}/journal")[1]["calls"]
    assert journal[0]["reason"] == "asked by mail", journal[0]
    check_page(tab, "merged person")
    tab.page.get_by_role("button", name="Undo…").click()
    dialog.get_by_text("What goes back").wait_for()
    confirm(tab, "Undo the merge", "it was her sister")
    expect(tab.page.get_by_role("heading", name="Members")).to_have_count(0)
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["members_count"] == 1
    # The graph shows for ever that they were one.
    tab.go(f"#/person/{scene.customer}?tab=graph")
    tab.page.get_by_role("button", name=f"merge from {scene.mail} to {scene.customer}").or_(
        tab.page.get_by_role("button", name=f"merge from {scene.customer} to {scene.mail}")).first.focus()
    assert tab.page.locator("line.merge.undone").count() == 1
    tab.page.keyboard.press("Enter")
    expect(dialog.get_by_text("Undone")).to_be_visible()


@story
def a_shared_tablet_is_split(scene):
    """Bob's tablet became Ada's when she logged in on it. His events leave her with the tablet, and come back."""
    ada = scene.server.identify(ios_idfv="TABLET")
    scene.server.event(ada, "bob reads", device="TABLET", plan="free")
    assert scene.server.identify(customerid="ada", ios_idfv="TABLET") == ada
    scene.server.event(ada, "ada pays", device="PHONE", plan="pro")
    before = scene.server.admin("GET", f"/onym/v1/people/{ada}")[1]
    tab = scene.tab().sign_in(to=f"#/person/{ada}")
    tab.page.get_by_role("button", name="Split…").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog.get_by_text("Name what belongs to the other person.")).to_be_visible()
    dialog.get_by_label("Identities to give away").fill("ios_idfv:TABLET")
    dialog.get_by_label("Rows and properties that came by").fill("ios_idfv:TABLET")
    dialog.get_by_text("A new person").wait_for()
    expect(dialog.get_by_text("free")).to_be_visible()
    check_page(tab, "split")
    tab.picture(scene.pictures, "split")
    confirm(tab, "Split", "Bob's tablet")
    tab.page.get_by_role("heading", name="Splits").wait_for()
    tab.settle()
    made = scene.server.admin("GET", "/onym/v1/splits")[1]["splits"][0]
    assert made["reason"] == "Bob's tablet" and made["rows"]["event"] == 1, made
    counts = [scene.server.admin("GET", f"/onym/v1/people/{one}")[1]["counts"]["event"] for one in (ada, made["into"])]
    assert counts == [1, 1], counts
    check_page(tab, "split person")
    check_widths(tab, "split person")
    # As of the moment before the split everything is with Ada, and nothing can be changed.
    tab.page.get_by_label("As of").fill("seq:4")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    tab.page.get_by_text("This was so as of").wait_for()
    tab.settle()
    expect(tab.page.get_by_role("rowheader", name="TABLET")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Split…")).to_have_count(0)
    check_page(tab, "as of")
    tab.page.get_by_role("link", name="Show it as it is now").click()
    tab.page.get_by_role("button", name="Undo…").click()
    dialog.get_by_text("What goes").wait_for()
    confirm(tab, "Undo the split", "it is hers")
    tab.page.get_by_text("undone").first.wait_for()
    after = scene.server.admin("GET", f"/onym/v1/people/{ada}")[1]
    assert (after["counts"], after["identities"], after["properties"]) == (before["counts"], before["identities"], before["properties"]), after


@story
def a_call_is_taken_back(scene):
    scene.ada()
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}?tab=journal")
    first = scene.server.admin("GET", f"/onym/v1/people/{scene.customer}/journal")[1]["calls"][-1]
    tab.page.get_by_role("button", name=str(first["seq"]), exact=True).click()
    tab.page.get_by_role("button", name="Take back…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_text("What comes back").wait_for()
    # The person has the identity now, and then the call's fact is among those that end.
    expect(dialog.get_by_text("customerid:ada")).to_have_count(2)
    check_page(tab, "take back")
    tab.picture(scene.pictures, "take-back")
    confirm(tab, "Take back", "a test")
    tab.page.get_by_role("cell", name="undo_call").wait_for()
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["identities"] == []


@story
def a_merge_that_cannot_be(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["status of 40[0-9]"]
    tab.sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Merge…").click()
    dialog = tab.page.get_by_role("dialog")
    for other in ("email:nobody@example.com", scene.customer):
        dialog.get_by_label("The other person").fill(other)
        dialog.get_by_role("alert").wait_for()
        dialog.get_by_label("Reason").fill("x")
        expect(dialog.get_by_role("button", name="Merge", exact=True)).to_be_disabled()
    tab.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(tab.page.get_by_role("button", name="Merge…")).to_be_focused()


@story
def a_change_between_dry_run_and_button(scene):
    scene.ada()
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Merge…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("The other person").fill(scene.mail)
    dialog.get_by_text("What comes along").wait_for()
    scene.server.event(scene.mail, "late", plan="gold", size="large")
    confirm(tab, "Merge")
    dialog.get_by_text("Something changed meanwhile.").wait_for()
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["members_count"] == 1
    # A change after the second dry run: the server refuses the call itself.
    tab.allowed = ["status of 409"]
    asked = []

    def change(route):
        asked.append(route.request.url)
        if len(asked) == 1:
            scene.server.event(scene.mail, "later", plan="gold", size="small")
        route.continue_()

    merging = re.compile(r"/onym/v1/merges\?if_seq=")
    tab.page.route(merging, change)
    with tab.page.expect_response(merging) as answered:
        dialog.get_by_role("button", name="Merge", exact=True).click()
    assert answered.value.status == 409, answered.value.text()
    dialog.get_by_text("Something changed meanwhile.").wait_for()
    expect(dialog.get_by_role("button", name="Merge", exact=True)).to_be_enabled()
    assert len(asked) == 1, asked
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["members_count"] == 1
    dialog.get_by_role("button", name="Merge", exact=True).click()
    tab.page.get_by_role("heading", name="Members").wait_for()
    assert len(asked) == 2, asked


@story
def an_erasure(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["status of 404"]
    tab.sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Erase…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_text("Nothing of it is there.").wait_for()
    check_page(tab, "erase")
    button = dialog.get_by_role("button", name="Erase for ever")
    expect(button).to_be_disabled()
    dialog.get_by_label("to confirm").fill("912")
    expect(button).to_be_disabled()
    dialog.get_by_label("to confirm").fill(scene.customer)
    button.click()
    dialog.get_by_role("heading", name="Erased").wait_for()
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[0] == 404
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.mail}")[0] == 200
    tab.page.keyboard.press("Escape")
    tab.page.wait_for_function("() => location.hash === '#/people'")
    tab.go(f"#/person/{scene.customer}")
    expect(tab.page.get_by_role("alert")).to_contain_text("There is no person with this id")


@story
def an_export(scene):
    scene.ada()
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Export").click()
    with tab.page.expect_download() as arriving:
        tab.page.get_by_role("dialog").get_by_role("button", name="Export").click()
    lines = [json.loads(line) for line in open(arriving.value.path())]
    assert {"person", "identity", "row"} <= {line["kind"] for line in lines}, lines
    expect(tab.page.get_by_text(f"Done: {len(lines)} lines.")).to_be_visible()


@story
def what_is_unusually_large(scene):
    scene.ada()
    other = scene.server.identify(customerid="bob")
    attached = scene.server.admin("POST", f"/onym/v1/people/{other}/identities", {"type": "ios_idfv", "value": "PHONE-1"})
    assert attached[0] == 200, attached
    tab = scene.tab().sign_in(to="#/health")
    shared = tab.page.get_by_role("table", name="Identities that the most people hold")
    expect(shared.get_by_role("row").nth(1)).to_contain_text("PHONE-1")
    expect(shared.get_by_role("row").nth(1)).to_contain_text("2")
    largest = tab.page.get_by_role("table", name="People with the most identities")
    expect(largest.get_by_role("row").filter(has_text="ada").first).to_be_visible()
    tab.page.get_by_label("By ").select_option("rows")
    expect(tab.page.get_by_role("table", name="People with the most rows").get_by_role("row").nth(1)).to_be_visible()
    expect(tab.page.get_by_text("No key has met its limit")).to_be_visible()
    expect(tab.page.get_by_text("All webhooks have all changes.")).to_be_visible()
    check_page(tab, "health")
    check_widths(tab, "health")
    pictures(scene, tab, "health-lists")
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.picture(scene.pictures, "health-lists-narrow")
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    shared.get_by_role("link", name="The people with this ios_idfv").click()
    tab.page.get_by_role("table", name="People").wait_for()


@story
def the_project_is_exported_and_copied(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["status of 409"]
    tab.sign_in(to="#/data")
    tab.page.get_by_role("button", name="Export the project…").click()
    with tab.page.expect_download() as arriving:
        tab.page.get_by_role("dialog").get_by_role("button", name="Export", exact=True).click()
    lines = [json.loads(line) for line in open(arriving.value.path())]
    assert len(lines) > 5, lines
    expect(tab.page.get_by_text(f"Done: {len(lines)} lines.")).to_be_visible()
    tab.page.keyboard.press("Escape")
    # The settings name no folder, and the page says so.
    tab.page.get_by_role("button", name="Copy the store").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("backup_to")
    check_page(tab, "data")
    pictures(scene, tab, "data-export")


@story
def a_device_is_released(scene):
    scene.ada()
    tab = scene.tab().sign_in(to="#/data")
    tab.page.get_by_role("button", name="Release a device…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Type of the device's identity").fill("ios_idfv")
    dialog.get_by_label("Value").fill("PHONE-1")
    dialog.get_by_text("1 person hold").or_(dialog.get_by_text("hold the device:")).first.wait_for()
    confirm(tab, "Release")
    expect(tab.page.get_by_text("Released from 1 person.")).to_be_visible()
    assert scene.server.admin("GET", "/onym/v1/people?type=ios_idfv&value=PHONE-1")[1]["people"] == []


@story
def rules_are_tried_and_put_in_force(scene):
    scene.ada()
    first = scene.server.admin("GET", "/onym/v1/strategy")[1]["version"]
    tab = scene.tab().sign_in(to="#/rules")
    tab.page.get_by_role("button", name="customerid down").click()
    expect(tab.page.get_by_role("button", name="customerid down")).to_be_focused()
    force = tab.page.get_by_role("button", name="Put in force…")
    expect(force).to_be_disabled()
    tab.page.get_by_role("button", name="Try on what happened").click()
    tab.page.get_by_role("heading", name="What would have been different").wait_for()
    assert "⟨" not in " ".join(tab.page.locator("pre").all_inner_texts()), "lines of JSON are lines"
    check_page(tab, "rules")
    force.click()
    tab.page.get_by_role("dialog").get_by_text("What changes").wait_for()
    confirm(tab, "Put in force")
    expect(tab.page.get_by_text(f"Version {first + 1} is in force.")).to_be_visible()
    now = scene.server.admin("GET", "/onym/v1/strategy")[1]
    assert now["hierarchy"][1] == "customerid", now["hierarchy"]
    tab.page.get_by_role("button", name=f"Roll back to version {first}", exact=True).click()
    tab.page.get_by_role("dialog").get_by_text("What changes").wait_for()
    confirm(tab, "Roll back")
    expect(tab.page.get_by_text(f"Version {first + 2} is in force.")).to_be_visible()
    assert scene.server.admin("GET", "/onym/v1/strategy")[1]["hierarchy"][0] == "customerid"


@story
def rules_that_another_person_changed_stay(scene):
    tab = scene.tab().sign_in(to="#/rules")
    first = scene.server.admin("GET", "/onym/v1/strategy")[1]["version"]
    tab.page.get_by_role("button", name="customerid down").click()
    status, answer = scene.server.admin("PUT", "/onym/v1/strategy", {"shared_device_people": 7})
    assert status == 200, answer
    tab.page.get_by_label("without trying").check()
    tab.page.get_by_role("button", name="Put in force…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_text("What changes").wait_for()
    expect(dialog.get_by_role("table")).to_contain_text("hierarchy")
    expect(dialog.get_by_role("table")).not_to_contain_text("shared_device_people")
    confirm(tab, "Put in force")
    expect(tab.page.get_by_text(f"Version {first + 2} is in force.")).to_be_visible()
    now = scene.server.admin("GET", "/onym/v1/strategy")[1]
    assert now["shared_device_people"] == 7 and now["hierarchy"][1] == "customerid", now


@story
def types_outside_the_rules_are_told(scene):
    scene.ada()
    tab = scene.tab().sign_in(to="#/rules")
    expect(tab.page.get_by_text("is in force.")).to_be_visible()
    told = tab.page.get_by_text("Calls since the start named types that the hierarchy does not have:")
    expect(told).to_have_count(0)
    for _ in range(2):
        scene.server.identify(other2="x")
    tab.page.reload()
    expect(told).to_contain_text("other2 (2).")
    check_page(tab, "unmatched types")


@story
def a_part_of_a_value_is_found(scene):
    scene.ada()
    people = [scene.server.identify(customerid=f"user-{number}") for number in range(203)]
    tab = scene.tab().sign_in(to="#/find/DA@exam")
    tab.page.get_by_text("Nobody has this id or value now.").wait_for()
    tab.page.get_by_role("button", name="Search in parts of values").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("1 person found. All identities are read.")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Search in parts of values")).to_be_visible()
    check_page(tab, "scan")
    check_widths(tab, "scan")
    pictures(scene, tab, "scan")
    # A page with the people that changed last has the same person, and comes in parts.
    tab.go("#/people")
    expect(tab.page.get_by_role("row")).to_have_count(51)
    expect(tab.page.get_by_role("link", name="user-202", exact=True)).to_be_visible()
    for _ in range(4):
        more = tab.page.get_by_role("button", name="More")
        rows = tab.page.get_by_role("row").count()
        more.click()
        tab.page.wait_for_function("(rows) => document.querySelectorAll('tbody tr').length >= rows", arg=rows)
    expect(tab.page.get_by_role("row")).to_have_count(206)
    # Many people: the search ends with its limit.
    tab.go("#/find/user-")
    tab.page.get_by_role("button", name="Search in parts of values").click()
    expect(tab.page.get_by_text("200 people found. There may be more: write a longer part.")).to_be_visible()
    # A search that takes long can be stopped.
    tab.page.route("**/search/scan", lambda route: None)
    tab.go("#/find/er-20")
    tab.page.get_by_role("button", name="Search in parts of values").click()
    expect(tab.page.get_by_role("progressbar", name="Identities read")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Stop")).to_be_focused()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("You stopped the search.")).to_be_visible()
    tab.page.unroute_all(behavior="ignoreErrors")
    tab.page.get_by_role("button", name="Search again").click()
    tab.page.get_by_role("link", name="user-201", exact=True).click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("user-201")
    assert tab.page.url.endswith(people[201]), tab.page.url
    assert not any("user-" in url or "exam" in url for url in tab.asked), "the text is in bodies only"


def catalog(scene):
    for path, body in [("/onym/v1/entitlements/pro", {}), ("/onym/v1/products/monthly", {"type": "subscription", "entitlements": ["pro"]})]:
        status, answer = scene.server.admin("PUT", path, body)
        assert status in (200, 201), answer


def as_app(scene, path, body):
    """A call as an app of the Entitlements dialect makes it."""
    status, answer = scene.server.call("POST", path, body, {"Authorization": "Bearer " + scene.server.keys["entitlements"]["project_key"]})
    assert status in (200, 201), (path, status, answer)
    return answer


def entitled(scene, person):
    return [one["entitlement"] for one in scene.server.admin("GET", f"/onym/v1/people/{person}/access")[1]["access"]]


@story
def access_is_granted_and_taken_back(scene):
    catalog(scene)
    as_app(scene, "/v3/users/QON_ada", {"environment": "prod"})
    tab = scene.tab()
    tab.allowed = ["status of 40[04]"]
    tab.sign_in("support", to="#/person/access_user_id%3AQON_ada")
    expect(tab.page.get_by_text("No entitlement is active.")).to_be_visible()
    tab.page.get_by_role("button", name="Grant…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Entitlement").fill("plus")
    expect(dialog.get_by_role("alert")).to_contain_text("not_found")
    dialog.get_by_label("Entitlement").fill("pro")
    dialog.get_by_label("Until").fill("2099-01-31")
    dialog.get_by_text("User QON_ada").wait_for()
    expect(dialog.locator("section", has_text="Then").get_by_text("pro")).to_be_visible()
    check_page(tab, "grant")
    pictures(scene, tab, "grant")
    confirm(tab, "Grant", "lost receipt")
    expect(tab.page.get_by_role("rowheader", name="pro")).to_be_visible()
    tab.settle()
    assert entitled(scene, "access_user_id:QON_ada") == ["pro"]
    check_page(tab, "granted")
    check_widths(tab, "granted")
    # By the keyboard, and with a reason that the journal keeps.
    tab.page.get_by_role("button", name="End the grant of pro").focus()
    tab.page.keyboard.press("Enter")
    dialog.get_by_text("No entitlement.").wait_for()
    dialog.get_by_label("Reason").fill("receipt found")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("No entitlement is active.")).to_be_visible()
    assert entitled(scene, "access_user_id:QON_ada") == []
    reasons = [call["reason"] for call in scene.server.admin("GET", "/onym/v1/people/access_user_id:QON_ada/journal")[1]["calls"]]
    assert reasons[:2] == ["receipt found", "lost receipt"], reasons


@story
@for_trying
def a_purchase_is_moved_and_back(scene):
    """Ada bought, and nobody knows where her purchase is: the page says why she has access, and who has it after the move."""
    catalog(scene)
    for user in ("A1", "B1"):
        as_app(scene, f"/v3/users/{user}", {"environment": "prod"})
    receipt = scene.server.admin("POST", "/onym/v1/receipts", {"product": "monthly", "source": "appstore", "transaction": "t21", "expires": int(time.time()) + 2_000_000})[1]["receipt"]
    as_app(scene, "/v3/users/A1/purchases", {"price": "9.99", "currency": "EUR", "app_store_data": {"receipt": receipt}})
    # A new identity takes the purchase that its install has made.
    for user, name in (("A1", "ada"), ("B1", "bob")):
        as_app(scene, f"/v3/identities/{name}?device_user_id={user}", {"user_id": user})
    ada, bob = "access_identity:ada", "access_identity:bob"
    assert (entitled(scene, ada), entitled(scene, bob)) == (["pro"], [])
    tab = scene.tab().sign_in("support", to="#/person/access_identity%3Aada")
    why = tab.page.get_by_role("table", name="Active now")
    expect(why).to_contain_text("appstore:t21")
    expect(why).to_contain_text("monthly")
    check_page(tab, "access")
    check_widths(tab, "access")
    pictures(scene, tab, "access")
    tab.page.get_by_role("link", name="Purchases", exact=True).click()
    tab.page.get_by_role("button", name="Move the purchase t21").click()
    dialog = tab.page.get_by_role("dialog", name="Move a purchase")
    dialog.get_by_label("New owner").fill(bob)
    expect(dialog.locator("section", has_text="Now")).to_contain_text("ada")
    expect(dialog.locator("section", has_text="Then")).to_contain_text("bob")
    check_page(tab, "move a purchase")
    pictures(scene, tab, "move")
    confirm(tab, "Move the purchase", "wrong account")
    moved = tab.page.get_by_role("dialog", name="The purchase has moved")
    moved.wait_for()
    tab.settle()
    check_page(tab, "moved")
    assert (entitled(scene, ada), entitled(scene, bob)) == ([], ["pro"])
    moved.get_by_role("button", name="Undo…").click()
    undo = tab.page.get_by_role("dialog", name="Undo the transfer")
    expect(undo.locator("section", has_text="Then")).to_contain_text("ada")
    undo.get_by_role("button", name="Undo the transfer").click()
    expect(undo).to_have_count(0)
    tab.page.get_by_text("The purchase is back with its former owners.").wait_for()
    assert (entitled(scene, ada), entitled(scene, bob)) == (["pro"], [])
    # Afterwards the page of the other one says why not.
    tab.go("#/person/access_identity%3Abob")
    tab.settle()
    expect(tab.page.get_by_role("table", name="Not active")).to_contain_text("it was moved to another user")
    expect(tab.page.get_by_role("table", name="Not active")).to_contain_text("ada")


@story
def a_dry_run_is_stopped(scene):
    scene.ada()
    tab = scene.tab().sign_in(to="#/rules")
    tab.page.get_by_role("button", name="customerid down").click()
    # The journal of a story is short: the answers say for a while that the dry run still reads it.
    held = {}

    def hold(route):
        answer = route.fetch()
        run = answer.json()
        if route.request.method != "DELETE" and not held.get("stopped"):
            run = {**run, "state": "running", "journal": {"read": 1, "of": 4}, "difference": None}
        elif route.request.method == "DELETE":
            held["stopped"] = True
        else:
            run = {**run, "state": "stopped", "difference": None}
        route.fulfill(response=answer, json=run)

    tab.page.route("**/onym/v1/strategy/dry-run**", hold)
    tab.page.route("**/onym/v1/strategy/dry-run/**", hold)
    tab.page.get_by_role("button", name="Try on what happened").click()
    bar = tab.page.get_by_role("progressbar", name="Dry run")
    expect(bar).to_have_attribute("value", "1")
    expect(tab.page.get_by_text("1 of 4 calls")).to_be_visible()
    check_page(tab, "dry run")
    tab.page.get_by_role("button", name="Stop").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("The dry run is stopped. It shows nothing.")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Put in force…")).to_be_disabled()
    assert held.get("stopped"), "the server was asked to stop"
    tab.page.unroute_all(behavior="ignoreErrors")


@story
def the_server_starts_again_under_an_open_page(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["ERR_", "Failed to load resource", "Failed to fetch"]
    tab.sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Merge…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("The other person").fill(scene.mail)
    dialog.get_by_text("What comes along").wait_for()
    dialog.get_by_label("Reason").fill("typed before the restart")
    scene.server.end()
    expect(tab.page.get_by_text("○ not live")).to_be_attached()
    dialog.get_by_role("button", name="Merge", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("no_connection")
    scene.server.start()
    # What was typed is there, the session too, and the call is done once.
    expect(dialog.get_by_label("Reason")).to_have_value("typed before the restart")
    dialog.get_by_role("button", name="Merge", exact=True).click()
    tab.page.get_by_role("heading", name="Members").wait_for()
    assert scene.server.admin("GET", f"/onym/v1/people/{scene.customer}")[1]["members_count"] == 2
    expect(tab.page.get_by_text("● live")).to_be_visible(timeout=15000)
    # An update: the server has other files by now, and the page loads itself again, once.
    changed = {"status": 404, "content_type": "application/problem+json", "body": json.dumps({"status": 404, "code": "console_changed", "detail": "Load the page again."})}
    old = []

    def away(route):
        # The first page asks for its file twice: to show it, and to learn why it is away.
        if len(old) < 2:
            old.append(route.request.url)
            route.fulfill(**changed)
        else:
            route.continue_()

    tab.page.route("**/pages/keys.js", away)
    with tab.page.expect_navigation(wait_until="load"):
        tab.page.evaluate("() => { location.hash = '#/keys'; }")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Keys")
    assert len(old) == 2, old


@story
def a_long_time_line(scene):
    """The picture shows all rows at once, and the table has them a hundred at a time."""
    scene.ada().merge()
    for number in range(130):
        scene.server.event(scene.customer if number % 3 else scene.mail, f"event {number}")
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}?tab=timeline")
    expect(tab.page.get_by_text("The picture has all 132 rows.")).to_be_visible()
    expect(tab.page.get_by_role("row")).to_have_count(101)
    counts = [int(one) for one in tab.page.locator(".picture svg text").all_text_contents() if one.isdigit() and len(one) < 5]
    marks = tab.page.locator(".picture .point").count()
    assert sum(counts) + marks - len(counts) == 132, (counts, marks)
    check_page(tab, "long time line")
    check_widths(tab, "long time line")
    pictures(scene, tab, "long-timeline")
    tab.page.get_by_role("combobox", name="Member").select_option(scene.mail)
    expect(tab.page.get_by_text("The picture has all 45 rows.")).to_be_visible()
    expect(tab.page.get_by_role("row")).to_have_count(46)
    tab.page.get_by_label("Since").fill("2999-01-01")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("The picture has all 0 rows.")).to_be_visible()
    expect(tab.page.get_by_text("No row matches.")).to_be_visible()


@story
def a_time_line_with_an_undone_merge(scene):
    """Who was one with the person for a time has a dashed track for that time."""
    scene.ada().merge()
    other = scene.server.identify(customerid="other")
    _, merge = scene.server.admin("POST", "/onym/v1/merges", {"from": other, "into": scene.customer})
    status, undone = scene.server.admin("POST", f"/onym/v1/merges/{merge['id']}/undo", {})
    assert status == 200, undone
    tab = scene.tab().sign_in(to=f"#/person/{scene.customer}?tab=timeline")
    picture = tab.page.get_by_role("img", name="Tracks of")
    expect(picture.locator("text", has_text=other)).to_have_count(1)
    expect(picture.locator(".track.undone")).to_have_count(3)
    expect(picture.locator(".track:not(.undone)")).to_have_count(3)
    check_page(tab, "undone merge")


@story
def what_happened_on_each_day(scene):
    scene.ada().merge()
    scene.server.admin("POST", "/onym/v1/merges", {"from": "77", "into": scene.customer})
    tab = scene.tab().sign_in(to="#/health")
    box = tab.page.locator("section.box", has=tab.page.get_by_role("heading", name="Merges", exact=False)).filter(has_text="Merges 1")
    expect(box).to_have_count(1)
    box.get_by_role("radio", name="Table").check()
    expect(box.get_by_role("table")).to_contain_text("administrator 1")
    expect(tab.page.get_by_role("heading", name="People made 2")).to_be_visible()
    today = tab.page.get_by_role("link", name="People made of")
    column = today.locator(".column").bounding_box()
    assert column and column["height"] > 40 and column["width"] > 5, column
    check_page(tab, "days")
    check_widths(tab, "days")
    tab.page.get_by_role("combobox", name="Days").select_option("90")
    expect(tab.page.get_by_role("group", name="People made: 2 in 90 days")).to_be_visible()
    pictures(scene, tab, "days")
    today.click()
    tab.page.get_by_role("heading", name="Changes", level=1).wait_for()
    tab.page.go_back()
    tab.page.get_by_role("link", name="Merges", exact=True).click()
    tab.page.get_by_role("heading", name="Changes", level=1).wait_for()
    tab.settle()
    expect(tab.page.get_by_role("table")).to_contain_text("two people are one")


@story
def the_feed_in_two_tabs(scene):
    scene.ada()
    first = scene.tab().sign_in(to="#/changes")
    second = scene.tab(context=first.context)
    second.page.goto(f"{scene.server.base}/console#/changes")
    second.page.get_by_role("heading", name="Changes").wait_for()
    second.settle()
    time.sleep(1)
    for tab in (first, second):
        tab.asked.clear()
    bob = scene.server.identify(customerid="bob")
    for tab in (first, second):
        tab.page.get_by_role("link", name=bob).first.wait_for()
    time.sleep(0.5)
    waiting = [url for tab in (first, second) for url in tab.asked if "wait=" in url]
    assert len(waiting) <= 2, f"one tab waits for both: {waiting}"
    first.page.get_by_role("button", name="Pause").click()
    carol = scene.server.identify(customerid="carol")
    second.page.get_by_role("link", name=carol).first.wait_for()
    expect(first.page.get_by_role("link", name=carol)).to_have_count(0)
    first.page.get_by_role("button", name="Go on").click()
    first.page.get_by_role("link", name=carol).first.wait_for()


@story
@with_flags("--webhook-private-addresses", "allow")
def a_webhook_is_down_and_comes_back(scene):
    import http.server
    import threading
    taken = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(503 if len(taken) == 1 else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    tab = scene.tab().sign_in(to="#/webhooks")
    tab.page.get_by_role("button", name="Make a webhook…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Address").fill(f"http://127.0.0.1:{receiver.server_port}/hook")
    dialog.get_by_label("Kinds of changes; all if empty").fill("person.created")
    dialog.get_by_role("button", name="Make", exact=True).click()
    secret = tab.page.get_by_role("dialog", name="Secret of the webhook")
    secret.wait_for()
    tab.page.keyboard.press("Escape")
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    scene.server.identify(customerid="ada")
    for _ in range(100):
        if taken and scene.server.admin("GET", "/onym/v1/deliveries")[1]["deliveries"]:
            break
        time.sleep(0.1)
    tab.go("#/home")
    tab.go("#/webhooks")
    waiting = tab.page.get_by_role("table", name="Deliveries that wait or are parked")
    expect(waiting).to_contain_text("The receiver answered 503.")
    expect(waiting).to_contain_text("waiting")
    expect(tab.page.get_by_role("table", name="Webhooks")).to_contain_text("deliveries wait")
    check_page(tab, "a webhook that is down")
    check_widths(tab, "a webhook that is down")
    pictures(scene, tab, "webhook-down")
    for _ in range(200):
        if len(taken) > 1 and not scene.server.admin("GET", "/onym/v1/deliveries")[1]["deliveries"]:
            break
        time.sleep(0.1)
    assert taken[0] == taken[1], "the same change again"
    tab.go("#/home")
    tab.go("#/webhooks")
    expect(tab.page.get_by_text("No delivery waits.")).to_be_visible()
    expect(tab.page.get_by_role("table", name="Webhooks")).to_contain_text("ok")
    receiver.shutdown()


@story
def a_key_is_made_and_revoked(scene):
    tab = scene.tab().sign_in(to="#/keys")
    tab.page.get_by_role("button", name="Make a key…").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Night job")
    dialog.get_by_role("button", name="Make").click()
    field = tab.page.get_by_role("textbox", name="The key", exact=True)
    field.wait_for()
    key = field.input_value()
    assert key.startswith("onym_admin_"), key
    check_page(tab, "secret")
    tab.page.keyboard.press("Escape")
    assert key not in tab.page.content(), "the key is gone"
    as_key = {"Authorization": f"Bearer {key}"}
    assert scene.server.call("GET", "/onym/v1/stats", None, as_key)[0] == 200
    tab.settle()
    tab.page.get_by_role("button", name="Revoke Night job").click()
    dialog.get_by_text("It is in force.").wait_for()
    confirm(tab, "Revoke")
    expect(tab.page.get_by_role("button", name="Revoke Night job")).to_have_count(0)
    assert scene.server.call("GET", "/onym/v1/stats", None, as_key)[0] == 401


@story
def a_viewer_only_looks(scene):
    scene.ada().merge()
    tab = scene.tab()
    tab.allowed = ["status of 403"]
    tab.sign_in(role="viewer")
    expect(tab.page.get_by_role("link", name="Keys", exact=True)).to_have_count(0)
    for page in ("#/keys", "#/webhooks"):
        tab.go(page)
        expect(tab.page.get_by_role("alert").first).to_contain_text("Your role cannot do this.")
    tab.allowed = []
    for page in [page for page in PAGES if page not in ("#/keys", "#/webhooks")] + [f"#/person/{scene.customer}"]:
        tab.go(page)
        for name in ("Merge…", "Erase…", "Undo…", "Make a key…", "Put in force…", "Release a device…", "Make a webhook…", "Start a compaction"):
            expect(tab.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        expect(tab.page.get_by_role("button", name="revoke…")).to_have_count(0)
    support = scene.tab().sign_in(role="support", to=f"#/person/{scene.customer}")
    expect(support.page.get_by_role("button", name="Merge…")).to_be_visible()
    expect(support.page.get_by_role("button", name="Erase…")).to_have_count(0)


@story
def a_page_of_another_port_does_nothing(scene):
    """Another port of the machine is the same site, so the browser sends the cookie of the session along."""
    import http.server
    import threading
    tab = scene.tab().sign_in()

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Other</title><h1>Other</h1>")

        def log_message(self, *_):
            pass

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    page = tab.context.new_page()
    page.goto(f"http://127.0.0.1:{other.server_port}/")
    seen = page.evaluate("""async (base) => {
        const tries = [
            fetch(base + '/onym/v1/stats', { credentials: 'include' }),
            fetch(base + '/onym/v1/console/session', { method: 'DELETE', credentials: 'include', headers: { 'Onym-Console': '1' } }),
            fetch(base + '/onym/v1/keys', { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{"kind":"admin"}' }),
        ];
        const frame = document.createElement('iframe');
        frame.src = base + '/console';
        document.body.append(frame);
        await new Promise((done) => { frame.onload = done; });
        let framed = null;
        try { framed = frame.contentDocument?.title ?? 'hidden'; } catch { framed = 'hidden'; }
        return [framed, ...(await Promise.allSettled(tries)).map((one) => one.status === 'fulfilled' ? one.value.type : 'refused')];
    }""", scene.server.base)
    other.shutdown()
    assert seen == ["hidden", "refused", "refused", "opaque"], seen
    keys = scene.server.admin("GET", "/onym/v1/keys?limit=200")[1]["keys"]
    assert len([key for key in keys if key["kind"] == "admin"]) == 1, keys
    tab.go("#/health")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Health")


@story
def a_session_ends_in_a_form(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["status of 401"]
    tab.sign_in(to=f"#/person/{scene.customer}")
    tab.page.get_by_role("button", name="Merge…").click()
    dialog = tab.page.get_by_role("dialog", name="Merge with another person")
    dialog.get_by_label("The other person").fill(scene.mail)
    dialog.get_by_text("What comes along").wait_for()
    dialog.get_by_label("Reason").fill("typed with care")
    # The page waits for changes, so it hears of the end without a click.
    scene.server.end_sessions()
    again = tab.page.get_by_role("dialog", name="Your session has ended")
    again.wait_for()
    again.get_by_label("Link or code").fill(scene.server.link())
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_have_count(0)
    expect(dialog.get_by_label("Reason")).to_have_value("typed with care")
    dialog.get_by_role("button", name="Merge", exact=True).click()
    tab.page.get_by_role("heading", name="Members").wait_for()


@story
def another_sign_in_in_the_same_browser(scene):
    old = scene.tab().sign_in(to="#/people")
    old.allowed = ["status of 40[19]"]
    # A call that is on its way with the old cookie would be told that its session has ended.
    old.settle()
    new = scene.tab(context=old.context)
    new.page.goto(scene.server.link("viewer"))
    new.page.get_by_role("button", name="grace (viewer)").wait_for()
    old.page.evaluate("() => { location.hash = '#/health'; }")
    expect(old.page.get_by_text("This browser has signed in again")).to_be_visible()
    check_page(old, "the notice of another session")
    old.page.get_by_role("button", name="Load the page again").click()
    old.page.get_by_role("button", name="grace (viewer)").wait_for()


@story
def a_request_of_an_error(scene):
    """Somebody reports an error with its request id; the log tells the rest."""
    scene.ada()
    scene.tab()
    tab = scene.tabs[0]
    tab.allowed = ["status of 40[49]"]
    tab.sign_in(to="#/requests")
    tab.page.get_by_role("row").filter(has_text="POST /v1/identify").first.wait_for()
    check_page(tab, "requests")
    check_widths(tab, "requests")
    pictures(scene, tab, "requests")
    # The filter leaves one route; a row leads to the request, and to the person that it made.
    tab.page.get_by_label("Route").fill("/v1/identify")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("row").filter(has_text="GET /onym")).to_have_count(0)
    tab.page.get_by_role("row").filter(has_text="POST /v1/identify").first.get_by_role("link").first.click()
    tab.page.get_by_role("heading", name="Request", exact=True).wait_for()
    tab.settle()
    expect(tab.page.get_by_role("table", name="Calls of the request")).to_contain_text("identify")
    check_page(tab, "a request")
    tab.page.get_by_role("table", name="Calls of the request").get_by_role("link", name=scene.mail).click()
    tab.page.wait_for_function("(person) => location.hash.startsWith('#/person/' + person)", arg=scene.mail)
    # An error names its request, and the link leads to it.
    tab.page.evaluate("() => { location.hash = '#/person/77'; }")
    tab.page.get_by_role("alert").get_by_role("link").click()
    tab.page.get_by_role("heading", name="Request", exact=True).wait_for()
    tab.settle()
    expect(tab.page.get_by_role("main")).to_contain_text("GET /onym/v1/people/:id")
    expect(tab.page.get_by_role("main")).to_contain_text("404")
    # The same by the box of the bar, by keyboard.
    request = tab.page.url.split("#/requests/")[1]
    tab.page.keyboard.press("/")
    tab.page.keyboard.type(request)
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("table", name="Requests").get_by_role("link").click()
    tab.page.get_by_role("heading", name="Request", exact=True).wait_for()
    # An id that the log does not have.
    tab.page.get_by_label("Request id").fill("0" * 32)
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("alert")).to_contain_text("no_such_request")
    check_page(tab, "a request that is not there")


def until(condition, seconds=60):
    """Waits until something is so; answers whether it is."""
    for _ in range(seconds * 20):
        if condition():
            return True
        time.sleep(0.05)
    return False


@story
@with_shim
@with_flags("--webhook-private-addresses", "allow")
def a_receiver_is_down(scene):
    """A webhook's receiver is down for more than a day; its deliveries are parked, and then replayed."""
    import http.server
    import threading
    state = {"status": 500, "taken": []}

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state["taken"].append((message["type"], state["status"]))
            self.send_response(state["status"])
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    tab = scene.tab().sign_in(to="#/webhooks")
    tab.page.get_by_role("button", name="Make a webhook…").click()
    dialog = tab.page.get_by_role("dialog", name="Make a webhook")
    dialog.get_by_label("Address").fill(f"http://127.0.0.1:{receiver.server_port}/")
    dialog.get_by_label("Kinds of changes").fill("person.created")
    dialog.get_by_role("button", name="Make", exact=True).click()
    tab.page.get_by_role("dialog", name="Secret of the webhook").get_by_role("button", name="Close").click()
    test = tab.page.get_by_role("button", name="Test the webhook")
    test.click()
    dialog = tab.page.get_by_role("dialog", name="Test of a webhook")
    expect(dialog).to_contain_text("500, not taken")
    check_page(tab, "test of a webhook")
    dialog.get_by_role("button", name="Close").click()
    scene.ada()
    # A session would not outlive the day, so the page is closed meanwhile.
    tab.page.close()
    parked = lambda: scene.server.admin("GET", "/onym/v1/deliveries?state=parked")[1]["deliveries"]
    hours = 0
    while len(parked()) < 2:
        assert hours < 80, "the deliveries are parked after a day"
        tries = len(state["taken"])
        hours += 4
        scene.server.set_clock(hours * 3600)
        assert until(lambda: len(state["taken"]) > tries or len(parked()) == 2), "each is tried again"
    tab = scene.tab().sign_in(to="#/health")
    tab.page.get_by_role("link", name="Some deliveries are parked").click()
    tab.page.get_by_role("heading", name="Webhooks", level=1).wait_for()
    tab.settle()
    expect(tab.page.get_by_role("table", name="Deliveries that wait or are parked")).to_contain_text("The receiver answered 500.")
    pictures(scene, tab, "webhook-parked")
    state["status"] = 200
    # One by its own button, by keyboard; the others together.
    one = tab.page.get_by_role("button", name="Replay d_").first
    one.focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_text("tried again")).to_be_visible()
    tab.page.get_by_role("button", name="Replay all").click()
    dialog = tab.page.get_by_role("dialog", name="Replay all parked deliveries")
    expect(dialog).to_contain_text("1 delivery is parked")
    check_page(tab, "replay of all")
    confirm(tab, "Replay")
    assert until(lambda: [kind for kind, status in state["taken"] if status == 200].count("person.created") == 2), state
    tab.page.get_by_role("button", name="Test the webhook").click()
    dialog = tab.page.get_by_role("dialog", name="Test of a webhook")
    expect(dialog).to_contain_text("200, taken")
    expect(dialog).to_contain_text("none")
    receiver.shutdown()


@story
@with_shim
def a_full_disk_and_a_set_clock(scene):
    """The disk fills up, and the clock is set; the page Health says so, and what to do."""
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["status of 503"]
    tab.sign_in(to="#/health")
    store = tab.page.locator(".tile").filter(has=tab.page.get_by_role("heading", name="Store"))
    clock = tab.page.locator(".tile").filter(has=tab.page.get_by_role("heading", name="Clock"))
    expect(store).to_contain_text("it can be written")
    expect(clock).to_contain_text("It agrees with the journal")
    scene.server.fill_disk()
    status, _ = scene.server.call("POST", "/v1/identify", {"environment": "development", "known_identities": {"customerid": "late"}}, {"x-mp-key": scene.server.keys["idsync"]["web_key"]})
    assert status == 503, status
    tab.page.reload()
    expect(store).to_contain_text("bad")
    expect(store).to_contain_text("free space of its disk")
    # What was there can still be read.
    tab.go(f"#/person/{scene.customer}")
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("ada")
    tab.go("#/health")
    pictures(scene, tab, "health-full")
    scene.server.fill_disk(False)
    assert until(lambda: scene.server.call("GET", "/readyz")[0] == 200), "the server takes calls again"
    late = scene.server.identify(customerid="late")
    assert late, "the same call is done now"
    # The clock goes ten minutes ahead, and back: time in the journal never goes back.
    scene.server.set_clock(600)
    scene.server.identify(customerid="ahead")
    scene.server.set_clock(0)
    assert until(lambda: "set back" in scene.server.call("GET", "/readyz")[1].get("clock", "")), "the clock was set back"
    tab.go("#/changes")
    tab.go("#/health")
    expect(clock).to_contain_text("look")
    expect(clock).to_contain_text("Look whether the clock of this machine is synchronized")
    check_page(tab, "health with a wrong clock")
    pictures(scene, tab, "health-clock")


@story
def an_import_over_a_reload(scene):
    """A file is tried, imported to the middle, and the page is loaded again; the import goes on where it stood."""
    lines = []
    for number in range(3000):
        lines.append(json.dumps({"kind": "person", "key": f"file:p{number}", "made": 1}))
        lines.append(json.dumps({"kind": "link", "key": f"file:p{number}", "type": "customerid", "value": f"import-{number}"}))
    lines.insert(11, "this is no record")
    file = pathlib.Path(scene.server.folder, "people.jsonl")
    file.write_text("\n".join(lines) + "\n")
    tab = scene.tab().sign_in(to="#/data")
    check_page(tab, "data")
    tab.page.get_by_role("button", name="Import a file…").click()
    dialog = tab.page.get_by_role("dialog", name="Import a file")
    dialog.get_by_label("File", exact=True).set_input_files(str(file))
    check_page(tab, "import of a file")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog).to_contain_text("Nothing was changed", timeout=30000)
    expect(dialog.get_by_role("table")).to_contain_text("12")
    assert scene.server.admin("GET", "/onym/v1/people?type=customerid&value=import-1")[1]["people"] == []
    check_page(tab, "a tried import")
    tab.picture(scene.pictures, "import-tried")
    # The third batch does not come back before the reload.
    batches = []
    def hold(route):
        batches.append(route)
        if len(batches) < 3:
            route.continue_()
    tab.page.route("**/batches?*", hold)
    dialog.get_by_role("button", name="Import", exact=True).click()
    assert until(lambda: (tab.page.wait_for_timeout(20), len(batches) >= 3)[1]), "three batches were sent"
    tab.page.unroute("**/batches?*")
    tab.allowed = ["ERR_", "Failed to load"]
    tab.page.reload()
    tab.page.get_by_role("heading", name="Data", level=1).wait_for()
    tab.settle()
    expect(tab.page.get_by_role("table", name="Jobs")).to_contain_text("running")
    pictures(scene, tab, "import-interrupted")
    tab.page.get_by_role("button", name="Go on with the import of people.jsonl").click()
    dialog = tab.page.get_by_role("dialog", name="Go on with an import")
    other = pathlib.Path(scene.server.folder, "other.jsonl")
    other.write_text(file.read_text().replace("import-0", "import-x"))
    dialog.get_by_label("File", exact=True).set_input_files(str(other))
    dialog.get_by_role("button", name="Go on", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("another file")
    dialog.get_by_label("File", exact=True).set_input_files(str(file))
    dialog.get_by_role("button", name="Go on", exact=True).click()
    expect(dialog).to_contain_text("Done.", timeout=60000)
    dialog.get_by_role("button", name="Close").click()
    tab.settle()
    row = tab.page.get_by_role("table", name="Jobs").get_by_role("row").filter(has_text="people.jsonl")
    expect(row).to_contain_text("done")
    expect(row).to_contain_text("6,001")
    for number in (0, 1499, 2999):
        assert len(scene.server.admin("GET", f"/onym/v1/people?type=customerid&value=import-{number}")[1]["people"]) == 1, number


@story
def an_import_goes_on_after_a_lost_connection(scene):
    """A failure and a stop in the middle: the same dialog goes on, and makes no second import."""
    lines = [json.dumps({"kind": "person", "key": f"file:p{number}", "made": 1}) for number in range(3500)]
    file = pathlib.Path(scene.server.folder, "people.jsonl")
    file.write_text("\n".join(lines) + "\n")
    tab = scene.tab()
    tab.allowed = ["ERR_", "Failed to load"]
    tab.sign_in(to="#/data")
    tab.page.get_by_role("button", name="Import a file…").click()
    dialog = tab.page.get_by_role("dialog", name="Import a file")
    dialog.get_by_label("File", exact=True).set_input_files(str(file))
    dialog.get_by_label("Only try").uncheck()
    begin = dialog.get_by_role("button", name="Import", exact=True)
    batches = []
    def lose(route):
        batches.append(route)
        if len(batches) == 2:
            route.abort()
        elif len(batches) != 3:
            route.continue_()
    tab.page.route("**/batches?*", lose)
    begin.click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
    begin.click()
    assert until(lambda: (tab.page.wait_for_timeout(20), len(batches) == 3)[1]), "the second batch was sent again"
    dialog.get_by_role("button", name="Stop", exact=True).click()
    batches[2].continue_()
    expect(dialog).to_contain_text("Stopped.")
    begin.click()
    expect(dialog).to_contain_text("3,500 records taken", timeout=30000)
    expect(dialog).to_contain_text("Done.")
    imports = scene.server.admin("GET", "/onym/v1/imports")[1]["imports"]
    assert [(one["state"], one["taken"]) for one in imports] == [("finished", 3500)], imports


@story
def an_open_page_is_no_use(scene):
    """Only the first look at work that runs is a person's call. The others do not keep the session alive."""
    tab = scene.tab().sign_in()
    uses = {"compact": [], "jobs": [], "dry-run": []}
    def note(route, name, answer):
        uses[name].append(route.request.headers.get("onym-use"))
        route.fulfill(json=answer)
    job = {"id": "i_1", "kind": "import", "name": None, "state": "running", "done": 1, "of": None, "rate": None, "rejected": 0, "begun_at": None, "ended_at": None}
    tab.page.route("**/onym/v1/compact", lambda route: note(route, "compact", {"running": True, "waits_for_readers": False, "pages_given_back": 0, "done_at": None}))
    tab.page.route("**/onym/v1/jobs", lambda route: note(route, "jobs", {"jobs": [job]}))
    tab.go("#/data")
    assert until(lambda: (tab.page.wait_for_timeout(20), len(uses["compact"]) >= 3 and len(uses["jobs"]) >= 2)[1]), uses
    assert uses["compact"][:3] == [None, "none", "none"] and uses["jobs"][:2] == [None, "none"], uses
    run = {"id": "d_1", "state": "running", "journal": {"read": 0, "of": 9}}
    tab.page.route("**/onym/v1/strategy/dry-run", lambda route: route.fulfill(json=run))
    tab.page.route("**/onym/v1/strategy/dry-run/d_1", lambda route: note(route, "dry-run", {**run, "state": "running" if len(uses["dry-run"]) < 2 else "stopped"}))
    tab.go("#/rules")
    tab.page.get_by_role("button", name="customerid down").click()
    tab.page.get_by_role("button", name="Try on what happened").click()
    expect(tab.page.get_by_text("The dry run is stopped.")).to_be_visible()
    assert uses["dry-run"] == ["none", "none", "none"], uses


@story
def no_network(scene):
    scene.ada()
    tab = scene.tab()
    tab.allowed = ["ERR_INTERNET_DISCONNECTED", "ERR_", "Failed to fetch"]
    tab.sign_in(to="#/health")
    tab.context.set_offline(True)
    tab.page.evaluate("() => { location.hash = '#/keys'; }")
    tab.page.get_by_role("alert").first.wait_for()
    expect(tab.page.get_by_text("Look whether")).not_to_have_count(0)
    tab.context.set_offline(False)
    tab.page.get_by_role("button", name="Try again").first.click()
    tab.page.get_by_role("heading", name="Keys", level=1).wait_for()
    tab.settle()


@story
def by_keyboard_alone(scene):
    scene.ada()
    tab = scene.tab().sign_in()
    tab.settle()
    for key, heading in [("p", "People"), ("c", "Changes"), ("e", "Health"), ("r", "Rules"), ("q", "Requests"), ("w", "Webhooks"), ("k", "Keys"), ("d", "Data"), ("h", "Home")]:
        tab.page.keyboard.press("g")
        tab.page.keyboard.press(key)
        expect(tab.page.get_by_role("heading", level=1)).to_have_text(heading)
        tab.settle()
    tab.page.keyboard.press("?")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_visible()
    check_page(tab, "keys of the console")
    tab.page.keyboard.press("Escape")
    tab.go("#/people")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function("() => location.hash.startsWith('#/person/')")
    tab.settle()
    expect(tab.page.get_by_role("heading", level=1)).to_be_focused()
    # The skip link is the first stop of a page that was just loaded.
    tab.page.reload()
    tab.page.get_by_role("navigation", name="Pages").wait_for()
    tab.settle()
    tab.page.evaluate("() => document.activeElement.blur()")
    tab.page.keyboard.press("Tab")
    first = tab.page.evaluate("() => document.activeElement.textContent")
    # Focus begins at the heading, so one step back from the first link of the bar is the skip link.
    stops = [first]
    for _ in range(30):
        tab.page.keyboard.press("Shift+Tab")
        stops.append(tab.page.evaluate("() => document.activeElement.textContent"))
    assert "Skip to the content" in stops, stops
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        ring = tab.page.evaluate("() => { const one = document.activeElement; const style = getComputedStyle(one); return one === document.body || style.outlineStyle !== 'none'; }")
        assert ring, tab.page.evaluate("() => document.activeElement.outerHTML.slice(0, 120)")


@story
def every_page_dark_and_light_wide_and_narrow(scene):
    scene.ada().merge()
    pages = PAGES + [f"#/person/{scene.customer}"] + [f"#/person/{scene.customer}?tab={tab}" for tab in ("timeline", "graph", "purchases", "properties", "tokens", "journal")] + [
        "#/find/nobody-has-this", "#/explain?a=customerid%3Aada&b=customerid%3Abob", "#/nothing"]
    for form, options in {"light": {}, "dark": {"dark": True}, "narrow": {"width": 360, "height": 740}}.items():
        tab = scene.tab(**options).sign_in()
        for page in pages:
            tab.go(page)
            name = page.replace(scene.customer, "ada").strip("#/").replace("?tab=", "-").split("?")[0].replace("/", "-")
            tab.picture(scene.pictures, f"{name}-{form}")
            check_page(tab, f"{page} {form}")
            if form == "light":
                check_widths(tab, page)
            if form == "light" and tab.page.get_by_role("radio", name="Table").count():
                tab.page.get_by_role("radio", name="Table").first.check()
                check_page(tab, f"{page} as table")


@story
def pictures_for_the_docs(scene):
    """The pictures of README.md and docs/console.md. ONYM_RECORD=1 makes them anew."""
    scene.ada().merge()
    catalog(scene)
    as_app(scene, "/v3/users/QON_ada", {"environment": "prod"})
    assert scene.server.admin("POST", "/onym/v1/merges", {"from": "access_user_id:QON_ada", "into": scene.customer, "reason": "one account"})[0] == 200
    grant = {"entitlement": "pro", "until": "2099-01-31T00:00:00Z", "reason": "lost receipt"}
    status, answer = scene.server.admin("POST", "/onym/v1/people/access_user_id:QON_ada/grants", grant)
    assert status in (200, 201), answer
    scene.server.identify(customerid="alan", ios_idfv="PHONE-1")
    docs = pathlib.Path(__file__).resolve().parents[4] / "docs"
    for name, shown, part in [("person", "overview", "tbody th:has-text('pro')"), ("graph", "graph", "svg")]:
        tab = scene.tab(width=1000, height=900).sign_in(to=f"#/person/{scene.customer}?tab={shown}")
        tab.page.locator(part).first.wait_for()
        tab.settle()
        target = scene.pictures / f"docs-{name}.png"
        tab.page.screenshot(path=str(target))
        if os.environ.get("ONYM_RECORD") == "1":
            (docs / f"console-{name}.png").write_bytes(target.read_bytes())


HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "javascript:alert(1)", "__proto__", "constructor", "toString",
    "{{7*7}}", "${alert(1)}", "'; drop table people; --", "\u202egnp.exe", "\u2066a\u2069", "a\u200bb", "\ufeffbom", "line\nbreak", "tab\there", "\x7f", "&lt;b&gt;",
    "a" * 200, "W" * 250, "#/person/1?tab=graph", "%00%ff", "%", "?a=b&c=d", "🏳️‍🌈" * 20, "é" * 40, "‮‭" * 20, "data:text/html,<script>alert(1)</script>",
    "</textarea><script>alert(1)</script>", "hasOwnProperty", "null", "undefined", "NaN", "-0", "1e999", "\\u0000", "CON", "..//..//etc/passwd",
]


@story
def hostile_values(scene):
    people = []
    for place, value in enumerate(HOSTILE):
        try:
            mpid = scene.server.identify(customerid=value)
        except RuntimeError:
            # The server refuses the value itself.
            mpid = scene.server.identify(customerid=f"holder-{place}")
        people.append(mpid)
        scene.server.event(mpid, (value or "x")[:200], **{f"k{place}": value[:200]})
    status, answer = scene.server.admin("POST", "/onym/v1/merges", {"from": people[0], "into": people[1], "reason": HOSTILE[1]})
    assert status == 200, answer
    assert scene.server.admin("POST", "/onym/v1/keys", {"kind": "admin", "name": HOSTILE[2]})[0] in (200, 201)
    tab = scene.tab()
    tab.allowed = ["status of 40[04]"]
    tab.sign_in()
    shown = 0
    for mpid in people:
        for part in ("", "?tab=timeline", "?tab=properties", "?tab=graph", "?tab=journal"):
            tab.go(f"#/person/{mpid}{part}")
            assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (mpid, part)
            assert tab.page.evaluate("() => !document.querySelector('main script, main img, main iframe')"), (mpid, part)
            assert tab.page.evaluate("() => [...document.querySelectorAll('a[href]')].every((link) => link.getAttribute('href').startsWith('#'))"), (mpid, part)
            assert tab.page.locator("main .failure").count() == 0, tab.page.locator("main .failure").all_inner_texts()
            shown += 1
    for value in HOSTILE:
        tab.page.evaluate("(text) => { location.hash = '#/find/' + encodeURIComponent(text); }", value)
        tab.page.wait_for_timeout(40)
        tab.settle()
    for page in PAGES:
        tab.go(page)
    assert shown == 5 * len(HOSTILE)


@story
def a_large_person(scene):
    root = scene.server.identify(customerid="large")
    identities = 1
    while scene.server.admin("POST", f"/onym/v1/people/{root}/identities", {"type": "email", "value": f"large-{identities}@example.com"})[0] == 200 and identities < 200:
        identities += 1
    members = 1
    for number in range(120):
        other = scene.server.identify(customerid=f"member-{number}", email=f"member-{number}@example.com")
        members += scene.server.admin("POST", "/onym/v1/merges", {"from": other, "into": root, "reason": "one company"})[0] == 200
    for number in range(150):
        scene.server.event(root, f"event {number}", place=str(number))
    assert members > 40 and identities > 4, (members, identities)
    tab = scene.tab().sign_in()
    for part in ("", "?tab=timeline", "?tab=graph", "?tab=properties", "?tab=journal"):
        tab.go(f"#/person/{root}{part}")
        tab.picture(scene.pictures, f"large-{part[5:] or 'overview'}")
        elements = tab.page.evaluate("() => document.querySelectorAll('*').length")
        assert elements <= 2000, f"{elements} elements for {members} members and {identities} identities at {part}"
        if part == "?tab=graph":
            tab.page.get_by_role("radio", name="Table").check()
            tab.settle()
            elements = tab.page.evaluate("() => document.querySelectorAll('*').length")
            assert elements <= 2000, f"{elements} elements in the table of the graph"
            check_page(tab, "large graph as table")
    tab.go(f"#/person/{root}?tab=timeline")
    rows = tab.page.locator("tbody tr")
    assert rows.count() == 100
    tab.page.get_by_role("button", name="More").click()
    expect(rows).to_have_count(scene.server.admin("GET", f"/onym/v1/people/{root}/timeline?limit=200")[1]["rows"].__len__())


@story
def budgets(scene):
    """Bytes, and times of cold loads; a line has the numbers."""
    import gzip
    files = {str(file.relative_to(scene.files)): file.read_bytes() for file in sorted(scene.files.rglob("*")) if file.is_file()}
    total = len(gzip.compress(b"".join(files.values()), 9))
    scene.ada()
    tab = scene.tab().sign_in()
    paint, health = [], []
    first = set()
    for _ in range(20):
        tab.page.goto("about:blank")
        client = tab.context.new_cdp_session(tab.page)
        client.send("Network.clearBrowserCache")
        tab.asked.clear()
        tab.page.goto(f"{scene.server.base}/console#/health")
        tab.page.get_by_role("heading", name="Health").wait_for()
        tab.page.wait_for_function("() => document.querySelectorAll('.tile').length >= 5 && document.querySelector('dl.facts')")
        health.append(tab.page.evaluate("() => Math.max(...performance.getEntriesByType('resource').map((one) => one.responseEnd))"))
        paint.append(tab.page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"))
        first |= {url.split("/console/", 1)[1].split("/", 1)[1] for url in tab.asked if "/console/" in url and "/pages/" not in url and "/onym/v1/" not in url}
    before = sum(len(gzip.compress(files[name], 9)) for name in first | {"index.html"})
    median = lambda all: sorted(all)[len(all) // 2]
    print(json.dumps({"budget": {"all_gz": total, "frame_gz": before, "first_paint_ms": round(median(paint)), "health_ms": round(median(health))}}), flush=True)
    assert total <= 60_000 and before <= 25_000 and len(files["index.html"]) <= 3_000
    assert median(paint) > 0


def tell(browser, name, program, files, pictures):
    """Runs a story. What went wrong in it, or None: also where the server did not start or end, or a tab did not close."""
    run, faults = STORIES[name], []

    def attempt(step):
        try:
            return step()
        except Exception:
            faults.append(traceback.format_exc(limit=4))

    server = attempt(lambda: Server(program, getattr(run, "mode", "production"), getattr(run, "flags", ()), getattr(run, "has_shim", False)))
    if server is None:
        return faults[0]
    scene = Scene(browser, server, files, pictures)
    attempt(lambda: run(scene))
    if faults:
        for place, tab in enumerate(scene.tabs):
            attempt(lambda: tab.picture(pictures, f"failed-{name}-{place}"))
    said = [fault for tab in scene.tabs for fault in tab.faults]
    if said and not faults:
        faults.append("the browser says: " + " | ".join(said[:5]))
    for tab in scene.tabs:
        if not tab.page.is_closed():
            attempt(tab.context.close)
    attempt(server.stop)
    return "\n".join(faults) or None


def main():
    program, files, pictures = sys.argv[1:4]
    wanted = sys.argv[4:] or list(STORIES)
    failed = 0
    # A browser beside other tests waits for the processor. These bounds are for what never comes.
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in wanted:
            begun = time.monotonic()
            print(name, file=sys.stderr, flush=True)
            faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
            fault = tell(browser, name, program, files, pictures)
            failed += fault is not None
            print(json.dumps({"story": name, "seconds": round(time.monotonic() - begun, 1), "fault": fault}), flush=True)
        faulthandler.cancel_dump_traceback_later()
        browser.close()
    sys.exit(1 if failed else 0)


main()
