//! Showing packets to other processes.

pub mod ring;
