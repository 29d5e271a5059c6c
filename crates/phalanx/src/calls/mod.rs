//! Typed calls: clients, servers, and the directory in which clients find servers.

pub(crate) mod client;
pub(crate) mod directory;
pub(crate) mod server;
mod serving;

use std::time::{Duration, Instant};

use phalanx_runtime::config::Config;
use phalanx_runtime::rpc::{Failure, PortOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{CallError, DecodeError, Reason};

/// The value of a request.
fn encode_request(value: &impl Serialize) -> Result<Vec<u8>, CallError> {
    postcard::to_allocvec(value).map_err(|_unencodable| CallError::Unencodable)
}

/// The moment after this time. One beyond the clock's range never comes.
fn deadline_after(left: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now + LONGEST)
}

const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// First byte of an answer: a value follows.
const VALUE: u8 = 0;
/// First byte of an answer: the handler's value cannot be encoded, or is too long.
const UNENCODABLE: u8 = 1;
/// First byte of an answer: the handler ended without one.
const ABANDONED: u8 = 2;

fn encode_answer(value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, vec![VALUE]).unwrap_or_else(|_unencodable| vec![UNENCODABLE])
}

fn decode_answer<A: DeserializeOwned>(answer: &[u8]) -> Result<A, CallError> {
    match answer.split_first() {
        Some((&VALUE, value)) => {
            postcard::from_bytes(value).map_err(|error| CallError::Answer(DecodeError::of_type(error)))
        }
        Some((&UNENCODABLE, [])) => Err(CallError::UnencodableAnswer),
        Some((&ABANDONED, [])) => Err(CallError::Abandoned),
        _ => Err(CallError::Answer(DecodeError::of_type(postcard::Error::DeserializeUnexpectedEnd))),
    }
}

/// How an endpoint of calls starts, beside the process whose configuration this is.
fn port_options(config: &Config, port: u16, serves: bool) -> PortOptions {
    // The configured ports are the process's own.
    let config = Config { data_port: port, control_port: 0, ..config.clone() };
    PortOptions { config, serves, ..PortOptions::default() }
}

impl CallError {
    /// `left`: with which view the callee left, if it did.
    fn of(failure: Failure, left: impl FnOnce() -> u64) -> Self {
        match failure {
            Failure::NotExecuted(reason) => Self::NotExecuted(Reason::of(reason, left)),
            Failure::Unknown(reason) => Self::Unknown(Reason::of(reason, left)),
        }
    }
}

impl Reason {
    fn of(reason: phalanx_runtime::rpc::Reason, left: impl FnOnce() -> u64) -> Self {
        use phalanx_runtime::rpc::{Reason as R, Refusal};
        match reason {
            R::Deadline => Self::Deadline,
            R::NoAnswer => Self::Silent,
            R::Unreachable => Self::Nobody,
            R::Cancelled => Self::Over,
            R::Refused(Refusal::Busy) => Self::Busy,
            R::Refused(Refusal::TooLong) | R::RequestTooLong => Self::TooLong,
            R::Refused(Refusal::NumbersUsedUp) => Self::ServerUsedUp,
            R::Refused(_) => Self::Refused,
            R::SessionLost => Self::Restarted,
            R::QueueFull => Self::QueueFull,
            R::NumbersUsedUp => Self::UsedUp,
            R::AnswerTooLong => Self::AnswerTooLong,
            R::Forked => Self::Forked,
            R::Left => Self::Left { view: left() },
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_life::{split_request, with_deadline};

    use super::*;

    #[test]
    fn requests_and_answers_survive_the_wire() {
        let value = encode_request(&("ACME", 7_u32)).expect("encodes");
        let request = with_deadline(Duration::from_millis(250), &value);
        let (left, read) = split_request(&request).expect("whole");
        assert_eq!((left, read), (Duration::from_millis(250), &value[..]));
        assert_eq!(decode_answer::<u64>(&encode_answer(&12_u64)), Ok(12));
        assert_eq!(decode_answer::<u64>(&[ABANDONED]), Err(CallError::Abandoned));
        assert_eq!(decode_answer::<u64>(&[UNENCODABLE]), Err(CallError::UnencodableAnswer));
        for nonsense in [&[][..], &[VALUE], &[3], &[ABANDONED, 0]] {
            assert!(matches!(decode_answer::<u64>(nonsense), Err(CallError::Answer(_))), "{nonsense:?}");
        }
    }
}
