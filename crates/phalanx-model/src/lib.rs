//! The rules of the view change and of credits as models that are explored exhaustively.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::cast_possible_truncation)]

pub mod cases;
pub mod credits;
pub mod explore;
pub mod rules;
pub mod validate;
pub mod view_change;
