//! What is told of an ask: its answers, and its end.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use phalanx::{Answer, AskEnd, AskError, CellView, MemberId, Reply, SendError, View};
use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;
use crate::notice::say;

/// Prints answers on standard output, as lines of text or of JSON, and everything else on standard error.
pub(super) struct Teller {
    group: String,
    json: bool,
    /// Names of members that were in a view since the ask began.
    names: BTreeMap<MemberId, String>,
    /// Those of the view in force.
    now: Vec<MemberId>,
    /// Which ask it is, from 1 on.
    number: u64,
    since: Instant,
    count: Count,
    /// Nobody reads standard output any more.
    is_closed: bool,
}

/// What came for how many places.
#[derive(Clone, Copy, Default)]
struct Count {
    values: u64,
    null: u64,
    left: u64,
}

/// One answer as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    ask: u64,
    view: u64,
    rank: usize,
    member: &'a str,
    by: &'a str,
    reply: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// For bytes that are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Teller {
    pub(super) fn new(group: &str, json: bool) -> Self {
        let (names, now, count, is_closed) = (BTreeMap::new(), Vec::new(), Count::default(), false);
        Self { group: group.to_owned(), json, names, now, number: 0, since: Instant::now(), count, is_closed }
    }

    /// A view was installed.
    pub(super) fn learn(&mut self, view: &CellView) {
        self.names.extend(view.members().map(|member| (member.id, member.name)));
        self.now = view.members().map(|member| member.id).collect();
    }

    /// The next ask begins.
    pub(super) fn begin(&mut self) {
        self.names.retain(|id, _| self.now.contains(id));
        self.number += 1;
        (self.since, self.count) = (Instant::now(), Count::default());
    }

    fn name(&self, who: MemberId) -> String {
        self.names.get(&who).cloned().unwrap_or_else(|| who.to_string())
    }

    /// Whether nobody reads standard output any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Prints an answer.
    pub(super) fn answer(&mut self, answer: &Answer, view: Option<&View>) {
        match answer.reply {
            Reply::Value(_) => self.count.values += 1,
            Reply::Null => self.count.null += 1,
            Reply::Left => self.count.left += 1,
            _ => {}
        }
        if self.json {
            self.is_closed |= !write(&self.as_json(answer));
            return;
        }
        let (name, by) = (self.name(answer.member), self.name(answer.by));
        let whose = if answer.member == answer.by { name.clone() } else { format!("{by}, to which {name} gave it,") };
        match &answer.reply {
            Reply::Value(value) => self.is_closed |= !write(&as_text(&name, value)),
            Reply::Null => say(format_args!("{whose} has no answer")),
            Reply::Left => {
                let why = view.and_then(|view| view.left().find(|(who, _)| *who == answer.by));
                let why = why.map(|(_, why)| format!(": {why}")).unwrap_or_default();
                say(format_args!("{whose} is gone without an answer{why}"));
            }
            // The end says who aborted it, and why.
            _ => {}
        }
    }

    fn as_json(&self, answer: &Answer) -> Vec<u8> {
        let (reply, bytes) = match &answer.reply {
            Reply::Value(value) => ("value", Some(value)),
            Reply::Abort(reason) => ("abort", Some(reason)),
            Reply::Left => ("left", None),
            _ => ("null", None),
        };
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let hex = bytes.filter(|_| text.is_none());
        let hex = hex.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        let (member, by) = (&self.name(answer.member), &self.name(answer.by));
        let line = Line { ask: self.number, view: answer.view, rank: answer.rank, member, by, reply, text, hex };
        let mut out = serde_json::to_vec(&line).expect("strings and numbers always make JSON");
        out.push(b'\n');
        out
    }

    /// Says how the ask ended.
    pub(super) fn end(&self, end: &Result<AskEnd, AskError>, view: Option<&View>) -> Exit {
        let (word, text, exit) = match end {
            Ok(AskEnd::Met) => ("met", "met".to_owned(), Exit::Good),
            Ok(AskEnd::Complete) => {
                ("complete", "complete: fewer answers came than it wants, and no more can".to_owned(), Exit::TooFew)
            }
            Ok(AskEnd::Aborted { by, reason }) => {
                let (by, reason) = (self.name(*by), String::from_utf8_lossy(reason));
                ("aborted", format!("aborted by {by}: {}", reason.trim_end()), Exit::Aborted)
            }
            Ok(AskEnd::Deadline) => {
                ("deadline", "over: its deadline passed, and members may handle it yet".to_owned(), Exit::TimedOut)
            }
            Ok(AskEnd::Cancelled) => return self.given_up(view),
            Ok(other) => ("failed", format!("over: {other:?}"), Exit::Failure),
            Err(AskError::Refused(why)) => {
                let exit = if *why == SendError::Late { Exit::TimedOut } else { Exit::Failure };
                ("refused", why.to_string(), exit)
            }
            Err(unknown) => ("unknown", unknown.to_string(), Exit::InDoubt),
        };
        self.tell(word, &text, view);
        exit
    }

    /// Says that the ask was given up by its user.
    pub(super) fn given_up(&self, view: Option<&View>) -> Exit {
        self.tell("cancelled", "given up, and members may handle it yet", view);
        Exit::Interrupted
    }

    fn tell(&self, word: &str, text: &str, view: Option<&View>) {
        let (after, Count { values, null, left }) = (self.since.elapsed(), self.count);
        let number = view.map(View::number);
        if self.json {
            let line = json!({
                "event": "ask_ended", "ask": self.number, "end": word, "after_s": after.as_secs_f64(), "view": number,
                "values": values, "null": self.count.null, "left": left
            });
            // A closed standard error is no reason to stop.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
            return;
        }
        let view = number.map_or_else(|| "no view".to_owned(), |number| format!("view {number}"));
        say(format_args!(
            "after {:.3} s, in {view} of group {}, the ask is {text} (values {values}, no answer {null}, left {left})",
            after.as_secs_f64(),
            self.group
        ));
    }
}

/// Each line of a value behind the name of its member.
fn as_text(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + name.len() + 3);
    let lines = value.strip_suffix(b"\n").unwrap_or(value).split(|byte| *byte == b'\n');
    lines.for_each(|line| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(line);
        out.push(b'\n');
    });
    out
}

fn write(bytes: &[u8]) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_value_names_its_member() {
        assert_eq!(as_text("m1", b"42\n"), b"m1: 42\n");
        assert_eq!(as_text("m1", b"a\nb"), b"m1: a\nm1: b\n");
        assert_eq!(as_text("m1", b""), b"m1: \n");
    }
}
