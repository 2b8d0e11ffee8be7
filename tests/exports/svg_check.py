"""The page and the flame chart in Chromium: nothing of a guest's runs, nothing is loaded; zoom, search, sorting work."""

import json
import sys
from pathlib import Path

from browser import Browser

folder = Path(sys.argv[1])
page = folder / "page.html"

with Browser() as b:
    b.open(page)
    b.until("document.querySelectorAll('#chart .frames > g').length > 20")

    # Nothing that the hostile text brought ran or became an element.
    assert b.eval("typeof ran") == "undefined", "a script of the guest's ran"
    assert b.eval("document.querySelectorAll('img, iframe, object, embed, link').length") == 0
    assert b.eval("document.querySelectorAll('script').length") == 3, "more scripts than the page's own"
    assert b.eval("document.querySelectorAll('style').length") == 1, "more styles than the page's own"
    assert b.eval("document.querySelectorAll('svg').length") == 1, "more drawings than the chart"
    handlers = "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name))).length"
    assert b.eval(handlers) == 0, "an event handler in markup"
    text = b.eval("document.body.innerText")
    assert "<img src=x onerror=ran=2>" in text, "the hostile text is not shown"
    assert "\\xff\\xfe not text" in text and "\x1b" not in text and "\u202e" not in text

    # Even if it were let in, the policy keeps it from running or loading.
    b.eval("document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.org/x\" onerror=\"window.ran=6\">')")
    b.eval("{ const s = document.createElement('div'); s.innerHTML = '<svg onload=\"window.ran=7\"></svg>'; document.body.append(s); }")
    b.eval("new Promise(done => setTimeout(done, 300))")
    assert b.eval("typeof ran") == "undefined", "the policy let a handler run"
    refused = [e for e in b.errors if "Content Security Policy" in e]
    assert refused and refused == b.errors, b.errors
    b.errors.clear()
    assert all(u.startswith(("file:", "about:")) or u == "https://example.org/x" for u in b.requests), b.requests

    # The summary in the page is the summary.
    assert json.loads(b.eval("document.getElementById('summary-data').textContent")) == json.loads((folder / "show.json").read_text())

    # The chart runs from left to right.
    first = "Math.min(...[...document.querySelectorAll('#chart .frames > g')].filter(g => g.textContent.startsWith('{}')).map(g => +g.dataset.at))"
    assert b.eval(first.format("qemu")) == 0
    assert b.eval(first.format("SeaBIOS")) == 90_000_000
    assert b.eval(first.format("unpack_to_rootfs")) == 715_000_000

    # A click zooms, and one gets back.
    shown = "[...document.querySelectorAll('#chart .frames > g')].filter(g => g.style.display !== 'none').length"
    frames = b.eval(shown)
    b.eval("[...document.querySelectorAll('#chart .frames > g')].find(g => g.textContent.startsWith('initcall acpi_init'))"
           ".querySelector('rect').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    zoomed = b.eval(shown)
    assert 3 <= zoomed < frames, f"{zoomed} of {frames} frames after zooming"
    b.eval("document.getElementById('whole').click()")
    assert b.eval(shown) == frames

    # Search marks frames; a broken expression and one without a match are said.
    def search(term):
        b.eval(f"{{ const find = document.getElementById('find'); find.value = {json.dumps(term)}; find.dispatchEvent(new Event('input')); }}")
        return b.eval("document.getElementById('found').textContent")
    assert search("^initcall acpi_init") == "1 marked, 24.47 % of the boot", search("^initcall acpi_init")
    assert search("no such") == "no frame matches"
    assert search("(") == "not a regular expression"
    assert search("") == ""

    # The table sorts: numbers largest first, then the other way round, text by the alphabet.
    def sort_by(column, key):
        b.eval(f"document.querySelectorAll('#where thead button')[{column}].click()")
        return b.eval(f"[...document.getElementById('where').tBodies[0].rows].map(r => r.cells[{column}].{key})")
    counts = [int(v) for v in sort_by(4, "dataset.v")]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1], counts
    counts = [int(v) for v in sort_by(4, "dataset.v")]
    assert counts == sorted(counts) and counts[0] < counts[-1], counts
    names = sort_by(0, "textContent")
    assert names.index("devices") < names.index("initcall acpi_init") < names.index("start_kernel"), names

    assert b.eval("getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 248)"
    b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert b.eval("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 26)"
    assert not b.errors, b.errors

# The chart as a file of its own: as wide as the window, with a time axis that follows the zoom.
with Browser() as b:
    b.open(folder / "svg.svg")
    b.until("document.querySelectorAll('.frames > g').length > 20")
    assert b.eval("document.documentElement.getAttribute('width') == innerWidth")
    axis = "[...document.querySelectorAll('.axis text')].map(t => t.textContent)"
    assert b.eval(axis)[:2] == ["0", "100 ms"], b.eval(axis)
    room = "(f => f.querySelector('rect').width.baseVal.value)([...document.querySelectorAll('.frames > g')].find(g => g.textContent.startsWith('initcall acpi_init')))"
    narrow = b.eval(room)
    b.eval("[...document.querySelectorAll('.frames > g')].find(g => g.textContent.startsWith('initcall acpi_init')).dispatchEvent(new MouseEvent('click'))")
    assert b.eval(f"{room} == innerWidth - 20"), b.eval(room)
    assert "0" not in b.eval(axis), b.eval(axis)
    b.eval("document.querySelector('.whole').dispatchEvent(new MouseEvent('click'))")
    assert b.eval(room) == narrow
    b.eval("window.prompt = () => '^initcall acpi_init$'; document.querySelector('.mark').dispatchEvent(new MouseEvent('click'))")
    assert b.eval("document.querySelector('.mark').textContent") == "1 marked, 24.47 %"
    assert b.eval("document.querySelectorAll('rect[fill=\"#ffe500\"]').length") == 1
    assert not b.errors, b.errors
print(f"page: {page.stat().st_size} bytes, {frames} frames in the chart; nothing of the guest's ran, nothing was loaded; zoom, search, sorting, dark")
