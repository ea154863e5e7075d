"""The report's page and its style sheet.

Input: parts already escaped. Output: `PAGE`, a `string.Template`. Invariant: no network, no
outside font; colours follow the reader's light or dark setting.
"""

from string import Template

STYLE = """
:root { color-scheme: light dark;
  --bg:#fbfaf8; --card:#fff; --ink:#23262b; --quiet:#5d636d; --line:#e3e1dc; --soft:#f2f0eb;
  --ref:#59606b; --ref-bg:#e8eaee; --c0:#0b6e99; --c0-bg:#dcf0f8; --c1:#a35200; --c1-bg:#fdebd7;
  --c2:#2b7a3d; --c2-bg:#dff3e2; --c3:#7d3fb0; --c3-bg:#efe4f8; --c4:#b02a5f; --c4-bg:#fbe1ea;
  --c5:#5f6b00; --c5-bg:#f0f2cf; --window:#fbf5e2; --good:#1f7a4d; --bad:#b3382c; }
@media (prefers-color-scheme: dark) { :root {
  --bg:#16181c; --card:#1d2025; --ink:#e7e5e0; --quiet:#a3a8b1; --line:#343840; --soft:#262a31;
  --ref:#b4bac5; --ref-bg:#343a45; --c0:#6cc5ea; --c0-bg:#123b4e; --c1:#f0a75c; --c1-bg:#4a2f14;
  --c2:#7ed492; --c2-bg:#1a3f23; --c3:#c79bf0; --c3-bg:#3b2352; --c4:#f08bb2; --c4-bg:#4d1a30;
  --c5:#cbd456; --c5-bg:#393d0d; --window:#26282c; --good:#6fcf9a; --bad:#f08a7e; } }
* { box-sizing:border-box }
body { margin:0; background:var(--bg); color:var(--ink);
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
main { max-width:1330px; margin:0 auto; padding:40px 28px 80px }
h1 { font-size:1.9rem; line-height:1.2; letter-spacing:-.015em; margin:0 0 8px; font-weight:650 }
h2 { font-size:1.2rem; margin:52px 0 6px; font-weight:650; letter-spacing:-.005em }
h3 { font-size:1rem; margin:14px 0 8px; font-weight:600; overflow-wrap:anywhere }
p { margin:6px 0 14px; max-width:74ch }
.lead { font-size:1.06rem } .lead p { margin:4px 0 }
.quiet { color:var(--quiet); font-size:.88rem } .note { color:var(--bad); font-size:.88rem;
  overflow-wrap:anywhere }
.good { color:var(--good) } .bad { color:var(--bad) }
.scroll { overflow-x:auto; max-width:100% } .scroll:focus-visible { outline:2px solid var(--c0);
  outline-offset:2px }
table { border-collapse:collapse; font-size:.92rem; font-variant-numeric:tabular-nums;
  min-width:min(100%,640px); background:var(--card); border:1px solid var(--line) }
th,td { padding:7px 12px; text-align:left; vertical-align:middle; white-space:nowrap }
thead th { font-weight:550; color:var(--quiet); border-bottom:1px solid var(--line);
  background:var(--soft) }
tbody th { font-weight:500 } tbody { border-top:1px solid var(--line) }
tbody th[rowspan] { white-space:normal; min-width:9em; vertical-align:top }
.num { text-align:right } b { font-weight:700 } sub { font-size:.75em; line-height:0 }
tr.chosen { background:var(--c0-bg) }
.tag { font-size:.74rem; color:var(--c0); border:1px solid; border-radius:99px; padding:1px 7px;
  margin-left:4px }
.plot { width:220px; min-width:220px } th.plot { text-align:center }
.interval { display:block; width:200px; height:16px; color:var(--quiet) }
.interval path { stroke:currentColor; stroke-width:2 } .interval circle { fill:currentColor }
.interval .zero { stroke:var(--line) }
.interval.up { color:var(--c0) } .interval.down { color:var(--c1) }
abbr { text-decoration:none; cursor:help; border-bottom:1px dotted var(--quiet) }
small.ci { display:block; color:var(--quiet); font-size:.78rem }
.meaning { display:grid; grid-template-columns:max-content 1fr; gap:2px 14px; font-size:.9rem;
  max-width:80ch; margin:8px 0 } .meaning dd { margin:0 } .meaning dt { font-weight:550 }
nav { margin:14px 0 0; font-size:.9rem; display:flex; flex-wrap:wrap; gap:4px 16px }
a { color:var(--c0) }
.wide { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));
  gap:18px; max-width:1000px } .wide .chart { max-width:520px }
.grid { stroke:var(--line); fill:none } .labels text { font-size:11px }
.dots circle { fill:var(--k); opacity:.28 } .dots circle:hover { opacity:1 }
.mark path { fill:var(--k); stroke:var(--card); stroke-width:1.2 }
.mark .whisker { fill:none; stroke:var(--k); stroke-width:1.8 }
.name { fill:var(--k); font-size:13px; font-weight:650; paint-order:stroke; stroke:var(--card);
  stroke-width:4px; stroke-linejoin:round }
.share { width:120px; min-width:90px; padding-left:0 }
.share span { display:inline-block; height:10px; background:var(--k); border-radius:2px;
  max-width:70px; vertical-align:middle; margin-right:6px }
.share small { color:var(--quiet) } th.num[class*=" s"] { color:var(--k) }
.controls { display:flex; flex-wrap:wrap; gap:10px 14px; align-items:end; margin:10px 0 }
.controls[hidden],.pager[hidden] { display:none }
.controls label { display:grid; gap:3px; font-size:.82rem; color:var(--quiet); min-width:0 }
.controls input,.controls select,button { font:inherit; font-size:.9rem; color:var(--ink);
  background:var(--card); border:1px solid var(--line); border-radius:6px; padding:5px 9px;
  max-width:100% } .controls select { max-width:min(100%,260px) }
button { cursor:pointer } button:disabled { opacity:.45; cursor:default }
button:focus-visible,input:focus-visible,select:focus-visible { outline:2px solid var(--c0);
  outline-offset:1px }
.pager { display:flex; gap:12px; align-items:center }
.pairs { font-size:.86rem } .pairs td { padding:5px 10px; vertical-align:top }
.pairs td:nth-child(4),.pairs td:nth-child(5) { white-space:normal; min-width:190px;
  max-width:340px; overflow-wrap:anywhere } .pairs .none { color:var(--quiet) }
.pairs td:nth-child(2) { min-width:130px; max-width:220px; overflow-wrap:anywhere;
  white-space:normal }
.pairs thead button { border:0; background:none; padding:0; font-weight:550; color:inherit;
  border-radius:2px } .pairs th[aria-sort=ascending] button::after { content:" ▲" }
.pairs th[aria-sort=descending] button::after { content:" ▼" }
.plain { min-width:0 } .plain td { white-space:normal; overflow-wrap:anywhere }
.columns { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));
  gap:8px 32px; align-items:start } .columns h2 { margin-top:40px }
.charts { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));
  gap:18px }
figure { margin:0 } .chart,.video { background:var(--card); border:1px solid var(--line);
  border-radius:8px; padding:16px } .video { margin:18px 0 }
.video h3 { margin:0 }
.chart figcaption { font-weight:550; font-size:.92rem } .chart svg { width:100%; display:block }
.chart polyline { fill:none; stroke-width:1.8; stroke-linejoin:round }
.chart .frame { fill:none; stroke:var(--line) } .labels { fill:var(--quiet); font-size:10.5px }
.keys { margin:4px 0 0; font-size:.82rem }
.key { display:inline-flex; align-items:center; gap:6px; margin-right:14px }
.key::before { content:""; width:14px; height:10px; border-radius:3px; background:var(--c) }
.key.dash::before { background:none; border:1.5px dashed var(--quiet) }
.key.shade::before { background:var(--window); outline:1px solid var(--line) }
.k-reference { --k:var(--ref); --k-bg:var(--ref-bg) }
.s0 { --k:var(--c0); --k-bg:var(--c0-bg) }
.s1 { --k:var(--c1); --k-bg:var(--c1-bg) }
.s2 { --k:var(--c2); --k-bg:var(--c2-bg) }
.s3 { --k:var(--c3); --k-bg:var(--c3-bg) }
.s4 { --k:var(--c4); --k-bg:var(--c4-bg) }
.s5 { --k:var(--c5); --k-bg:var(--c5-bg) }
.time { position:relative; --k:var(--quiet); --k-bg:var(--soft) }
.time>img,.no-frames { position:absolute; top:0; height:64px;
  object-fit:contain; object-position:left top; border-radius:3px }
.no-frames { background:repeating-linear-gradient(45deg,var(--soft) 0 10px,var(--card) 10px 20px);
  color:var(--quiet); font-size:.85rem; padding:20px 14px }
.axis { position:absolute; top:66px; left:0; right:0; height:20px }
.axis i { position:absolute; font:normal 11px/20px inherit; font-size:11px; font-style:normal;
  color:var(--quiet); border-left:1px solid var(--quiet); padding-left:4px; line-height:16px }
.window { position:absolute; top:66px; bottom:0; background:var(--window);
  border:1px solid var(--line); border-width:0 1px }
.links { position:absolute; top:0; left:0; pointer-events:none }
.links path { stroke:var(--k,var(--quiet)); stroke-width:1.5; opacity:.75 }
.lane { position:absolute; left:0; right:0 }
.lane-title { position:sticky; left:0; display:inline-block; font-size:11.5px; line-height:18px;
  font-weight:600; color:var(--k); background:var(--card); border-radius:4px; padding:0 6px;
  z-index:2 }
.bar { position:absolute; height:56px; background:var(--k-bg); border:1px solid transparent;
  border-left:3px solid var(--k); border-radius:4px; overflow:hidden; padding:2px 3px 0 4px;
  font-size:11px; line-height:12.6px; color:var(--ink) }
.bar span { display:-webkit-box; -webkit-box-orient:vertical; -webkit-line-clamp:4;
  overflow:hidden }
.bar:hover { border-color:var(--k); z-index:3 }
.bar.unmatched { background:var(--card); border:1.5px dashed var(--k) }
.bar.context { background:none; border:1px dotted var(--quiet); color:var(--quiet) }
u { text-decoration:underline 2px var(--c); text-underline-offset:1.5px;
  text-decoration-skip-ink:none }
details { margin-top:10px } summary { cursor:pointer; color:var(--quiet); font-size:.9rem }
details .scroll { max-height:420px; overflow-y:auto; margin-top:8px }
.transcript { width:100%; font-size:.86rem } .transcript td { padding:4px 10px }
.transcript td:nth-child(2) { color:var(--k); font-weight:550 }
.transcript td:last-child { white-space:normal; overflow-wrap:anywhere; min-width:220px }
pre { background:var(--soft); border:1px solid var(--line); border-radius:6px; padding:12px 14px;
  overflow-x:auto; font:13px/1.6 ui-monospace,"DejaVu Sans Mono",monospace }
ul { padding-left:1.2em; max-width:80ch } li { margin:3px 0; overflow-wrap:anywhere }
@media (max-width:560px) { main { padding:24px 14px 60px } h1 { font-size:1.5rem }
  th,td { padding:6px 8px } .chart,.video { padding:12px 10px } }
@media print { .scroll { overflow:visible } .video { break-inside:avoid } }
"""

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>$title</title><style>$style</style></head>
<body><main><h1>$title</h1>
$body
</main></body></html>
""")
