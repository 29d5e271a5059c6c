//! Transition tables: what may follow what in each state machine of the core.
//!
//! A table stands in its machine's file, and has one entry an event: `Event (From | From => To)`. Every change of the
//! machine's state goes through one function. It names the event, and asserts in debug builds that the table has the
//! change. Release builds keep neither the table nor the event. `docs/states.md` draws the tables. A test of each
//! machine compares the drawing, and `tests/transitions/*.txt`, with the code.

/// Defines the states and the events of a machine, and the table that joins them.
///
/// The states have no fields: a machine whose states carry data maps them to these. `begin` is the state of a new
/// machine, and `end` lists the states without an exit. The compiler warns of an event that is never raised and of a
/// state that is never named.
macro_rules! transitions {
    (
        $(#[$states_meta:meta])*
        $states_vis:vis states $State:ident {
            $( $(#[$state_meta:meta])* $state:ident, )+
        }
        begin $begin:ident; end [$($end:ident),*];
        $(#[$events_meta:meta])*
        $events_vis:vis events $Event:ident {
            $( $(#[$event_meta:meta])* $event:ident ( $( $($from:ident)|+ => $to:ident ),+ ), )+
        }
    ) => {
        $(#[$states_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $states_vis enum $State {
            $( $(#[$state_meta])* $state, )+
        }

        $(#[$events_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $events_vis enum $Event {
            $( $(#[$event_meta])* $event, )+
        }

        impl $Event {
            /// The state after the event; `None` if the event cannot occur in `from`.
            fn next(self, from: $State) -> Option<$State> {
                match self {
                    $( Self::$event => match from {
                        $( $($State::$from)|+ => Some($State::$to), )+
                        #[allow(unreachable_patterns, reason = "an event may be possible in every state")]
                        _ => None,
                    }, )+
                }
            }

            /// Asserts in debug builds that the table has the change. Costs nothing in release builds.
            #[inline]
            fn check(self, from: $State, to: $State) {
                debug_assert_eq!(self.next(from), Some(to), "{self:?} in {from:?}");
            }
        }

        #[cfg(test)]
        impl crate::transitions::kept::Machine for $Event {
            type State = $State;
            const STATES: &'static [$State] = &[$($State::$state),+];
            const EVENTS: &'static [Self] = &[$(Self::$event),+];
            const BEGIN: $State = $State::$begin;
            const END: &'static [$State] = &[$($State::$end),*];

            fn next(self, from: $State) -> Option<$State> {
                Self::next(self, from)
            }
        }
    };
}

pub(crate) use transitions;

/// The comparison of the tables with their snapshots, for the tests of the machines.
#[cfg(test)]
pub(crate) mod kept {
    use std::fmt::{Debug, Write as _};
    use std::path::PathBuf;

    use crate::golden::blesses;

    /// A table, accessible by its events.
    pub(crate) trait Machine: Copy + Debug + 'static {
        type State: Copy + Debug + PartialEq + 'static;
        const STATES: &'static [Self::State];
        const EVENTS: &'static [Self];
        const BEGIN: Self::State;
        const END: &'static [Self::State];

        fn next(self, from: Self::State) -> Option<Self::State>;
    }

    /// Fails unless the table is consistent and equals the snapshots in `tests/transitions` and `docs/states.md`. With
    /// `PHALANX_BLESS=1` it writes both instead. The machines share the page, so that needs `--test-threads=1`.
    pub(crate) fn hold<M: Machine>(name: &str) {
        make_sense::<M>();
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        keep(&root.join(format!("tests/transitions/{name}.txt")), |_| table::<M>());
        let begin = format!("<!-- {name} -->\n```mermaid\n");
        keep(&root.join("../../docs/states.md"), |page| {
            let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/states.md lacks {begin}"));
            let (_, after) = rest.split_once("```\n").expect("the drawing has an end");
            format!("{before}{begin}{}```\n{after}", drawing::<M>())
        });
    }

    /// Asserts that every state is reached and has an exit unless it is an end, and that every event occurs.
    fn make_sense<M: Machine>() {
        let exits = |from: &M::State| M::EVENTS.iter().filter_map(|event| event.next(*from)).collect::<Vec<_>>();
        let mut reached = vec![M::BEGIN];
        let mut at = 0;
        while at < reached.len() {
            for to in exits(&reached[at]) {
                if !reached.contains(&to) {
                    reached.push(to);
                }
            }
            at += 1;
        }
        for state in M::STATES {
            assert!(reached.contains(state), "{state:?} is never reached");
            let is_left = exits(state).iter().any(|to| to != state);
            assert_eq!(is_left, !M::END.contains(state), "{state:?} has an exit, or is an end");
        }
        for event in M::EVENTS {
            assert!(reached.iter().any(|from| event.next(*from).is_some()), "{event:?} never occurs");
        }
    }

    /// The next state for each event and state, as text.
    fn table<M: Machine>() -> String {
        let width = 2 + M::STATES.iter().map(|state| format!("{state:?}").len()).max().unwrap_or(0);
        let first = 2 + M::EVENTS.iter().map(|event| format!("{event:?}").len()).max().unwrap_or(0);
        let line = |head: String, cells: Vec<String>| {
            let mut line = format!("{head:first$}");
            cells.iter().for_each(|cell| write!(line, "{cell:width$}").expect("a string takes all"));
            format!("{}\n", line.trim_end())
        };
        let mut text = line(String::new(), M::STATES.iter().map(|state| format!("{state:?}")).collect());
        for event in M::EVENTS {
            let cell = |from: &M::State| event.next(*from).map_or("-".to_owned(), |to| format!("{to:?}"));
            text += &line(format!("{event:?}"), M::STATES.iter().map(cell).collect());
        }
        text
    }

    /// The states and their changes, as a Mermaid graph.
    fn drawing<M: Machine>() -> String {
        let mut text = format!("stateDiagram-v2\n    [*] --> {:?}\n", M::BEGIN);
        for from in M::STATES {
            for to in M::STATES {
                let joins = |event: &&M| event.next(*from).is_some_and(|next| next == *to);
                let events: Vec<String> = M::EVENTS.iter().filter(joins).map(|event| format!("{event:?}")).collect();
                if !events.is_empty() {
                    writeln!(text, "    {from:?} --> {to:?}: {}", events.join(", ")).expect("a string takes all");
                }
            }
        }
        M::END.iter().for_each(|end| writeln!(text, "    {end:?} --> [*]").expect("a string takes all"));
        text
    }

    fn keep(path: &PathBuf, now: impl FnOnce(&str) -> String) {
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let now = now(&kept);
        if blesses() {
            std::fs::write(path, &now).expect("the folder can be written");
        } else {
            assert!(
                kept == now,
                "{} is not what the code says; PHALANX_BLESS=1 writes it. Now:\n{now}",
                path.display()
            );
        }
    }
}
