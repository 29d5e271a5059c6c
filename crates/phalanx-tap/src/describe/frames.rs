//! The frames of a packet in short.

use phalanx_core::Order;
use phalanx_core::id::Rank;
use phalanx_core::link::{Ack, Gap};
use phalanx_core::member::PathKind;
use phalanx_core::order::{FragmentKind, MessageHead, Pairs, StreamFrame, read_head};
use phalanx_core::process::best_effort::{BestEffortFrame, Target};
use phalanx_core::wire::{Kind, Space};

use super::calls;
use super::channels;
use super::text::{bytes, listed, plain};
use crate::contents::{Content, Contents};
use crate::name_table::{KnownView, NameTable};

/// The most bytes of all texts of a packet together. More frames are counted.
const TEXT_BYTES_MAX: usize = 400;

/// The most bytes of one text.
const FRAME_BYTES_MAX: usize = 300;

/// Collects the texts of a packet's frames.
pub(super) struct FrameTexts<'n> {
    names: &'n NameTable,
    view: Option<&'n KnownView>,
    /// Whole messages that are alike, and follow each other.
    run: Option<Run>,
    texts: Vec<String>,
    text_bytes: usize,
    more: usize,
}

/// Whole messages of one order.
struct Run {
    label: String,
    count: usize,
    shortest: usize,
    longest: usize,
}

impl<'n> FrameTexts<'n> {
    pub(super) fn new(names: &'n NameTable, view: Option<&'n KnownView>) -> Self {
        Self { names, view, run: None, texts: Vec::new(), text_bytes: 0, more: 0 }
    }

    /// Takes all frames of a packet, of which `missing` bytes at the end are not here.
    pub(super) fn all(&mut self, kind: Kind, frames: &[u8], missing: usize) {
        for content in Contents::new(kind, frames) {
            match content {
                Content::Stream(frame) => self.stream(&frame),
                Content::BestEffort(frame) => self.push(self.best_effort(&frame)),
                Content::Piece(frame) => self.push(channels::frame(kind, &frame)),
                Content::Greeting(greeting) => self.push(channels::greeting(&greeting)),
                Content::Session(handshake) => self.push(calls::handshake(&handshake)),
                Content::Call(frame) => self.push(calls::frame(&frame, missing)),
                Content::Plain(frame) => self.push(calls::plain_frame(&frame, missing)),
                Content::Skipped => self.push("unknown".to_owned()),
                Content::Malformed if missing > 0 => self.push("cut off".to_owned()),
                Content::Malformed => self.push("malformed".to_owned()),
            }
        }
    }

    /// The texts, and how many frames have none.
    pub(super) fn finish(mut self) -> (Vec<String>, usize) {
        self.end_run();
        (self.texts, self.more)
    }

    fn push(&mut self, text: String) {
        self.end_run();
        self.put(text, 1);
    }

    fn put(&mut self, mut text: String, count: usize) {
        if text.len() > FRAME_BYTES_MAX {
            let end = (0..=FRAME_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or_default());
            text.push('…');
        }
        if self.more > 0 || self.text_bytes + text.len() > TEXT_BYTES_MAX {
            self.more += count;
            return;
        }
        self.text_bytes += text.len();
        self.texts.push(text);
    }

    fn end_run(&mut self) {
        let Some(Run { label, count, shortest, longest }) = self.run.take() else { return };
        let lengths = if shortest == longest { bytes(longest) } else { format!("{shortest} to {longest} B") };
        let times = if count == 1 { String::new() } else { format!("{count} x ") };
        self.put(format!("{times}{label} {lengths}"), count);
    }

    fn stream(&mut self, frame: &StreamFrame<'_>) {
        match frame {
            StreamFrame::Message { kind, fragment, deps, body } => {
                let order = match (kind.order, kind.sequenced) {
                    (Order::Fifo, _) => "fifo",
                    (Order::Causal, _) => "causal",
                    (Order::Total, false) => "total",
                    (Order::Total, true) => "total placed",
                };
                let uniform = if kind.uniformity.is_uniform() { " uniform" } else { "" };
                let begins = matches!(fragment, FragmentKind::Whole | FragmentKind::First(_));
                let head = if kind.has_head && begins { read_head(body, usize::MAX).ok() } else { None };
                let head = match head {
                    Some((MessageHead::Asks(_), _)) => " ask".to_owned(),
                    Some((MessageHead::Names(domain), _)) => format!(" to domain {}", domain.0),
                    None => String::new(),
                };
                let label = format!("{order}{uniform}{head}");
                if *fragment == FragmentKind::Whole && deps.is_empty() {
                    self.count(label, body.len());
                    return;
                }
                let part = match fragment {
                    FragmentKind::Whole => bytes(body.len()),
                    FragmentKind::First(whole) => format!("first {} of {whole}", bytes(body.len())),
                    FragmentKind::Middle => format!("next {}", bytes(body.len())),
                    FragmentKind::Last => format!("last {}", bytes(body.len())),
                };
                let after = if deps.is_empty() { String::new() } else { format!(" after {}", self.pairs(*deps)) };
                self.push(format!("{label} {part}{after}"));
            }
            StreamFrame::Announce { tenure, prompt, runs } => {
                let prompt = if *prompt { ", prompt" } else { "" };
                self.push(format!("order of tenure {tenure}: {}{prompt}", self.pairs(*runs)));
            }
            StreamFrame::Pass { tenure, to } => {
                self.push(format!("token to {} after tenure {tenure}", self.rank(*to)));
            }
            StreamFrame::Stable { prefix } => self.push(format!("stable to {prefix}")),
            StreamFrame::Past { deps } => self.push(format!("past {}", self.pairs(*deps))),
        }
    }

