//! Output format of delivered texts.

use serde::Serialize;

use super::text::Text;

/// Formats texts as bytes or as JSON lines.
#[derive(Debug)]
pub(super) struct Layout {
    json: bool,
    group: String,
    /// Sender of the last printed text, if that had no newline at its end.
    open: Option<String>,
}

/// One line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    group: &'a str,
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// For lines that are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// False: the line had no newline at its end.
    newline: bool,
    /// It came to this member alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
}

impl Layout {
    pub(super) fn new(group: &str, json: bool) -> Self {
        Self { json, group: group.to_owned(), open: None }
    }

    /// Appends the output for `text`.
    ///
    /// Bytes are printed as they came, with one exception. If another line follows a text without a newline at its end,
    /// a newline separates them. It is in the same place at every member.
    pub(super) fn put(&mut self, text: Text<'_>, out: &mut Vec<u8>) {
        let from = text.from;
        if self.json {
            for line in text.lines() {
                self.put_json(from, line, false, out);
            }
            return;
        }
        if self.open.as_ref().is_some_and(|open| !(text.continues && open == from)) {
            out.push(b'\n');
        }
        out.extend_from_slice(text.bytes);
        self.open = (!text.bytes.ends_with(b"\n")).then(|| from.to_owned());
    }

    /// Appends the output for a text that came to this member alone: each line with its sender, which others do not see.
    pub(super) fn put_to_one(&mut self, text: Text<'_>, out: &mut Vec<u8>) {
        for line in text.lines() {
            if self.json {
                self.put_json(text.from, line, true, out);
                continue;
            }
            if self.open.take().is_some() {
                out.push(b'\n');
            }
            out.extend_from_slice(format!("[{} to you alone] ", text.from).as_bytes());
            out.extend_from_slice(line);
            self.open = (!line.ends_with(b"\n")).then(|| text.from.to_owned());
        }
    }

    fn put_json(&self, from: &str, line: &[u8], alone: bool, out: &mut Vec<u8>) {
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let text = std::str::from_utf8(bytes).ok();
        let hex = text.is_none().then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        let line = Line { group: &self.group, from, text, hex, newline: bytes.len() != line.len(), alone };
        serde_json::to_writer(&mut *out, &line).expect("strings and booleans always make JSON");
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(json: bool, texts: &[(&str, bool, &[u8])]) -> Vec<u8> {
        let mut layout = Layout::new("g", json);
        let mut out = Vec::new();
        for &(from, continues, bytes) in texts {
            layout.put(Text { from, start: 1, number: 1, continues, ends: false, bytes }, &mut out);
        }
        out
    }

    #[test]
    fn bytes_go_out_as_they_came() {
        assert_eq!(laid_out(false, &[("a", false, b"1\n\xff\n"), ("b", false, b"2")]), b"1\n\xff\n2");
    }

    #[test]
    fn lines_of_two_senders_never_run_together() {
        assert_eq!(laid_out(false, &[("a", false, b"1"), ("b", false, b"2\n")]), b"1\n2\n");
        assert_eq!(laid_out(false, &[("a", false, b"1"), ("a", true, b"2\n")]), b"12\n");
        assert_eq!(laid_out(false, &[("a", false, b"1"), ("b", false, b"x\n"), ("a", true, b"2\n")]), b"1\nx\n2\n");
        assert_eq!(laid_out(false, &[("a", false, b"1"), ("a", false, b"2\n")]), b"1\n2\n");
    }

    #[test]
    fn each_line_to_this_member_alone_has_a_mark() {
        let text = |from, bytes| Text { from, start: 1, number: 1, continues: false, ends: false, bytes };
        let mut layout = Layout::new("g", false);
        let mut out = Vec::new();
        layout.put(text("a", b"1"), &mut out);
        layout.put_to_one(text("b", b"2\n3"), &mut out);
        layout.put(text("a", b"4\n"), &mut out);
        assert_eq!(text_of(&out), "1\n[b to you alone] 2\n[b to you alone] 3\n4\n");
        out.clear();
        Layout::new("g", true).put_to_one(text("b", b"2\n"), &mut out);
        let line: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let wanted = serde_json::json!({"group": "g", "from": "b", "text": "2", "newline": true, "alone": true});
        assert_eq!(line, wanted);
    }

    fn text_of(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn json_has_one_object_a_line() {
        let out = laid_out(true, &[("a", false, b"one\ntwo"), ("b", false, b"\xff\n")]);
        let lines: Vec<serde_json::Value> = out
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["text"], "one");
        assert_eq!(lines[1]["newline"], false);
        assert_eq!(lines[2]["hex"], "ff");
        assert_eq!(lines[2]["from"], "b");
    }
}
