//! M4, one incarnation: no view lists a process twice, neither as one incarnation nor as two of one name.
//!
//! Instances: installed views of at least two members. Source: incarnation numbers as in Ricciardi and Birman, "Using
//! Process Groups to Implement Failure Detection in Asynchronous Environments" (PODC 1991).

use std::collections::HashSet;

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for install in model.installs.iter().filter(|i| i.members.len() > 1) {
        out.instance();
        let mut seen = HashSet::new();
        let mut named = HashSet::new();
        let twice =
            install.members.iter().zip(&install.names).find(|(m, n)| !seen.insert(**m) | !named.insert(n.as_str()));
        if let Some((_, name)) = twice {
            out.violation(&[install.moment.place], || format!("cell view {} lists {name} twice", install.view));
        }
    }
    for epoch in model.epochs.iter().filter(|e| e.members.len() > 1) {
        out.instance();
        let mut seen = HashSet::new();
        let mut named = HashSet::new();
        let name = |m: usize| model.procs[m].name.as_deref();
        let twice = |&&m: &&usize| !seen.insert(m) | name(m).is_some_and(|n| !named.insert(n));
        if let Some(&member) = epoch.members.iter().find(twice) {
            let text = || format!("{} lists {} twice", model.view_name(epoch.view), model.who(member));
            out.violation(&[epoch.install.place], text);
        }
    }
}
