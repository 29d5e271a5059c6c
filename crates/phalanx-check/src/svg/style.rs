//! The style of a picture.

pub(super) const STYLE: &str = "\
text{fill:#222}\
.head{font-size:14px;font-weight:bold}\
.name{font-size:12px;font-weight:bold;text-anchor:middle}\
.time{text-anchor:end;fill:#666}\
.tick{stroke:#eee}\
.life{stroke:#555;stroke-width:1.4}\
.stop{stroke:#d08000;stroke-width:5;stroke-opacity:.45}\
.mark{stroke:#d08000;stroke-dasharray:2 4}\
.note{fill:#9a5f00}\
.cell{fill:none;stroke:#1f5fbf;stroke-width:2.2;stroke-opacity:.75}\
.group{fill:none;stroke:#23893f;stroke-width:1.6;stroke-opacity:.7}\
.cellpill{fill:#1f5fbf}.grouppill{fill:#23893f}\
.pill{fill:#fff;text-anchor:middle;font-size:9px}\
.arrow{stroke:#8a8a9a;stroke-width:.9;fill:#8a8a9a}\
.proofarrow{stroke:#c01818;stroke-width:1.5;fill:#c01818}\
.plain{fill:#fff}.uniform{fill:#333}\
.label{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.arrowtext{fill:#666;font-size:9px}.proofarrowtext{fill:#c01818;font-weight:bold}\
.bad{fill:#b01010}.good{fill:#333}\
.cross{stroke:#b01010;stroke-width:2.4;fill:none}\
.badsign{fill:#b01010}.badopen{fill:#fff;stroke:#b01010;stroke-width:1.5}\
.goodsign{fill:#3a3a3a}\
.state{fill:#7a3fb0}.stateopen{fill:#fff;stroke:#7a3fb0}\
.broken{stroke:#c01818;stroke-dasharray:7 4;stroke-width:1.2}\
.brokentext{fill:#c01818;font-weight:bold;text-anchor:end;font-size:11px}\
.ring{fill:none;stroke:#c01818;stroke-width:2}\
.number{fill:#c01818}\
.numbertext{fill:#fff;text-anchor:middle;font-weight:bold;font-size:9px}\
.caption{font-weight:bold;font-size:11px;fill:#b01010}\
.proof{font-size:10.5px}\
.remark{fill:#666;font-style:italic}";
