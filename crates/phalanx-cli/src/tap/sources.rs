//! The processes that are looked at.

use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use phalanx_runtime::config::Config;
use phalanx_runtime::tap::{Form, Place, Reader, Shown, Stats, TapError, Wanted, places};

use super::held::Held;
use super::output::Output;
use crate::exit::{Exit, Failure};
use crate::here;
use crate::notice::say;

pub(super) struct Sources {
    config: Config,
    wanted: Wanted,
    /// Names or numbers of processes. Empty: all that are there.
    chosen: Vec<String>,
    attached: Vec<Source>,
    /// Those that ended.
    ended: Vec<(String, Stats)>,
    /// Members that are attached again when they are back.
    awaited: BTreeSet<String>,
    /// Looks for them. It may take a second, and packets go on meanwhile.
    search: Option<JoinHandle<Result<Vec<Place>, TapError>>>,
    searched: Instant,
    /// What was told once.
    told: BTreeSet<String>,
    has_failed: bool,
}

struct Source {
    label: String,
    /// Which of those that were chosen it is.
    chosen: Vec<String>,
    reader: Reader,
    /// Nothing waited at the end of the latest turn.
    is_drained: bool,
    /// It showed what makes no sense.
    is_broken: bool,
}

/// What a turn brought.
pub(super) struct Taken {
    pub(super) packets: usize,
    /// Packets after that time may still wait in a ring. `None`: none waits.
    pub(super) complete_to: Option<Duration>,
}

