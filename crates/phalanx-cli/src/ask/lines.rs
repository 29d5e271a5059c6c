//! Reads lines of standard input on a thread of its own.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};

use phalanx::Bytes;

/// Starts the thread. Lines come with their newline, and one waits to be taken at a time.
pub(super) fn begin() -> io::Result<Receiver<io::Result<Bytes>>> {
    let (send, lines) = sync_channel(0);
    let work = move || {
        let mut stdin = io::stdin().lock();
        while let Some(line) = next(&mut stdin).transpose() {
            let is_over = line.is_err();
            if send.send(line).is_err() || is_over {
                return;
            }
        }
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(work)?;
    Ok(lines)
}

fn next(from: &mut impl BufRead) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then(|| line.into()))
}

/// A longer line is asked in pieces of this length.
const LINE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_comes_with_its_newline_and_the_last_one_as_it_is() {
        let mut from = &b"a\n\nb"[..];
        let mut lines = Vec::new();
        while let Some(line) = next(&mut from).expect("no error is made") {
            lines.push(line);
        }
        assert_eq!(lines, ["a\n", "\n", "b"]);
    }
}
