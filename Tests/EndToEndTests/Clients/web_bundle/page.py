"""Loads the web client from a server as a page does, and prints what the page did as JSON.

    page.py BASE KEY

The page has the vendor's snippet with the server's host in the place of the vendor's host. It calls documented functions of the
vendor's client alone, so that the vendor's own file can take the place of client.js.
"""

import json
import shutil
import sys

from playwright.sync_api import sync_playwright

PAGE = """<!doctype html><title>Shop</title><script>
window.mParticle = {config: {domain: "%(host)s", isDevelopmentMode: false}};
(function (key) {
  var script = document.createElement("script");
  script.async = true;
  script.src = "%(base)s/js/v2/" + key + "/mparticle.js?env=0&plan_id=shop&plan_version=2";
  document.head.appendChild(script);
})("%(key)s");
</script>"""


def main(base, key):
    host = base.split("://")[1]
    asked, faults = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[
                "--no-sandbox", "--disable-dev-shm-usage",
                # The page stands for one of the internet, and the server is on this machine.
                "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"])
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.route("https://shop.example/", lambda route: route.fulfill(
            body=PAGE % {"host": host, "base": base, "key": key}, content_type="text/html"))
        page.goto("https://shop.example/")
        try:
            page.wait_for_function("""() => {
                const identity = window.mParticle.Identity;
                const user = identity && identity.getCurrentUser && identity.getCurrentUser();
                return user && user.getMPID();
            }""")
        except Exception as fault:
            raise SystemExit(f"The client does not start: {faults} {asked} {fault}")

        def mpid():
            return page.evaluate("() => window.mParticle.Identity.getCurrentUser().getMPID()")

        def identity(name, identities):
            return page.evaluate("""([name, identities]) => new Promise((done) =>
                window.mParticle.Identity[name]({userIdentities: identities}, (result) => done(result.httpCode)))""", [name, identities])

        result = {"starts": page.evaluate("() => window.mParticle.starts"), "first": mpid()}
        result["login"] = identity("login", {"customerid": "ada"})
        result["user"] = mpid()
        with page.expect_response(lambda answer: "/events" in answer.url) as uploaded:
            page.evaluate("""() => { window.mParticle.logEvent("bought"); window.mParticle.upload(); }""")
        result["upload"] = uploaded.value.status
        result["logout"] = identity("logout", {})
        result["after"] = mpid()
        browser.close()
    result["hosts"] = sorted({url.split("/")[2] for url in asked})
    result["paths"] = [url.split(host)[1].split("?")[0].replace(key, "KEY") for url in asked if host in url]
    result["faults"] = faults
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
