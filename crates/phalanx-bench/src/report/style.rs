//! The page's style: readable on a phone, in light and dark mode.

/// The page's only style sheet.
pub(super) const CSS: &str = "\
:root{--ink:#1b1f24;--paper:#fcfcfb;--faint:#6b7280;--rule:#d8dbe0;--good:#2c7a51;--bad:#b4532a;\
--c0:#2563a8;--c1:#b4532a;--c2:#2c7a51;--c3:#7a4fa3;--c4:#8a6d00;--c5:#4b5563}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#14171a;--faint:#98a1ac;--rule:#343a41;--good:#5cbf8a;\
--bad:#e58a5f;--c0:#6aa9f0;--c1:#e58a5f;--c2:#5cbf8a;--c3:#b591dd;--c4:#d6b84a;--c5:#aab4bf}}\
body{margin:0 auto;padding:1rem;max-width:46rem;color:var(--ink);background:var(--paper);\
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\
h1{font-size:1.5rem}h2{margin-top:2.5rem;border-bottom:1px solid var(--rule)}h3{margin:1.5rem 0 .25rem;font-size:1rem}\
table{border-collapse:collapse;font-size:.85rem}td,th{padding:.2rem .6rem .2rem 0;text-align:left;vertical-align:top}\
.facts th{font-weight:400;color:var(--faint);white-space:nowrap}\
.wide{overflow-x:auto}.wide td,.wide th{white-space:nowrap;border-bottom:1px solid var(--rule)}\
svg{display:block;width:100%;height:auto}\
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .f{fill:var(--faint)}svg .r{stroke:var(--rule)}\
svg .w{stroke:var(--ink)}svg .good{fill:var(--good)}svg .bad{fill:var(--bad)}\
summary{cursor:pointer;margin-top:1rem}";
