//! Notices: what the core reports for an operator, as text.

use std::collections::VecDeque;

use phalanx_core::Event;

/// Notices that the program has not taken, the latest of them.
#[derive(Debug, Default)]
pub(crate) struct Notices(VecDeque<String>);

impl Notices {
    pub(crate) fn push(&mut self, text: String) {
        if self.0.len() == NOTICES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(text);
    }

    /// Takes all, oldest first.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into()
    }
}

impl From<Vec<String>> for Notices {
    fn from(texts: Vec<String>) -> Self {
        Self(texts.into())
    }
}

/// The most notices kept for the application.
const NOTICES_MAX: usize = 256;

/// What the last members would leave behind.
fn behind(groups: &[String], members: &[String]) -> String {
    let listed = |what: &str, names: &[String]| match names {
        [] => None,
        names => Some(format!("{what}: {}", names.join(", "))),
    };
    let all = [
        listed("Groups that wait for members that are cut off", groups),
        listed("Members that were left out and may live", members),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(". ")
}

/// The notice of an event, if it is one for an operator.
pub(crate) fn text(event: &Event) -> Option<String> {
    let text = match event {
        Event::NonPrimary { why, .. } => format!("not in the primary partition: {why}"),
        Event::Primary => "in the primary partition again".to_owned(),
        Event::Excluded { view } => format!("excluded: cell view {view} does not hold this process"),
        Event::Renounced { generation } => {
            format!("gave its cell instance up for one of generation {generation}")
        }
        Event::ReformRefused { why } => format!("the cell is not reformed: {why}"),
        Event::OtherInstance { instance, own, at } => format!(
            "a living process at {at} is in another instance of this cell, {instance}; this process is in {own}: end the one \
             that is wrong"
        ),
        Event::Differs { setting, cell, own } => {
            format!("kept out of the cell: {setting} is {cell} there and {own} here; set it to the cell's value")
        }
        Event::LevelRefused { level, why } => format!("the cell does not rise to level {level}: {why}"),
        Event::GroupPutOff { name, waiting, bytes, bytes_max } => format!(
            "group {name} is not made yet: {waiting} groups wait for members that are cut off, and take {bytes} bytes where \
             {bytes_max} may be. Start these members or reach them again, or give groups up"
        ),
        Event::EndWaits { groups, members, at_most } => format!(
            "the leave waits for at most {at_most:?}, because the cell may end with it. {}",
            behind(groups, members)
        ),
        Event::EndInDoubt { groups, members } => format!(
            "left in doubt, as one of the last members. {}. What only these members have is not lost while their processes run; \
             the founders' next cell waits for those groups",
            behind(groups, members)
        ),
        Event::Searching { why, .. } => format!("looking for the cell: {why}"),
        _ => return None,
    };
    Some(text)
}
