//! The packet being filled, and what stands in front of payloads in it.

use std::ops::Deref;

use super::frame::{naming_head, put_expected};
use crate::api::Request;

/// The packet being filled.
#[derive(Debug)]
pub(super) struct Packer {
    /// Its frames.
    pub(super) frames: Vec<u8>,
    /// Whether it holds something for whose stability a member waits.
    pub(super) is_prompt: bool,
}

/// What stands in front of the payload of each ask: who is to answer it.
#[derive(Debug)]
pub(crate) struct AskHead(Vec<u8>);

/// Bytes of the length of the list, at most.
const LIST_HEAD: usize = 3;

impl AskHead {
    pub(super) fn of_nobody() -> Self {
        Self(vec![0])
    }

    /// Names the members that asks which are packed from here on expect to answer, by rank.
    pub(crate) fn expect(&mut self, expected: impl Iterator<Item = bool>) {
        self.0.clear();
        put_expected(&mut self.0, expected);
    }

    /// What stands in front of a message's payload.
    #[inline]
    pub(crate) fn of(&self, request: Request) -> Head<'_> {
        match request.domain {
            Some(domain) => Head::Names(naming_head(domain)),
            None if request.asks => Head::Asks(&self.0),
            None => Head::Nothing,
        }
    }

    /// The most bytes that it takes in a view with this number of members.
    pub(crate) fn bytes_max(members: usize) -> usize {
        members.div_ceil(8) + LIST_HEAD
    }
}

/// What stands in front of a message's payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head<'a> {
    Nothing,
    Asks(&'a [u8]),
    Names([u8; 2]),
}

impl Deref for Head<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::Asks(expected) => expected,
            Self::Names(domain) => domain,
        }
    }
}
