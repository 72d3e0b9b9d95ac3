"""Logs in to two Ray dashboards in one headless Chromium, as a person does, and prints what it then shows as JSON.

two_dashboards.py URL TOKEN URL TOKEN: the tokens come on standard input, one a line, to stay out of the process list.
Speaks WebDriver (w3.org/TR/webdriver2) to Debian's chromedriver; nothing but the standard library is needed.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DIALOG = 'input[type="password"]'
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Refused(Exception):
    """The browser could not do it; the text is WebDriver's error code."""


class Browser:
    def __init__(self, folder):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        arguments += [f"--user-data-dir={folder}", "--no-proxy-server", "--window-size=1400,900"]
        options = {"goog:chromeOptions": {"args": arguments}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self.base += f"/session/{session['sessionId']}"

    def call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Refused(json.load(error)["value"]["error"]) from None

    def run(self, script, *arguments):
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def find(self, selector):
        found = self.call("POST", "/elements", {"using": "css selector", "value": selector})
        return found[0][ELEMENT] if found else None

    def wait(self, what, look):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if found := look():
                return found
            time.sleep(0.2)
        text = self.run("arguments[0](document.body.innerText)")
        raise SystemExit(f"no {what} at {self.call('GET', '/url')}; the page says: {text}")

    def quit(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def log_in(browser, url, token):
    browser.open(url)
    browser.wait("token dialog", lambda: typed(browser, token + "\ue007"))
    browser.wait("end of the dialog", lambda: not browser.find(DIALOG))


def typed(browser, text):
    """Whether there was a dialog to type it into; while it opens it takes nothing, and may be made anew."""
    field = browser.find(DIALOG)
    try:
        if field:
            browser.call("POST", f"/element/{field}/value", {"text": text})
        return field
    except Refused as refused:
        if str(refused) not in ("element not interactable", "stale element reference"):
            raise
        return None


def status(browser, url):
    """What the page at that address gets from its dashboard with the cookies that it has."""
    browser.open(url)
    fetch = "const done = arguments[0]; fetch('/api/jobs/').then(a => done(a.status), e => done(String(e)))"
    return browser.run(fetch)


def main():
    urls = sys.argv[1:]
    tokens = sys.stdin.read().split()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            for url, token in zip(urls, tokens):
                log_in(browser, url, token)
            # Both after both logins: the second must not have ended the first.
            json.dump([status(browser, url) for url in urls], sys.stdout)
        finally:
            browser.quit()


main()
