//! The rules of the view change, the acknowledgement gate, the flush, levels, founding, leaving, ends, orphans, progress,
//! credits and waits, as models that are explored exhaustively. The same rules check simulated runs. `docs/model.md` says what is
//! modelled and how to run it.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::cast_possible_truncation)]

pub mod cases;
pub mod credits;
pub mod ending;
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
pub mod waits;
