//! X9, a membership's state is told in one order: in each incarnation of a membership its application is told that its own
//! copy is of no use, if that is so; then that the group goes on with its copy (*kept*), or that another member's state
//! comes (*taking*, once more with each donor) and is complete (*current*), or that nobody has the state any more and the
//! group begins with its own; then of its first view, and of later ones. What it is told is what came: a state of so many
//! bytes is told with that length, and a membership whose state was transferred is told its first view after *current*. Nothing
//! is asked of a membership after a state that made no sense.
//!
//! Instances: first views that were told; *under failure*: those after more than one of the other steps. Source: the public
//! interface; a replica that is shown as current must be.

use std::collections::BTreeMap;

use phalanx_trace::MembershipStep;

use super::Run;
use crate::findings::Findings;
use crate::model::{Epoch, Model, Moment, Proc};

/// What a membership was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Out,
    Forgotten,
    Kept,
    /// With the length in bytes of the state that comes.
    Taking(u64),
    Current(u64),
    OwnState,
    In,
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (p, proc) in model.procs.iter().enumerate() {
        let mut places: BTreeMap<&str, (Place, u32)> = BTreeMap::new();
        let mut ended = proc.told.ended.iter().peekable();
        for (name, what, moment) in &proc.told.steps {
            while let Some((over, ..)) = ended.next_if(|(_, _, end)| end.place.index < moment.place.index) {
                places.remove(over.as_str());
            }
            let (place, steps) = places.entry(name).or_default();
            let before = std::mem::replace(place, after(*place, *what));
            *steps += 1;
            if !may_follow(before, *what) {
                out.violation(&[moment.place], || {
                    format!("{} told {what:?} of group {name:?} after {before:?}", model.who(p))
                });
            }
            if *place != Place::In || before == Place::In {
                continue;
            }
            out.instance_when(*steps > 2);
            let Some(epoch) = first_view(model, proc, name, *moment) else {
                out.violation(&[moment.place], || {
                    format!("{} told {what:?} of group {name:?}, which it did not install", model.who(p))
                });
                continue;
            };
            let came = epoch.transfer.as_ref().and_then(|transfer| transfer.snapshot);
            let is_so = match (before, came) {
                (Place::Current(told), Some((bytes, _))) => told == bytes,
                // A group that is founded anew has a state of no bytes.
                (_, Some((bytes, _))) => bytes == 0,
                (Place::Current(_), None) => false,
                (_, None) => true,
            };
            if !is_so {
                out.violation(&[moment.place, epoch.install.place], || {
                    format!("{} told {what:?} of group {name:?} after {before:?}, and {came:?} came", model.who(p))
                });
            }
        }
    }
}

fn after(before: Place, what: MembershipStep) -> Place {
    match (what, before) {
        (MembershipStep::Forgotten, _) => Place::Forgotten,
        (MembershipStep::Kept, _) => Place::Kept,
        (MembershipStep::Taking(bytes), _) => Place::Taking(bytes),
        (MembershipStep::Current, Place::Taking(bytes)) => Place::Current(bytes),
        (MembershipStep::Current, _) => Place::Current(0),
        (MembershipStep::OwnState, _) => Place::OwnState,
        (MembershipStep::View(_), _) => Place::In,
        (MembershipStep::Anew, _) => Place::Out,
    }
}

fn may_follow(before: Place, what: MembershipStep) -> bool {
    let is_begin = matches!(before, Place::Out | Place::Forgotten);
    match what {
        MembershipStep::Forgotten | MembershipStep::Kept => before == Place::Out,
        MembershipStep::Taking(_) | MembershipStep::OwnState => is_begin || matches!(before, Place::Taking(_)),
        MembershipStep::Current => matches!(before, Place::Taking(_)),
        MembershipStep::View(_) => !matches!(before, Place::Taking(_)),
        MembershipStep::Anew => true,
    }
}

/// The stay in a group of that name that was installed last before that moment.
fn first_view<'a>(model: &'a Model, proc: &Proc, name: &str, told: Moment) -> Option<&'a Epoch> {
    let stays = proc.epochs.iter().map(|&e| &model.epochs[e]);
    stays
        .filter(|epoch| model.groups[model.views[epoch.view].group].name == name)
        .rfind(|epoch| epoch.install.place.index < told.place.index)
}
