//! M11, levels and settings are agreed: all who install a cell view have the same level in force in it; from one view of an
//! instance to a later one it never falls, and it rises only to what a process asked for before (judged where all traces are
//! there); every member of a view knows its level. Who is kept out of a cell for a setting
//! has another value than the cell, and all who are kept out for it are told the same value of the cell.
//!
//! Instances: installs that tell their level, and refusals; *under failure*: those of a view whose level is higher than in the
//! view before.

use std::collections::BTreeMap;

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for views in model.cells.values() {
        let mut before: Option<(u64, u16, usize)> = None;
        for (&view, installs) in views {
            let mut of_view = None;
            for &ix in installs {
                let install = &model.installs[ix];
                let Some((level, known)) = install.level else { continue };
                out.instance_when(before.is_some_and(|(_, last, _)| level > last));
                let who = model.who(install.proc);
                let place = install.moment.place;
                let asked = |last: u16| {
                    last >= level
                        || model.rises_asked.iter().any(|(to, at)| *to == level && at.at_ns <= install.moment.at_ns)
                };
                if let Some((_, last, ix)) = before
                    && run.options.complete
                    && !asked(last)
                {
                    let text =
                        || format!("cell view {view} rose from level {last} to {level}, and nobody had asked for that");
                    out.violation(&[model.installs[ix].moment.place, place], text);
                }
                if level > known {
                    let text =
                        || format!("{who} has level {level} in cell view {view}, where a member knows {known} at most");
                    out.violation(&[place], text);
                }
                let (same, first) = *of_view.get_or_insert((level, ix));
                if same != level {
                    let text = || format!("{who} has level {level} in cell view {view}, and another member {same}");
                    out.violation(&[model.installs[first].moment.place, place], text);
                }
                if let Some((earlier, last, ix)) = before
                    && level < last
                {
                    let text = || format!("the level was {last} in cell view {earlier}, and is {level} in {view}");
                    out.violation(&[model.installs[ix].moment.place, place], text);
                }
            }
            before = of_view.map_or(before, |(level, ix)| Some((view, level, ix)));
        }
    }
    let mut told: BTreeMap<&str, (&str, crate::findings::Place)> = BTreeMap::new();
    let one_cell = model.cells.len() <= 1;
    for (proc, (setting, cell, own, moment)) in
        model.procs.iter().enumerate().flat_map(|(p, proc)| proc.kept_out.iter().map(move |kept| (p, kept)))
    {
        out.instance();
        if cell == own {
            let text = || format!("{} was kept out for {setting}, which is {own} there and here", model.who(proc));
            out.violation(&[moment.place], text);
        }
        let (first, place) = *told.entry(setting).or_insert((cell, moment.place));
        if one_cell && setting != "level" && first != cell {
            let text = || format!("{setting} is {first} in the cell, and {} was told {cell}", model.who(proc));
            out.violation(&[place, moment.place], text);
        }
    }
}
