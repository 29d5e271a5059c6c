//! What an operator's command asks of a living process of this host: a file beside its liveness lock, and another one with the answer.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use phalanx_core::Incarnation;

use super::LocalCell;
use super::error::LocalError;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// See [`phalanx_core::Process::reform`].
    Reform,
    /// See [`phalanx_core::Process::found_anew`].
    FoundAnew,
}

impl Request {
    fn word(self) -> &'static str {
        match self {
            Self::Reform => "reform",
            Self::FoundAnew => "found-anew",
        }
    }
}

impl LocalCell {
    /// Asks a living process of this host. It looks for requests ten times a second, while it is turned.
    ///
    /// # Errors
    /// When the file cannot be written; nothing was asked.
    pub fn request(&self, of: Incarnation, request: Request) -> Result<(), LocalError> {
        let answer = answer_path(self.scope(), of);
        match fs::remove_file(&answer) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(LocalError::io("remove", &answer)(error)),
            _ => {}
        }
        write(&request_path(self.scope(), of), request.word())
    }

    /// What came of it, if that is known; an error is told in words. The answer is taken.
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

    /// Takes a request back that nobody has taken. False: it was taken.
    #[must_use]
    pub fn take_back(&self, of: Incarnation) -> bool {
        fs::remove_file(request_path(self.scope(), of)).is_ok()
    }

    /// The request that waits for a process, which asks for itself.
    pub(crate) fn take_request(&self, of: Incarnation) -> Option<Request> {
        let path = request_path(self.scope(), of);
        let text = fs::read_to_string(&path).ok()?;
        fs::remove_file(&path).ok()?;
        [Request::Reform, Request::FoundAnew].into_iter().find(|request| request.word() == text)
    }

    /// Tells what came of a request.
    pub(crate) fn give_answer(&self, of: Incarnation, outcome: &Result<String, String>) -> Result<(), LocalError> {
        let text = match outcome {
            Ok(what) => format!("done {what}"),
            Err(why) => format!("refused {why}"),
        };
        write(&answer_path(self.scope(), of), &text)
    }
}

/// Whole, or not at all.
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
