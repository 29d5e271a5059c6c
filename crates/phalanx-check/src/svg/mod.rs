//! A space-time diagram. Processes are lifelines from left to right and time runs down. Messages are arrows, views are
//! bars across the processes that install them, and the proofs of a violation are marked and captioned.
//!
//! It needs only traces and findings, so it draws simulated and real runs alike. The picture is one SVG file without
//! scripts or external resources; equal input gives equal bytes.

mod axis;
mod diagram;
mod draw;
mod legend;
mod messages;
mod scene;
mod select;
mod style;
mod text;

pub use diagram::{Diagram, Finding, Mark};

impl Diagram<'_> {
    /// Returns the picture as the text of an SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        draw::draw(&scene::Scene::collect(self))
    }
}
