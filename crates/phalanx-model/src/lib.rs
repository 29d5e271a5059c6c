//! The rules of the view change, of the acknowledgement gate, of the flush, of levels, of orphans, of progress and of credits, as
//! models that are explored exhaustively, and the same rules as a judge of simulated runs. `docs/model.md` tells what is
//! modelled and how to run it.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::cast_possible_truncation)]

pub mod cases;
pub mod credits;
pub mod explore;
pub mod founding;
pub mod leaving;
pub mod levels;
pub mod orphans;
pub mod progress;
pub mod rules;
pub mod validate;
pub mod verdict;
pub mod view_change;