    fn count(&mut self, label: String, len: usize) {
        match self.run.as_mut().filter(|run| run.label == label) {
            Some(run) => {
                run.count += 1;
                (run.shortest, run.longest) = (run.shortest.min(len), run.longest.max(len));
            }
            None => {
                self.end_run();
                self.run = Some(Run { label, count: 1, shortest: len, longest: len });
            }
        }
    }

    /// Ranks and counts: by name, if the group's view is known.
    fn pairs(&self, pairs: Pairs<'_>) -> String {
        listed(pairs.iter().map(|(rank, count)| format!("{}+{count}", self.rank(rank))))
    }

    fn rank(&self, rank: Rank) -> String {
        let member = self.view.and_then(|view| view.members.get(usize::from(rank.0)));
        match member.and_then(|who| self.names.member(*who)) {
            Some(name) => plain(name).into_owned(),
            None => format!("rank {}", rank.0),
        }
    }

    fn group(&self, space: Space) -> String {
        match self.names.view(space) {
            Some(view) => format!("{}/{}", plain(&view.group), view.view.0),
            None => format!("space {}", space.0),
        }
    }

    fn best_effort(&self, frame: &BestEffortFrame) -> String {
        match frame {
            BestEffortFrame::Ack(target, ack) => self.ack(*target, ack),
            BestEffortFrame::Status { space, status } => {
                let blocked = if status.blocked { ", blocked" } else { "" };
                let (highest, stable) = (status.highest, status.stable);
                format!("status {}: sent to {highest}, stable to {stable}{blocked}", self.group(*space))
            }
            BestEffortFrame::Heartbeat { decree, hears } => {
                let heard = hears.iter().filter(|hears| **hears).count();
                format!("heartbeat: decree {}, hears {heard} of {}", decree.0, hears.len())
            }
            BestEffortFrame::WatchHeartbeat(beat) => {
                let asks = if beat.asks { ", asks" } else { "" };
                format!("heartbeat: decree {}, depth {}, digest {:016x}{asks}", beat.decree.0, beat.depth, beat.digest)
            }
            BestEffortFrame::LinkReport { decree, rank, link_report } => {
                let (suspected, version) = (&link_report.suspected, link_report.version);
                let suspects = if suspected.is_empty() { "nobody".to_owned() } else { ranks(suspected) };
                format!("links of rank {} version {version}: decree {}, suspects {suspects}", rank.0, decree.0)
            }
            BestEffortFrame::SlowReport { decree, slow_report } => {
                let excused = if slow_report.excused { ", transfers a state" } else { "" };
                format!("slow: decree {}, ranks {}{excused}", decree.0, ranks(&slow_report.slow))
            }
            BestEffortFrame::Probe(probe) => {
                let answer = if probe.answers { " answer" } else { "" };
                format!("probe{answer} of {}", path_word(probe.kind))
            }
            BestEffortFrame::Findings { decree, findings } => {
                let failed = findings.suspected.iter().map(|one| format!("{} {}", one.rank.0, path_word(one.kind)));
                let failed = if findings.suspected.is_empty() { "none".to_owned() } else { listed(failed) };
                format!("findings: decree {}, paths that failed: {failed}", decree.0)
            }
            BestEffortFrame::Excluded { view } => format!("excluded by view {}", view.0),
        }
    }

    fn ack(&self, target: Target, ack: &Ack) -> String {
        let (of, asks) = match target {
            Target::Stream { space, wants_stable } => (self.group(space), wants_stable),
            Target::Control => ("control".to_owned(), false),
            Target::Data => ("data".to_owned(), false),
            Target::ToOne => ("to-one".to_owned(), false),
        };
        let gap = |Gap { first, last }: &Gap| if first == last { first.to_string() } else { format!("{first}-{last}") };
        let lacks = match &ack.gaps[..] {
            [] => String::new(),
            gaps => format!(" lacks {}", listed(gaps.iter().map(gap))),
        };
        let asks = if asks { ", asks for status" } else { "" };
        format!("ack {of} to {}{lacks}, may send to {}{asks}", ack.prefix, ack.limit)
    }
}

fn ranks(ranks: &[Rank]) -> String {
    listed(ranks.iter().map(|rank| rank.0.to_string()))
}

fn path_word(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Data => "data",
        PathKind::LongData => "long data",
        PathKind::LongControl => "long control",
        PathKind::Silence => "silence",
    }
}
