//! Requests and answers as values, encoded with postcard.

use std::net::SocketAddr;

use phalanx_core::rpc::{CallOptions, Failure, HandlerResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::caller::Caller;
use super::client::Client;

/// Why a typed call gave no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The call failed; see [`Failure`] for what is known.
    #[error(transparent)]
    Call(#[from] Failure),
    /// The request cannot be encoded. Nothing was sent.
    #[error("the request cannot be encoded: {0}")]
    Request(postcard::Error),
    /// The call ran, and its answer is not of the expected type.
    #[error("the answer is of another type: {0}")]
    Answer(postcard::Error),
    /// The call ran, and its handler's value cannot be encoded.
    #[error("the call ran, and its answer cannot be encoded")]
    Unencodable,
}

/// First byte of a typed answer: a value follows.
const VALUE: u8 = 0;
/// First byte of a typed answer: the handler's value could not be encoded.
const NO_VALUE: u8 = 1;

impl Client {
    /// Calls with a value and returns one.
    ///
    /// # Errors
    /// See [`TypedError`].
    pub fn call_typed<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        server: SocketAddr,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, TypedError> {
        let request = postcard::to_allocvec(request).map_err(TypedError::Request)?;
        read(&self.call(server, &request, options)?)
    }
}

impl Caller {
    /// Calls with a value and returns one. The call is made when the future is first polled.
    ///
    /// # Errors
    /// See [`TypedError`].
    pub async fn call_typed<Q: Serialize, A: DeserializeOwned>(
        &self,
        server: SocketAddr,
        request: &Q,
        options: &CallOptions,
    ) -> Result<A, TypedError> {
        let request = postcard::to_allocvec(request).map_err(TypedError::Request)?;
        read(&self.call(server, &request, options).await?)
    }
}

fn read<A: DeserializeOwned>(answer: &[u8]) -> Result<A, TypedError> {
    match answer.split_first() {
        Some((&VALUE, value)) => postcard::from_bytes(value).map_err(TypedError::Answer),
        Some((&NO_VALUE, [])) => Err(TypedError::Unencodable),
        _ => Err(TypedError::Answer(postcard::Error::DeserializeUnexpectedEnd)),
    }
}

/// Runs a handler of values, for [`super::Service::request`]. A request of another type is refused and does not run.
pub fn answer_typed<Q: DeserializeOwned, A: Serialize>(
    request: &[u8],
    answer: &mut Vec<u8>,
    handler: impl FnOnce(Q) -> A,
) -> HandlerResult {
    let Ok(request) = postcard::from_bytes(request) else { return HandlerResult::Refused };
    let value = handler(request);
    let mut begun = std::mem::take(answer);
    begun.push(VALUE);
    *answer = postcard::to_extend(&value, begun).unwrap_or_else(|_| vec![NO_VALUE]);
    HandlerResult::Answered
}
