//! An ask and its answers cost few allocations on `phalanx::Inline`, at the asker and at a member that answers.

use std::time::{Duration, Instant};

use phalanx::{
    AnswerRef, App, AskEnd, AskError, AskOptions, AskedRef, Cell, Inline, InlineGroup, InlineReply, MessageRef,
    ReplyRef, SendError, View,
};
use phalanx_bench::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Counts {
    members: usize,
    answers: u64,
    ended: u64,
}

impl App for Counts {
    fn message(&mut self, _: &MessageRef<'_>) {}

    fn asked(&mut self, asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        value.extend_from_slice(asked.message.payload);
        Some(InlineReply::Value)
    }

    fn answered(&mut self, _: InlineGroup, _: u64, answer: &AnswerRef<'_>) -> bool {
        assert!(matches!(answer.reply, ReplyRef::Value(_)));
        self.answers += 1;
        false
    }

    fn ask_ended(&mut self, _: InlineGroup, _: u64, end: Result<AskEnd, AskError>) {
        assert_eq!(end, Ok(AskEnd::Met));
        self.ended += 1;
    }

    fn view(&mut self, _: InlineGroup, view: &View) {
        self.members = view.len();
    }
}

struct Members {
    all: Vec<(Inline, InlineGroup, Counts)>,
    /// Allocations of each member's calls.
    taken: Vec<u64>,
}

impl Members {
    fn start(directory: &std::path::Path, names: &[&str]) -> Self {
        let member = |name: &&str| {
            let builder = Cell::builder("allocations").name(*name).directories(directory, directory.join("state"));
            let mut counts = Counts::default();
            let mut member = builder.set("timing.turn_gap_max", "1s").inline().expect("it starts");
            let group = member.group("g").join(&mut counts).expect("it joins");
            (member, group, counts)
        };
        let all: Vec<_> = names.iter().map(member).collect();
        let mut members = Self { taken: vec![0; all.len()], all };
        let begin = Instant::now();
        while members.all.iter().any(|(.., counts)| counts.members < names.len()) {
            assert!(begin.elapsed() < Duration::from_secs(60), "all are in the group in time");
            members.poll();
        }
        members
    }

    fn poll(&mut self) {
        for (at, (member, _, counts)) in self.all.iter_mut().enumerate() {
            let before = allocations();
            member.poll(counts);
            self.taken[at] += allocations() - before;
        }
    }

    /// The first member asks the others `asks` times, at most `burst` at a time, until all have ended.
    fn ask(&mut self, asks: u64, burst: u64) {
        let options = AskOptions { with_self: false, ..AskOptions::default() };
        let begun = self.all[0].2.ended;
        let mut asked = 0;
        while self.all[0].2.ended < begun + asks {
            let before = allocations();
            let (member, group, counts) = &mut self.all[0];
            while asked < asks && asked - (counts.ended - begun) < burst {
                match member.ask(*group, &options, &[7; 20], counts) {
                    Ok(_) => asked += 1,
                    Err(SendError::Full) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.taken[0] += allocations() - before;
            self.poll();
        }
    }
}

/// Allocations for each ask, at each member. Asks are of 20 B, and so are answers.
fn measured(names: &[&str], burst: u64) -> Vec<f64> {
    const ASKS: u64 = 20_000;
    let directory = private_directory();
    let mut members = Members::start(directory.path(), names);
    members.ask(ASKS, burst);
    members.taken.fill(0);
    let answers = members.all[0].2.answers;
    members.ask(ASKS, burst);
    assert_eq!(members.all[0].2.answers - answers, (names.len() as u64 - 1) * ASKS);
    let each: Vec<f64> = members.taken.iter().map(|taken| *taken as f64 / ASKS as f64).collect();
    assert!(each.iter().all(|each| *each > 0.0), "what there is is counted: packets cost some");
    each
}

/// An ask costs its asker four: the ask, what is asked, its places, and the names of those that are to answer. Answers cost none.
#[test]
fn an_answer_that_shares_its_packet_costs_no_allocation() {
    for names in [&["ann", "bob"][..], &["ann", "bob", "cis"]] {
        let each = measured(names, 64);
        assert!(each[0] < 4.2, "{each:?}");
        assert!(each[1..].iter().all(|each| *each < 0.1), "{each:?}");
    }
}

/// Packets that carry one message cost some.
#[test]
fn an_ask_that_is_alone_costs_no_more_than_its_packets() {
    let each = measured(&["ann", "bob", "cis"], 1);
    assert!(each[0] < 9.0, "{each:?}");
    assert!(each[1..].iter().all(|each| *each < 3.0), "{each:?}");
}

/// A directory that is closed to other users, as members demand.
fn private_directory() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().expect("a directory")
}
