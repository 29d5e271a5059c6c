//! Processes of this program's own making, spoken to in lines.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};

/// A child; it ends when this is dropped.
pub(crate) struct Child {
    process: process::Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this program with other arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        let mut process = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = process.stdin.take().ok_or("a child without input")?;
        let from = BufReader::new(process.stdout.take().ok_or("a child without output")?);
        Ok(Self { process, to, from })
    }

    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.to, "{line}")
    }

    /// The numbers of the next line, which must begin with `word`.
    pub(crate) fn hear(&mut self, word: &str) -> Result<Vec<f64>, Box<dyn Error>> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let mut parts = line.split_whitespace();
        if parts.next() != Some(word) {
            return Err(format!("waited for `{word}`, a child said `{}`", line.trim_end()).into());
        }
        Ok(parts.map(str::parse).collect::<Result<_, _>>()?)
    }

    /// The answer to `mark`: what it counted so far, and when (nanoseconds).
    pub(crate) fn hear_mark(&mut self) -> Result<Mark, Box<dyn Error>> {
        match self.hear("mark")?[..] {
            [count, at] => Ok(Mark { count, at }),
            _ => Err("a mark has two numbers".into()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; either way there is nothing left to do about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A count at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) count: f64,
    at: f64,
}

impl Mark {
    /// Counts in a second from `earlier` to this.
    pub(crate) fn rate_since(&self, earlier: &Self) -> f64 {
        (self.count - earlier.count) / (self.at - earlier.at).max(1.0) * 1e9
    }
}

/// A child's own side: says a line to its parent.
pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
