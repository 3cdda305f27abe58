"""The page's style sheet: light, dark and print, in colours that colour-blind people tell apart.

Parts of cycles have the colours of Okabe and Ito (Color Universal Design); the heat map goes by
lightness alone, so that it can be read in black and white.
"""

LIGHT = {
    "ink": "#1b1f24",
    "soft": "#57606a",
    "line": "#d5dae0",
    "paper": "#ffffff",
    "card": "#f5f7f9",
    "accent": "#0060a8",
    "work": "#0072b2",
    "conflict": "#d55e00",
    "fetch": "#e69f00",
    "wait": "#cc79a7",
    "flow": "#009e73",
    "outside": "#f0e442",
    "other": "#111111",
    "barrier": "#8c959f",
    "asleep": "#c6ccd2",
    "off": "#eceff2",
    "dma_in": "#56b4e9",
    "dma_out": "#004f7c",
}
DARK = {
    "ink": "#e6e9ed",
    "soft": "#9aa4ae",
    "line": "#39414a",
    "paper": "#14181d",
    "card": "#1d232a",
    "accent": "#7cc4ff",
    "work": "#2a86c4",
    "conflict": "#ef7426",
    "fetch": "#f0b030",
    "wait": "#d98ab5",
    "flow": "#14b58a",
    "outside": "#f3ea6a",
    "other": "#ffffff",
    "barrier": "#76808a",
    "asleep": "#4a535c",
    "off": "#242b32",
    "dma_in": "#7cc8f4",
    "dma_out": "#2a78ab",
}

HEAT_LIGHT = "f6f3ef fee8cf fdd3a2 fdb572 f9923f e6700f c04c02 8c3203 551c02".split()
HEAT_DARK = "1c2128 3d2412 5f3011 86400f ad5410 d4701f f0974a fcc285 fff0d8".split()
LEVELS = len(HEAT_LIGHT)
"""Steps of the heat map; the first stands for nothing at all."""

RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:44px 0 6px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:15px;margin:18px 0 4px;overflow-wrap:anywhere}
p{margin:6px 0 12px;max-width:78ch}
.soft,.note,caption,figcaption{color:var(--soft)}
.note{font-size:13.5px}
.warning{border-left:4px solid var(--conflict);padding:6px 12px;background:var(--card)}
nav{margin:14px 0 0;font-size:13.5px;display:flex;flex-wrap:wrap;gap:2px 14px}
nav a{color:var(--accent);text-decoration:none;white-space:nowrap}
nav a:hover,nav a:focus{text-decoration:underline}
code,.code{font:12.5px/1.45 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(136px,1fr));gap:10px;
 margin:18px 0}
.figures div{background:var(--card);border-radius:8px;padding:10px 12px}
.figures b{display:block;font-size:21px;line-height:1.25;font-variant-numeric:tabular-nums}
.figures span{color:var(--soft);font-size:12.5px}
.losses{list-style:none;padding:0;margin:12px 0;display:grid;gap:12px;
 grid-template-columns:repeat(auto-fit,minmax(290px,1fr))}
.losses li{background:var(--card);border-radius:8px;padding:12px 16px 8px;border-top:5px solid}
.losses h3{margin:0;font-size:16px}
.losses b{font-variant-numeric:tabular-nums}
.losses p{margin:6px 0;font-size:14px}
figure{margin:14px 0;overflow-x:auto}
figcaption{font-size:13.5px;margin-top:4px;max-width:95ch}
svg.picture{display:block;width:100%;min-width:760px;height:auto;font-size:12px}
svg text{fill:var(--ink);font-variant-numeric:tabular-nums}
svg .tick,svg .quiet{fill:var(--soft)}
svg .tick{font-size:11px}
svg .grid{stroke:var(--line);fill:none;stroke-width:1}
svg .frame{stroke:var(--soft);fill:none;stroke-width:.7}
svg .bar-text{font-size:11px;fill:#1b1f24}
svg .on-work{fill:#fff}
svg .on-asleep,svg .on-off{fill:var(--ink)}
svg .on-other{fill:var(--paper)}
svg .barrier_mark{fill:var(--ink)}
svg .number{fill:var(--ink)}
svg .deep{fill:var(--paper)}
svg .crisp{shape-rendering:crispEdges}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;margin:8px 0}
th,td{padding:3px 10px 3px 0;text-align:right;white-space:nowrap}
th{font-weight:600;border-bottom:1px solid var(--line);vertical-align:bottom}
td.left,th.left{text-align:left}
tbody tr:hover{background:var(--card)}
tfoot td{border-top:1px solid var(--line);font-weight:600}
td.code{white-space:pre}
td.meaning{white-space:normal;min-width:180px}
table.tight th{white-space:normal;max-width:100px}
table.many{font-size:11.5px}
table.many th,table.many td{padding-right:6px}
td .meter{display:inline-block;width:110px;height:11px;vertical-align:-1px;background:none}
details{margin:8px 0}
summary{cursor:pointer;color:var(--accent)}
summary .name{overflow-wrap:anywhere}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;margin:8px 0}
.legend i{display:inline-block;width:13px;height:13px;border-radius:3px;margin-right:6px;
 vertical-align:-2px;border:1px solid var(--line)}
#tip{position:fixed;pointer-events:none;z-index:9;background:var(--ink);color:var(--paper);
 padding:5px 9px;border-radius:6px;font-size:12.5px;max-width:340px;
 white-space:pre-line;display:none}
.zoom{display:none;gap:6px;align-items:center;font-size:13px;color:var(--soft)}
.scripted .zoom{display:flex}
.zoom button{font:inherit;padding:1px 10px;border:1px solid var(--line);border-radius:6px;
 background:var(--card);color:var(--ink);cursor:pointer}
@media print{
 body{font-size:11px}
 main{max-width:none;padding:0}
 .scroll,figure{overflow:visible}
 table,code,.code{font-size:8.5px}
 th,td{padding:1px 5px 1px 0}
 th{white-space:normal}
 .figures{grid-template-columns:repeat(6,1fr)}
 .figures b,.losses h3{font-size:13px}
 .figures span,.losses p,.legend,p,.note,figcaption{font-size:10px}
 .losses{grid-template-columns:repeat(3,1fr)}
 h2{font-size:15px;margin-top:22px}
 nav,.zoom,#tip{display:none!important}
 figure,.losses li,tr{break-inside:avoid}
 h2,h3{break-after:avoid}
 svg.picture{min-width:0}
 *{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""


def style_sheet() -> str:
    """The text of the page's <style>."""
    names = [name for name in LIGHT if name not in ("ink", "soft", "line", "paper", "card")]
    fills = "".join(
        f"svg .{name}{{fill:var(--{name})}}.fill-{name}{{background:var(--{name})}}"
        f".edge-{name}{{border-color:var(--{name})!important}}"
        for name in names
    )
    heat = "".join(
        f"svg .q{level}{{fill:var(--q{level})}}.fill-q{level}{{background:var(--q{level})}}"
        for level in range(LEVELS)
    )
    light, dark = _variables(LIGHT, HEAT_LIGHT), _variables(DARK, HEAT_DARK)
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{RULES}{fills}{heat}"
    )


def _variables(colours: dict[str, str], heat: list[str]) -> str:
    named = "".join(f"--{name}:{colour};" for name, colour in colours.items())
    return named + "".join(f"--q{level}:#{colour};" for level, colour in enumerate(heat))
