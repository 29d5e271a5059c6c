//! What a torture member asks its groups, and how it answers what others ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use phalanx::{
    AnswerRef, AskOptions, AskedRef, Guarantee, InlineAsk, InlineGroup, InlineReply, MemberId, Order, ReplyRef, Want,
};
use phalanx_runtime::core::rng::Rng;

use super::payload::word;

/// The longest that a member puts an answer off.
const LATE_MS_MAX: u64 = 600;
/// The shortest deadline of an ask that has one, and how much longer the longest is.
const DEADLINE_MS: u64 = 50;
const DEADLINE_MS_MORE: u64 = 2_000;
/// One answer with a value in this many is long, and this is its length.
const LONG_ONE_IN: u64 = 25;
const LONG_BYTES: usize = 9_000;
/// As many values end an ask that leaves it to its asker.
const ENOUGH: usize = 2;
/// One answer in this many ends the ask.
const ABORT_ONE_IN: u64 = 40;

/// Asks of this incarnation, and those of others that it answers later.
#[derive(Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<(InlineGroup, u64), Open>,
    owed: Vec<Owed>,
}

/// An ask that has not ended.
#[derive(Debug, Default)]
struct Open {
    /// The number in its head.
    message: u64,
    places: BTreeSet<usize>,
    values: usize,
}

/// An answer that is put off.
#[derive(Debug)]
pub(super) struct Owed {
    due: Instant,
    pub(super) ask: InlineAsk,
    pub(super) reply: InlineReply,
    pub(super) value: Vec<u8>,
}

/// How a member answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It never does: the ask has a deadline.
    Never,
    Now(InlineReply),
    Late(InlineReply, Duration),
}

/// Draws how an ask is made. The payload is filled, but for its end, which says whether everybody answers.
pub(super) fn draw(rng: &mut Rng, members: usize, payload: &mut Vec<u8>) -> AskOptions {
    let order = [Order::Fifo, Order::Causal, Order::Total, Order::Total];
    let order = order[usize::try_from(rng.below(order.len() as u64)).unwrap_or(0)];
    let guarantee = if rng.below(2) == 0 { Guarantee::Uniform } else { Guarantee::Plain };
    let want = match rng.below(6) {
        0 | 1 => Some(Want::All),
        2 => Some(Want::Majority),
        3 => Some(Want::Count(1)),
        // One more than there are members never come.
        4 => Some(Want::Count(u32::try_from(1 + rng.below(members as u64 + 1)).unwrap_or(1))),
        _ => None,
    };
    let has_deadline = rng.below(2) == 0;
    payload.push(u8::from(has_deadline));
    let within = has_deadline.then(|| Duration::from_millis(DEADLINE_MS + rng.below(DEADLINE_MS_MORE)));
    AskOptions { order, guarantee, want, with_self: rng.below(4) > 0, within, in_view: None }
}

/// How `me` answers an ask for that place. It depends on nothing else, so who forwards a place does so whenever it comes
/// back.
fn answer_of(me: MemberId, asked: &[u8], place: usize, expected: &[usize]) -> Answer {
    let asker_and_number = word(asked).rotate_left(32) ^ word(asked.get(8..).unwrap_or_default());
    let mut rng = Rng::new(me.bits() ^ asker_and_number ^ (place as u64).rotate_left(48));
    if rng.below(ABORT_ONE_IN) == 0 {
        return Answer::Now(InlineReply::Abort);
    }
    let late = |rng: &mut Rng| Duration::from_millis(rng.below(LATE_MS_MAX));
    match rng.below(12) {
        0..=5 => Answer::Now(InlineReply::Value),
        6 | 7 => Answer::Late(InlineReply::Value, late(&mut rng)),
        8 => Answer::Now(InlineReply::Null),
        9 => Answer::Late(InlineReply::Null, late(&mut rng)),
        10 if asked.last() == Some(&1) => Answer::Never,
        _ => {
            let spot = usize::try_from(rng.below(expected.len() as u64)).unwrap_or(0);
            Answer::Now(expected.get(spot).map_or(InlineReply::Null, |rank| InlineReply::Forward(*rank)))
        }
    }
}

/// The value of an answer to such an ask: who answers, and the ask's number.
fn value_of(me: MemberId, asked: &[u8], value: &mut Vec<u8>) {
    let number = word(asked.get(8..).unwrap_or_default());
    value.extend_from_slice(&me.bits().to_le_bytes());
    value.extend_from_slice(&number.to_le_bytes());
    if number.is_multiple_of(LONG_ONE_IN) {
        value.resize(LONG_BYTES, 0);
    }
}

impl Asks {
    /// An ask was accepted, with that number in its head.
    pub(super) fn made(&mut self, group: InlineGroup, number: u64, message: u64) {
        self.open.insert((group, number), Open { message, ..Open::default() });
    }

    /// The oldest ask of a group that has not ended.
    pub(super) fn oldest(&self, group: InlineGroup) -> Option<u64> {
        self.open.range((group, 0)..=(group, u64::MAX)).next().map(|((_, number), _)| *number)
    }

