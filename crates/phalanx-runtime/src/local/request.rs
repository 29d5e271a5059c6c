//! An operator's requests to a living process of this host: a file beside its liveness lock, and a second one with the
//! answer.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use phalanx_core::Incarnation;

use super::LocalCell;
use super::error::LocalError;

/// The possible requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// See [`phalanx_core::Process::reform`].
    Reform,
    /// The same, with [`phalanx_core::ReformWhen::AllProvedDead`].
    ReformIfAllProvedDead,
    /// See [`phalanx_core::Process::found_anew`].
    FoundAnew,
}

impl Request {
    fn word(self) -> &'static str {
        match self {
            Self::Reform => "reform",
            Self::ReformIfAllProvedDead => "reform-if-all-proved-dead",
            Self::FoundAnew => "found-anew",
        }
    }
}

impl LocalCell {
    /// Requests something of a living process of this host, which checks for requests ten times a second while its
    /// event loop runs.
    ///
    /// # Errors
    /// When the file cannot be written; then nothing was requested.
    pub fn request(&self, of: Incarnation, request: Request) -> Result<(), LocalError> {
        let answer = answer_path(self.scope(), of);
        match fs::remove_file(&answer) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(LocalError::io("remove", &answer)(error)),
            _ => {}
        }
        write(&request_path(self.scope(), of), request.word())
    }

    /// Takes the answer, if there is one; an error is in words.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn answer(&self, of: Incarnation) -> Result<Option<Result<String, String>>, LocalError> {
        let path = answer_path(self.scope(), of);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LocalError::io("read", &path)(error)),
        };
        let _ = fs::remove_file(&path);
        Ok(match text.split_once(' ') {
            Some(("done", what)) => Some(Ok(what.to_owned())),
            Some((_, why)) => Some(Err(why.to_owned())),
            None => Some(Err(text)),
        })
    }

    /// Withdraws a request. False: the process has taken it.
    #[must_use]
    pub fn take_back(&self, of: Incarnation) -> bool {
        fs::remove_file(request_path(self.scope(), of)).is_ok()
    }

    /// Takes the request that waits for this process.
    pub(crate) fn take_request(&self, of: Incarnation) -> Option<Request> {
        let path = request_path(self.scope(), of);
        let text = fs::read_to_string(&path).ok()?;
        fs::remove_file(&path).ok()?;
        let all = [Request::Reform, Request::ReformIfAllProvedDead, Request::FoundAnew];
        all.into_iter().find(|request| request.word() == text)
    }

    /// Answers a request.
    pub(crate) fn give_answer(&self, of: Incarnation, outcome: &Result<String, String>) -> Result<(), LocalError> {
        let text = match outcome {
            Ok(what) => format!("done {what}"),
            Err(why) => format!("refused {why}"),
        };
        write(&answer_path(self.scope(), of), &text)
    }
}

/// Writes a file, complete or not at all.
fn write(path: &Path, text: &str) -> Result<(), LocalError> {
    let draft = path.with_extension("asked");
    fs::write(&draft, text).map_err(LocalError::io("write", &draft))?;
    fs::rename(&draft, path).map_err(LocalError::io("rename", &draft))
}

fn request_path(scope: &Path, of: Incarnation) -> PathBuf {
    scope.join(format!("{of}.request"))
}

fn answer_path(scope: &Path, of: Incarnation) -> PathBuf {
    scope.join(format!("{of}.answer"))
}