impl Sources {
    /// Attaches to the processes that are chosen, or to all.
    pub(super) fn open(config: Config, wanted: Wanted, chosen: &[String]) -> Result<Self, Failure> {
        let places = places(&config).map_err(failed)?;
        if places.is_empty() {
            return Err(Failure::new(Exit::Unreachable, nobody(&config)));
        }
        let shown = |place: &Place| format!("{} (process {})", label(place), place.pid);
        if let Some(absent) = chosen.iter().find(|one| !places.iter().any(|place| is(place, one))) {
            let all: Vec<String> = places.iter().map(shown).collect();
            let what = format!(
                "no process '{absent}' of cell '{}' shows packets here. These do: {}",
                config.cell,
                all.join(", ")
            );
            return Err(Failure::new(Exit::Unreachable, what));
        }
        let mut sources = Self {
            config,
            wanted,
            chosen: chosen.to_vec(),
            attached: Vec::new(),
            ended: Vec::new(),
            awaited: BTreeSet::new(),
            search: None,
            searched: Instant::now(),
            told: BTreeSet::new(),
            has_failed: false,
        };
        let mut failure = None;
        for place in &places {
            match sources.attach(place) {
                Ok(()) => {}
                Err(error) if chosen.is_empty() => {
                    say(format_args!("{}: {error}", shown(place)));
                    failure = failure.or(Some(error));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        match failure {
            Some(error) if sources.attached.is_empty() => Err(failed(error)),
            _ => Ok(sources),
        }
    }

    /// Attaches to a process, if it is one of those that are chosen.
    fn attach(&mut self, place: &Place) -> Result<(), TapError> {
        let chosen: Vec<String> = self.chosen.iter().filter(|one| is(place, one)).cloned().collect();
        if chosen.is_empty() && !self.chosen.is_empty() {
            return Ok(());
        }
        let reader = Reader::attach(place, &self.wanted)?;
        let label = label(place);
        let form = if self.wanted.form == Form::Clear { "clear" } else { "sealed" };
        say(format_args!("looking at {label} (process {}), packets {form}", place.pid));
        self.awaited.retain(|one| !chosen.contains(one));
        self.attached.push(Source { label, chosen, reader, is_drained: false, is_broken: false });
        Ok(())
    }

    /// Fetches what waits.
    pub(super) fn take(&mut self, held: &mut Held, output: &mut Output) -> Taken {
        let mut taken = Taken { packets: 0, complete_to: None };
        for source in &mut self.attached {
            let (packets, last) = match source.take(held, output) {
                Ok(some) => some,
                Err(error) => {
                    say(format_args!("{}: {error}", source.label));
                    (source.is_broken, self.has_failed) = (true, true);
                    continue;
                }
            };
            taken.packets += packets;
            source.is_drained = last.is_none();
            taken.complete_to = match (taken.complete_to, last) {
                (Some(to), Some(last)) => Some(to.min(last)),
                (to, last) => to.or(last),
            };
        }
        taken
    }

    /// Says what the processes said, lets those go that ended, and attaches to those that are back.
    pub(super) fn tend(&mut self) {
        let mut attached = Vec::new();
        for mut source in std::mem::take(&mut self.attached) {
            source.reader.take_notices().iter().for_each(say);
            for name in source.reader.unbound() {
                if self.told.insert(format!("{} {name}", source.label)) {
                    say(format_args!("{}: {name}", source.label));
                }
            }
            if source.is_broken || source.is_drained && source.reader.is_over() {
                self.end(&source);
            } else {
                attached.push(source);
            }
        }
        self.attached = attached;
        self.seek();
    }

    fn end(&mut self, source: &Source) {
        let pid = source.reader.pid();
        self.ended.push((source.label.clone(), source.reader.stats()));
        // One that is named by its number does not come back.
        let members = source.chosen.iter().filter(|one| one.parse() != Ok(pid));
        let before = self.awaited.len();
        self.awaited.extend(members.cloned());
        let again = if self.awaited.len() > before { ". It is attached again when it is back" } else { "" };
        say(format_args!("{} (process {pid}) ended, or let this command go{again}", source.label));
    }

    /// Looks for members that are awaited.
    fn seek(&mut self) {
        match self.search.take_if(|search| search.is_finished()).map(JoinHandle::join) {
            Some(Ok(Ok(places))) => places.iter().for_each(|place| self.attach_again(place)),
            Some(Ok(Err(error))) => self.tell_once(error.to_string()),
            // It has told why.
            Some(Err(_panicked)) => self.has_failed = true,
            None => {}
        }
        if !self.awaited.is_empty() && self.search.is_none() && self.searched.elapsed() >= SEARCH_EVERY {
            self.searched = Instant::now();
            let config = self.config.clone();
            self.search = Some(std::thread::spawn(move || places(&config)));
        }
    }

    fn attach_again(&mut self, place: &Place) {
        let is_awaited = self.awaited.iter().any(|one| is(place, one));
        if !is_awaited || self.attached.iter().any(|source| source.reader.pid() == place.pid) {
            return;
        }
        if let Err(error) = self.attach(place) {
            self.tell_once(format!("{}: {error}", label(place)));
        }
    }

    fn tell_once(&mut self, text: String) {
        if !self.told.contains(&text) {
            say(&text);
            self.told.insert(text);
        }
    }

    /// Whether nothing is attached, and nothing is awaited.
    pub(super) fn is_over(&self) -> bool {
        self.attached.is_empty() && self.awaited.is_empty()
    }

    /// Whether something went wrong that was told.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Says the numbers of each process.
    pub(super) fn tell_stats(&self) {
        self.attached.iter().for_each(|source| say(numbers(&source.label, source.reader.stats())));
    }

    /// Says the numbers of all processes, of those that ended, too.
    pub(super) fn tell_totals(&self, packets: u64) {
        say(format_args!("{packets} packets shown"));
        self.ended.iter().for_each(|(label, stats)| say(numbers(label, *stats)));
        self.tell_stats();
    }
}

impl Source {
    /// Fetches what waits, or as much as goes into a turn: how many packets, and the time of the last if more may wait.
    fn take(&mut self, held: &mut Held, output: &mut Output) -> Result<(usize, Option<Duration>), TapError> {
        let (pid, mut packets) = (self.reader.pid(), 0);
        while let Some(shown) = self.reader.read()? {
            match shown {
                Shown::Names(text) => output.names(text),
                Shown::Packet(seen, form) => {
                    held.add(pid, &seen, form);
                    packets += 1;
                    if packets == TURN_PACKETS {
                        return Ok((packets, Some(seen.time)));
                    }
                }
            }
        }
        Ok((packets, None))
    }
}

/// Whether it is the process of that member, or has that number.
fn is(place: &Place, chosen: &str) -> bool {
    chosen.parse() == Ok(place.pid) || place.points.iter().any(|point| point.name == chosen)
}

/// The names of what shows packets there.
fn label(place: &Place) -> String {
    let names: BTreeSet<&str> = place.points.iter().map(|point| point.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    match &names[..] {
        [] => format!("process {}", place.pid),
        [first] => (*first).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

fn numbers(label: &str, Stats { seen, matched, lost }: Stats) -> String {
    format!("{label}: {seen} seen, {matched} matched, {lost} lost")
}

fn failed(error: TapError) -> Failure {
    let exit = match &error {
        TapError::Local(_) | TapError::OtherUser { .. } | TapError::Silent { .. } | TapError::Ended { .. } => {
            Exit::Unreachable
        }
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// Why there is nothing to look at.
fn nobody(config: &Config) -> String {
    let cell = &config.cell;
    let living = here::open(config).and_then(|local| Ok((local.scope().display().to_string(), local.living()?)));
    match living {
        Ok((scope, living)) if living.is_empty() => format!("nobody of cell '{cell}' runs on this host ({scope})"),
        Ok((_, living)) => format!(
            "the {} processes of cell '{cell}' on this host show no packets: their setting is tap = \"off\", or their build \
             knows none",
            living.len()
        ),
        Err(error) => error.to_string(),
    }
}

/// Packets of one process in one turn, so that the others get theirs, and memory is bounded.
const TURN_PACKETS: usize = 16_384;

/// How often members that are awaited are looked for.
const SEARCH_EVERY: Duration = Duration::from_millis(250);