    /// Takes the answers that are due.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Owed> {
        self.owed.extract_if(.., |owed| owed.due <= now).collect()
    }

    /// Another incarnation begins.
    ///
    /// # Errors
    /// Asks of the one before were not told to have ended; how many.
    pub(super) fn begin(&mut self) -> Result<(), usize> {
        self.owed.clear();
        match std::mem::take(&mut self.open).len() {
            0 => Ok(()),
            open => Err(open),
        }
    }

    /// This process is to answer.
    pub(super) fn asked(&mut self, me: MemberId, asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        let payload = asked.message.payload;
        let expected: Vec<usize> = asked.expected().collect();
        let answer = answer_of(me, payload, asked.rank, &expected);
        if let Answer::Now(InlineReply::Value) | Answer::Late(InlineReply::Value, _) = answer {
            value_of(me, payload, value);
        }
        match answer {
            Answer::Never => None,
            Answer::Now(reply) => Some(reply),
            Answer::Late(reply, after) => {
                let value = std::mem::take(value);
                self.owed.push(Owed { due: Instant::now() + after, ask: asked.ask, reply, value });
                None
            }
        }
    }

    /// An ask that was left for later is given up.
    pub(super) fn given_up(&mut self, ask: InlineAsk) {
        self.owed.retain(|owed| owed.ask != ask);
    }

    /// An answer came. Returns whether it is enough.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn answered(&mut self, group: InlineGroup, number: u64, answer: &AnswerRef<'_>) -> Result<bool, String> {
        let Some(open) = self.open.get_mut(&(group, number)) else {
            return Err(format!("{} answered ask {number}, which is not open", answer.by));
        };
        if !open.places.insert(answer.rank) {
            return Err(format!("the place of rank {} in ask {number} was filled twice", answer.rank));
        }
        if let ReplyRef::Value(value) = answer.reply {
            open.values += 1;
            let (by, message) = (word(value), word(value.get(8..).unwrap_or_default()));
            if (by, message) != (answer.by.bits(), open.message) {
                return Err(format!(
                    "{} answered message {}: an answer of {by:016x} to message {message} came",
                    answer.by, open.message
                ));
            }
        }
        Ok(open.values >= ENOUGH)
    }

    /// An ask ended.
    ///
    /// # Errors
    /// It was not open.
    pub(super) fn ended(&mut self, group: InlineGroup, number: u64) -> Result<(), String> {
        let open = self.open.remove(&(group, number));
        open.map(drop).ok_or_else(|| format!("ask {number} ended, which is not open"))
    }
}

#[cfg(test)]
mod tests {
    use phalanx::Cell;

    use super::super::app::{WORK, Worker};
    use super::super::report::Report;
    use super::*;

    #[test]
    fn asks_are_drawn_of_all_kinds_and_say_whether_all_answer() {
        let (mut rng, mut wants) = (Rng::new(3), BTreeSet::new());
        for _ in 0..300 {
            let mut payload = vec![7; 16];
            let options = draw(&mut rng, 3, &mut payload);
            assert_eq!(payload.last(), Some(&u8::from(options.within.is_some())));
            assert!(!matches!(options.want, Some(Want::Count(0 | 5..))), "{:?}", options.want);
            wants.insert(format!("{:?}", options.want));
        }
        assert_eq!(wants.len(), 7, "{wants:?}");
    }

    /// A process alone answers its asks in all ways, and each of them ends.
    #[test]
    fn each_ask_ends_whatever_its_answers_are() {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Cell::builder("test");
        let builder = builder.directories(directory.path().join("run"), directory.path().join("state"));
        let (mut process, mut worker) = (builder.inline().expect("starts"), Worker::default());
        worker.note_incarnation(process.me().id);
        process.group(WORK).with_state().join(&mut worker).expect("joins");
        let work = loop {
            process.poll(&mut worker);
            if let Some(work) = worker.work() {
                break work;
            }
        };
        let (mut rng, mut number, mut answers) = (Rng::new(1), 0_u64, BTreeSet::new());
        let me = process.me().id;
        let ends = Instant::now() + Duration::from_secs(60);
        while number < 100 || worker.asks.oldest(work).is_some() {
            assert!(Instant::now() < ends, "{:?}", worker.asks);
            if number < 100 {
                number += 1;
                let mut payload = [me.bits().to_le_bytes(), number.to_le_bytes()].concat();
                let options = draw(&mut rng, 1, &mut payload);
                answers.insert(format!("{:?}", answer_of(me, &payload, 0, &[0])).chars().take(10).collect::<String>());
                let ask = process.ask(work, &options, &payload, &mut worker).expect("there is credit");
                worker.asks.made(work, ask, number);
            }
            for owed in worker.asks.take_due(Instant::now()) {
                let _ = process.answer(owed.ask, owed.reply, &owed.value);
            }
            process.poll(&mut worker);
            process.wait(Some(Duration::from_millis(2))).expect("waits");
        }
        assert!(answers.len() >= 6, "{answers:?}");
        assert!(!worker.reports.iter().any(|report| matches!(report, Report::Wrong { .. })), "{:?}", worker.reports);
        assert_eq!(worker.asks.begin(), Ok(()));
    }
}
