"""The flame chart as a file of its own, in Chromium: nothing of a guest's runs, zoom and search work."""

import sys
from pathlib import Path

from browser import Browser

folder = Path(sys.argv[1])

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
    assert b.eval("typeof ran") == "undefined", "a script of the guest's ran"
    assert not b.errors, b.errors
print("svg: zoom, search, the time axis; nothing of the guest's ran")
