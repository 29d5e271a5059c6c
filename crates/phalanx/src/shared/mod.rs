//! What the handles of a process and its protocol thread share. It knows neither.

pub(crate) mod asks;
pub(crate) mod cell;
pub(crate) mod commands;
pub(crate) mod group;
pub(crate) mod noted;
pub(crate) mod protocol_thread;
pub(crate) mod queue;
pub(crate) mod submits;
pub(crate) mod watches;
