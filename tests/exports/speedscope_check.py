"""speedscope reads what we write: profiles, names and times as it shows them, and no complaint of its own."""

import base64
import json
import sys
from pathlib import Path

from browser import Browser

release, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()


def opened(b, name, row):
    """Opens a file the way speedscope's own command does, by a script that hands it over, in the view that is a table.
    Speedscope shows the table first and fills it later, so this waits for a row."""
    data = base64.b64encode((folder / name).read_bytes()).decode()
    script = folder / f"{name}.js"
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(data)})")
    # Another fragment alone would not load the page anew.
    b.go("about:blank")
    b.open(release / "index.html", f"#localProfilePath={str(script).lstrip('/')}&view=sandwich")
    rows = "[...document.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.innerText.trim()))"
    b.until(f"/went wrong/.test(document.body.innerText) || {rows}.some(r => r.at(-1) === {json.dumps(row)})")
    rows = b.eval(rows)
    return b.eval("document.title"), b.eval("document.body.innerText"), {r[-1]: r[:-1] for r in rows if len(r) > 2}


with Browser() as b:
    name = "speedscope.speedscope.json"
    title, text, rows = opened(b, name, "initcall acpi_init")
    assert title.startswith("boot of Linux 6.1.0-47-cloud-amd64"), title
    lanes = len(json.loads((folder / name).read_text())["profiles"])
    assert f"boot path (1/{lanes})" in text, text
    # Total and self time as speedscope computes them from the events: 230 and 210 ms of 940.
    assert rows["initcall acpi_init"] == ["230.00ms (24%)", "210.00ms (22%)"], rows["initcall acpi_init"]
    assert rows["unpack_to_rootfs"] == ["155.00ms (16%)", "155.00ms (16%)"], rows["unpack_to_rootfs"]
    assert rows["swapper/0"][0] == "740.00ms (79%)", rows["swapper/0"]
    assert any("<script>ran=1</script>" in r for r in rows), "the hostile name is gone"
    assert b.eval("typeof ran") == "undefined"

    _, _, rows = opened(b, "folded.folded", "initcall acpi_init")
    assert rows["initcall acpi_init"] == ["230,000,000 (24%)", "210,000,000 (22%)"], rows["initcall acpi_init"]

    # Time before zero counts here: linking the VMM began half a millisecond early.
    _, _, rows = opened(b, "folded-all-threads.folded", "linking")
    assert rows["linking"] == ["20,500,000 (1.9%)"] * 2, rows["linking"]

    # Chrome's format: every thread is a profile; the first one with slices is the boot path.
    _, text, rows = opened(b, "chrome.trace.json", "initcall acpi_init")
    assert "boot path" in text, text
    assert rows["initcall acpi_init"] == ["230.00ms (24%)", "210.00ms (22%)"], rows["initcall acpi_init"]

    complaints = [e for e in b.errors if "ERR_FILE_NOT_FOUND" not in e]
    assert not complaints, complaints
print(f"speedscope: its own format ({lanes} profiles), Chrome's and folded stacks opened; self and total times as ours")
