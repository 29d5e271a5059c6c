//! Calls over one TCP connection, one at a time. Each message is preceded by its length.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use phalanx_runtime::rpc::Outcome;

use super::end::{End, Heard, LOOK};
use super::role::{CallRole, Place};
use crate::choice::Waiting;
use crate::error::{BenchError, While};

pub(super) struct Tcp {
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    waiting: Waiting,
    buffer: Vec<u8>,
    filled: usize,
    calls: u64,
    answers: u64,
}

const LENGTH_BYTES: usize = 8;

impl Tcp {
    pub(super) fn start(role: &CallRole) -> Result<Self, BenchError> {
        let (listener, stream) = match role.servers.first() {
            None => (Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot listen")?), None),
            Some(server) => {
                (None, Some(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).when("cannot connect")?))
            }
        };
        let (waiting, buffer) = (role.wait, vec![0; 1 << 20]);
        let mut end = Self { listener, stream, waiting, buffer, filled: 0, calls: 0, answers: 0 };
        end.set_up()?;
        Ok(end)
    }

    fn set_up(&mut self) -> Result<(), BenchError> {
        let doing = "cannot set up a connection";
        if let Some(listener) = &self.listener {
            listener.set_nonblocking(true).when(doing)?;
        }
        if let Some(stream) = &self.stream {
            stream.set_nodelay(true).when(doing)?;
            stream.set_nonblocking(self.waiting == Waiting::Spin).when(doing)?;
            stream.set_read_timeout((self.waiting == Waiting::Block).then_some(LOOK)).when(doing)?;
        }
        Ok(())
    }

    fn write(stream: &mut TcpStream, mut parts: &mut [IoSlice<'_>]) -> Result<(), BenchError> {
        while !parts.is_empty() {
            match stream.write_vectored(parts) {
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error).when("cannot send"),
            }
        }
        Ok(())
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut)
}

impl End for Tcp {
    fn place(&self) -> Place {
        let address = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        Place::of_port(address.map_or(0, |address| address.port()))
    }

    fn poll(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        let Some(stream) = &mut self.stream else {
            match self.listener.as_ref().map(TcpListener::accept) {
                Some(Ok((stream, _))) => {
                    self.stream = Some(stream);
                    self.set_up()?;
                }
                Some(Err(error)) if !is_nothing(&error) => return Err(error).when("cannot accept"),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            return Ok(true);
        };
        if self.buffer.len() - self.filled < self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => {
                if self.listener.is_some() {
                    self.stream = None;
                }
                return Ok(false);
            }
            Ok(came) => self.filled += came,
            Err(error) if is_nothing(&error) => return Ok(false),
            Err(error) => return Err(error).when("cannot receive"),
        }
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(true) };
        let whole = LENGTH_BYTES + usize::try_from(u64::from_le_bytes(*length)).unwrap_or(0);
        if self.filled < whole {
            return Ok(true);
        }
        if self.listener.is_some() {
            Self::write(stream, &mut [IoSlice::new(&self.buffer[..whole])])?;
        } else {
            // One connection keeps the order, so the next answer belongs to the oldest call.
            self.answers += 1;
            heard.take(self.answers, Outcome::Answer(&self.buffer[LENGTH_BYTES..whole]));
        }
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(true)
    }

    /// Does nothing: the reads of the connection block.
    fn sleep(&mut self, _most: Duration) -> Result<(), BenchError> {
        Ok(())
    }

    fn call(&mut self, _server: usize, request: &[u8], _heard: &mut Heard) -> Result<Option<u64>, BenchError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let length = (request.len() as u64).to_le_bytes();
        Self::write(stream, &mut [IoSlice::new(&length), IoSlice::new(request)])?;
        self.calls += 1;
        Ok(Some(self.calls))
    }
}
