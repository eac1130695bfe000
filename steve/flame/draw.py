"""Draw a flame graph as SVG: one file that needs no network. Scripts add zooming and searching; it is readable
without them.

The root is at the top (an icicle graph). The x axis is not time: siblings are sorted by name. Lua frames, C frames
and frames of LuaJIT itself have different ranges of colours. Within a range the colour is computed from the name, so
that a function has the same colour in every graph. Frames narrower than a third of a pixel are left out, which limits
the size of the file. A name that has no room is shown without its place, or else from its end, as on the page of the
report.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import zlib
from collections.abc import Iterator
from xml.sax.saxutils import escape

from steve.flame.tree import Box, Stacks, boxes
from steve.terminal.tables import number, printable, size

WIDTH, ROW, TOP, MARGIN = 1200, 18, 64, 10
NARROWEST = 1 / 3  # pixel
LETTER = 6.8  # approximate width of a letter, in pixels

STYLE = """text{font:12px monospace;fill:#222;pointer-events:none}.h{font:bold 16px sans-serif}.n{font:12px sans-serif}
rect{stroke:#fff;stroke-width:.5}g.f{cursor:pointer}g.f:hover rect{stroke:#000;stroke-width:1}
.dim{opacity:.25}.hit rect{fill:#b5179e}.hit text{fill:#fff}"""

# what fitting() does, in the drawing: (name, letters) => text
FITTING = """function fitting(n,c){if([...n].length<=c)return n;var b=[...n.replace(/ (\\([^()]*\\)|\\S+:[0-9]+)$/,'')];
return b.length<=c?b.join(''):c<3?'':'\\u2026'+b.slice(b.length-c+1).join('')}"""

# A click zooms to a frame, a click on the root zooms back. The key / searches for a regular expression; an empty one
# ends the search.
SCRIPT = """(function(){var s=document.documentElement,f=[].slice.call(s.querySelectorAll('g.f')),W=%(inner)d,M=%(margin)d,
T=%(total)s;%(fitting)s
function d(g,k){return +g.getAttribute('data-'+k)}
function zoom(z){var a=d(z,'s'),w=d(z,'w'),q=d(z,'d');f.forEach(function(g){var s0=d(g,'s'),w0=d(g,'w'),k=d(g,'d'),
on=k<q?(s0<=a&&s0+w0>=a+w):(s0>=a&&s0+w0<=a+w);g.style.display=on?'':'none';if(!on)return;
var x=k<q?M:M+(s0-a)/w*W,p=k<q?W:w0/w*W,r=g.querySelector('rect'),t=g.querySelector('text');
r.setAttribute('x',x);r.setAttribute('width',p);g.classList.toggle('dim',k<q);
if(!t){t=document.createElementNS('http://www.w3.org/2000/svg','text');g.appendChild(t)}
var n=g.getAttribute('data-n'),c=Math.floor((p-6)/%(letter)s);t.setAttribute('x',x+3);
t.setAttribute('y',+r.getAttribute('y')+13);t.textContent=fitting(n,c)})}
f.forEach(function(g){g.addEventListener('click',function(){zoom(g)})});
document.addEventListener('keydown',function(e){if(e.key!='/')return;e.preventDefault();
var p=prompt('Search for (regular expression):');if(p===null)return;var r=p?new RegExp(p):null,sum=0,end=-1;
f.forEach(function(g){var h=r&&r.test(g.getAttribute('data-n'));g.classList.toggle('hit',!!h);
if(h&&d(g,'s')>=end){sum+=d(g,'w');end=d(g,'s')+d(g,'w')}});
document.getElementById('found').textContent=r?'found in '+(100*sum/T).toFixed(2)+' %%':''})})()"""


def colour(name: str) -> str:
    """The colour of a frame: green for Lua, yellow for LuaJIT's own code, orange for C."""
    shade = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    if ".lua:" in name or name.startswith(("@", "=", "TRACE", "builtin")):
        hue = 95 + shade % 45
    elif name.startswith(("lj_", "lua", "LJ_")):
        hue = 42 + shade % 14
    else:
        hue = 12 + shade % 24
    return f"hsl({hue},{55 + shade // 64 % 20}%,{66 + shade // 4096 % 12}%)"


def safe(text: str) -> str:
    """Text escaped for XML, also for attributes."""
    return escape(printable(text), {'"': "&quot;"})


def fitting(name: str, letters: int) -> str:
    """As much of a name as there is room for: without its place, or else with dots for its beginning,
    since the ends of names tell more. "" if hardly any of it has room."""
    if len(name) <= letters:
        return name
    bare = re.sub(r" (\([^()]*\)|\S+:[0-9]+)\Z", "", name)
    if len(bare) <= letters:
        return bare
    return "" if letters < 3 else "…" + bare[len(bare) - letters + 1 :]


def amount(value: int, unit: str) -> str:
    """A weight as text, with its unit."""
    return f"{size(value)} ({number(value)} bytes)" if unit == "bytes" else f"{number(value)} {unit}"


class Drawing:
    """One flame graph. unit: "bytes", or the name of what the weights count."""

    def __init__(self, stacks: Stacks, title: str, unit: str) -> None:
        self.title, self.unit, self.weight = title, unit, stacks.total
        self.total = max(self.weight, 1)
        self.inner = WIDTH - 2 * MARGIN
        self.boxes = boxes(stacks, NARROWEST / self.inner * self.total)

    def _box(self, box: Box) -> str:
        x, width = MARGIN + box.start / self.total * self.inner, box.width / self.total * self.inner
        y, letters = TOP + box.depth * ROW, int((width - 6) / LETTER)
        name = printable(box.name)
        shown = fitting(name, letters)
        tip = f"{name}: {amount(box.width, self.unit)}, {100 * box.width / self.total:.2f} %" + (
            f"; own {amount(box.own, self.unit)}" if 0 < box.own < box.width else ""
        )
        text = f'<text x="{x + 3:.2f}" y="{y + 13}">{safe(shown)}</text>' if shown else ""
        return (
            f'<g class="f" data-n="{safe(name)}" data-s="{box.start}" data-w="{box.width}" '
            f'data-d="{box.depth}"><title>{safe(tip)}</title><rect x="{x:.2f}" y="{y}" '
            f'width="{width:.2f}" height="{ROW - 1}" rx="1" fill="{colour(name)}"/>{text}</g>\n'
        )

    def svg(self) -> Iterator[str]:
        """The text of the file, in pieces."""
        height = TOP + ROW * (1 + max((box.depth for box in self.boxes), default=0)) + MARGIN
        names = {"inner": self.inner, "margin": MARGIN, "total": self.total, "letter": LETTER, "fitting": FITTING}
        script = SCRIPT % names
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}">\n<style>{STYLE}</style>\n<rect width="100%" height="100%" fill="#fdfdfb"/>\n'
            f'<text class="h" x="{MARGIN}" y="26">{safe(self.title)}</text>\n<text class="n" x="{MARGIN}" '
            f'y="46">{safe(amount(self.weight, self.unit))} in all; click a frame to zoom, the first '
            f'row to go back, / to search</text>\n<text class="n" id="found" x="{WIDTH - 160}" y="46"/>\n'
        )
        yield from map(self._box, self.boxes)
        yield f"<script><![CDATA[{script}]]></script>\n</svg>\n"
