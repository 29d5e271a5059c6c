//! In which order an application that reads by itself is shown what it was told.
//!
//! Its threads look at any time, between any two steps. The state and the view of every membership come before the items
//! of any, since groups may share an inbox: who takes an item finds both at least as new as it. How the membership stands
//! follows its items: who learns that it began or ended finds them, as far as the inbox has room. Outcomes come last: who
//! learns that a message is stable finds it in the state.

use crate::front::{Front, Key};
use crate::lives::Lives;
use phalanx_core::GroupId;

/// What a front keeps for a membership whose application reads by itself. Each method shows what changed of one part
/// since the last call.
pub trait Shown {
    /// Messages that were handed over are applied.
    fn show_state(&mut self);

    /// The view in force.
    fn show_view(&mut self);

    /// Items, as far as the inbox has room. True: some are left.
    fn show_items(&mut self) -> bool;

    /// How the membership stands. `is_left`: some of its items are not shown.
    fn show_standing(&mut self, is_left: bool);

    /// Whether it is among those that changed.
    fn is_touched(&mut self) -> &mut bool;
}

/// A front whose application reads by itself.
pub trait Publishes: Front<Group: Shown> {
    /// What is to be shown.
    fn publication(&mut self) -> &mut Publication<Self::Group>;
}

/// Memberships with something to show.
#[derive(Debug)]
pub struct Publication<G> {
    /// Memberships that go on.
    touched: Vec<Key>,
    /// Those that are over, and are not shown as a whole.
    over: Vec<G>,
}

impl<G> Default for Publication<G> {
    fn default() -> Self {
        Self { touched: Vec::new(), over: Vec::new() }
    }
}

impl<G: Shown> Publication<G> {
    /// Something of a membership changed.
    #[inline]
    pub fn touch(&mut self, key: Key, own: &mut G) {
        if !std::mem::replace(own.is_touched(), true) {
            self.touched.push(key);
        }
    }

    /// A membership is over.
    pub fn ended(&mut self, own: G) {
        self.over.push(own);
    }

    /// The memberships that are over and not shown as a whole.
    pub fn over(&mut self) -> impl Iterator<Item = &mut G> {
        self.over.iter_mut()
    }

    /// Whether some membership is over and not shown as a whole.
    #[must_use]
    pub fn has_over(&self) -> bool {
        !self.over.is_empty()
    }

    /// Shows what is left of memberships that are over, and forgets those that were shown as a whole.
    fn show_over(&mut self) {
        self.over.retain_mut(|own| {
            let is_left = own.show_items();
            own.show_standing(is_left);
            is_left
        });
    }

    /// All memberships are over, and nobody makes room any more: what has no place is never shown.
    pub fn end(&mut self) {
        for own in &mut self.over {
            own.show_state();
            own.show_view();
        }
        for own in &mut self.over {
            own.show_items();
            own.show_standing(false);
        }
        self.over.clear();
    }
}

impl<G: Shown, R> Lives<G, R> {
    /// Shows what changed, and tells outcomes as [`Lives::tell`] does.
    pub fn publish<F: Publishes<Group = G, Receipt = R>>(
        &mut self,
        is_adequate: impl Fn(GroupId) -> Option<bool>,
        front: &mut F,
    ) {
        let mut touched = std::mem::take(&mut front.publication().touched);
        let prepare = |own: &mut G| {
            own.show_state();
            own.show_view();
        };
        touched.iter().for_each(|key| self.own(*key).into_iter().for_each(prepare));
        front.publication().over.iter_mut().for_each(prepare);
        touched.retain(|key| {
            self.own(*key).is_some_and(|own| {
                let is_left = own.show_items();
                own.show_standing(is_left);
                *own.is_touched() = is_left;
                is_left
            })
        });
        front.publication().touched = touched;
        if self.has_news() {
            self.tell(is_adequate, front);
        }
        front.publication().show_over();
    }
}
