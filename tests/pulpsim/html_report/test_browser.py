"""The page in a browser: closer, columns are of fewer cycles, and the pointer tells what ran."""

import json
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from pulpsim.html_report.page import page
from tests.pulpsim.html_report.traces import CODE, figures, issues, stall

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
CYCLES = 6000
"""Ten to a column of the whole; one to a column closer."""

PERSON = """
<script>
function wait(then){document.documentElement.classList.contains('close')?then():setTimeout(
 function(){wait(then);},5);}
function click(name,times){for(var k=0;k<times;k++)
 document.querySelector('.zoom button[data-act='+name+']').click();}
function seen(){
 var svg=document.querySelector('svg.timed:not(.heat)'),plot=svg.querySelector('svg.plot');
 var told={column:document.getElementById('column').textContent,
  view:plot.getAttribute('viewBox').split(' ').map(Number),paths:{},tips:[]};
 plot.querySelectorAll('path').forEach(function(p){
  var name=p.getAttribute('class');told.paths[name]=(told.paths[name]||'')+p.getAttribute('d');});
 var box=svg.getScreenCTM();
 [0,1,2,3].forEach(function(column){
  var x=96+860*(column+0.5)/told.view[2],y=14;
  svg.dispatchEvent(new MouseEvent('mousemove',
   {clientX:box.a*x+box.e,clientY:box.d*y+box.f,bubbles:true}));
  told.tips.push(document.getElementById('tip').textContent);});
 return told;
}
wait(function(){
 var found=[];
 click('in',1);click('out',1);found.push(seen());
 click('in',4);found.push(seen());
 click('all',1);click('in',20);found.push(seen());
 var out=document.createElement('pre');out.id='found';out.textContent=JSON.stringify(found);
 document.body.appendChild(out);
});
</script>
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is seen of the whole, at 1/16 of it, and as close as it goes."""
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    folder = tmp_path_factory.mktemp("browser")
    rows = [row for k in range(0, CYCLES, 2) for row in issues(0, k, 1, CODE + 4 * (k // 2 % 8))]
    rows += [stall(0, k, "l1_contention", 1, CODE) for k in range(1, CYCLES, 2)]
    rows += [row for k in range(0, CYCLES, 100) for row in issues(1, k, 1)]
    lines = [[CODE + 4 * k, f"mm.c:{10 + k}"] for k in range(8)]
    html = page(figures(rows, cycles=CYCLES, lines=lines))
    (folder / "page.html").write_text(html.replace("</body>", PERSON + "</body>"), "utf-8")
    drawn = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--window-size=1400,1000", "--virtual-time-budget=20000"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
            (folder / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    result = re.search('<pre id="found">(.*?)</pre>', drawn.stdout, re.DOTALL)
    assert result, drawn.stderr[-2000:]
    return json.loads(result[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def heights(path: str, columns: int) -> np.ndarray:
    """The height of a path's boxes in each column of the first row."""
    found = np.zeros(columns)
    for x, y, wide, high in re.findall(r"M(\d+) ([\d.]+)h(\d+)v([\d.]+)h-\d+z", path):
        if float(y) < 28:
            found[int(x) : int(x) + int(wide)] += float(high)
    return found


def test_the_whole_is_drawn_in_as_many_columns_as_without_the_script(found: list) -> None:
    assert found[0]["view"][:3] == [0, 0, 600]
    assert found[0]["column"] == "10 cycles"
    assert heights(found[0]["paths"]["work"], 600).tolist() == [13] * 600
    assert heights(found[0]["paths"]["conflict"], 600).tolist() == [13] * 600


def test_closer_columns_have_fewer_cycles_and_are_summed_anew(found: list) -> None:
    columns = int(found[1]["view"][2])
    assert (columns, found[1]["column"]) == (CYCLES // 16, "1 cycle")
    first = cycle_of(found[1]["tips"][0])
    issued = [26 * (cycle % 2 == 0) for cycle in range(first, first + columns)]
    assert heights(found[1]["paths"]["work"], columns).tolist() == issued


def cycle_of(tip: str) -> int:
    """The only cycle of a column, as the pointer tells it."""
    match = re.match(r"core0\ncycles ([\d,]+) to ([\d,]+)\n", tip)
    assert match, tip
    assert match[1] == match[2]
    return int(match[1].replace(",", ""))


def test_the_pointer_tells_cycle_hart_instruction_and_source_line(found: list) -> None:
    assert found[2]["view"][2] == 4
    for tip in found[2]["tips"]:
        cycle = cycle_of(tip)
        place = (cycle + 1) // 2 % 8
        where = f"main+0x{4 * place:x}" if place else "main"
        assert tip.split("\n")[2:] == [
            "L1 conflicts: 1" if cycle % 2 else "instructions: 1",
            "next instruction: nop",
            f"in {where}, mm.c:{10 + place}",
        ]
