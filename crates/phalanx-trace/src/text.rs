//! Records as text for people.

use std::fmt::{self, Display, Formatter};

use crate::{
    AskReply, AskStep, CallOutcome, Event, LeaveReason, MembershipEnd, MembershipStep, Order, Phase, Record,
    SubmitStep, ToOneOutcome, Trouble,
};

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s {}", self.at_ns / 1_000_000_000, self.at_ns % 1_000_000_000, self.event)
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Causal => "causal",
            Self::Total => "total",
        })
    }
}

impl Display for AskReply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value => f.write_str("value"),
            Self::Null => f.write_str("null"),
            Self::Abort => f.write_str("abort"),
            Self::Forward(to) => write!(f, "forward to rank {to}"),
        }
    }
}

impl Display for LeaveReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Died => "died",
            Self::Unreachable => "unreachable",
            Self::TooSlow => "too slow",
            Self::Nonsense => "sends nonsense",
            Self::Anew => "takes the state anew",
            Self::Stopped => "the group stopped",
            Self::NoProgress => "no progress",
        })
    }
}

impl Display for Phase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faulty => "faulty",
            Self::Heal => "heal",
            Self::Quiet => "quiet",
        })
    }
}

impl Display for Trouble {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::NotReading => "not reading",
            Self::Slow => "slow",
            Self::Narrow => "narrow",
            Self::Nonsense => "what it sends cannot be read by some",
        })
    }
}

impl Display for CallOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { hash } => write!(f, "answer hash {}", Id(*hash)),
            Self::NotExecuted => f.write_str("not executed"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::JoinAsked { cell } => write!(f, "asks to join cell {cell:?}"),
            Self::LeaveAsked => f.write_str("asks to leave the cell"),
            Self::CellView { instance, view, members, left } => {
                let members = members.iter().map(|(p, name)| format!("{name}={}", Id(*p)));
                write!(f, "cell view {view} of instance {}: {}{}", Id(*instance), List(members), Gone(left))
            }
            Self::GroupJoinAsked { name, with_state } => {
                write!(f, "asks to join group {name:?}{}", if *with_state { " with state" } else { "" })
            }
            Self::GroupLeaveAsked { group } => write!(f, "asks to leave group {group}"),
            Self::GroupView { group, name, view, prev, members, joined, left } => {
                write!(f, "group {group} {name:?} view {view}")?;
                if let Some(prev) = prev {
                    write!(f, " after {prev}")?;
                }
                write!(f, ": {}", List(members.iter().map(|p| Id(*p))))?;
                if !joined.is_empty() {
                    write!(f, ", joined {}", List(joined.iter().map(|p| Id(*p))))?;
                }
                Gone(left).fmt(f)
            }
            Self::GroupLost { group, why } => write!(f, "lost group {group}: {why}"),
            Self::GroupLeft { group } => write!(f, "left group {group}"),
            Self::Send { group, view, seq, order, uniform, hash } => {
                write!(f, "send group {group} view {view} seq {seq} {order}{} hash {}", Uniform(*uniform), Id(*hash))
            }
            Self::Deliver { group, view, sender, seq, order, uniform, position, hash, replayed } => {
                let sender = Id(*sender);
                write!(f, "deliver group {group} view {view} from {sender} seq {seq} {order}{}", Uniform(*uniform))?;
                if let Some(position) = position {
                    write!(f, " position {position}")?;
                }
                write!(f, " hash {}{}", Id(*hash), if *replayed { " replayed" } else { "" })
            }
            Self::SnapshotOut { group, view, digest } => {
                write!(f, "snapshot out of group {group} in view {view}, digest {}", Id(*digest))
            }
            Self::SnapshotIn { group, bytes } => write!(f, "snapshot into group {group}, {bytes} bytes"),
            Self::StateEnd { group, digest } => write!(f, "state of group {group} complete, digest {}", Id(*digest)),
            Self::Digest { group, view, delivered, digest } => {
                write!(f, "digest of group {group} in view {view} after {delivered} deliveries: {}", Id(*digest))
            }
            Self::NonPrimary => f.write_str("not primary"),
            Self::Primary => f.write_str("primary again"),
            Self::Excluded { view } => write!(f, "excluded by cell view {view}"),
            Self::Left => f.write_str("left the cell"),
            Self::P2pSend { to, k, hash } => write!(f, "send to {} number {k} hash {}", Id(*to), Id(*hash)),
            Self::P2pDeliver { from, k, hash } => {
                write!(f, "deliver from {} number {k} hash {}", Id(*from), Id(*hash))
            }
            Self::Stop { incarnation } => write!(f, "stop {}", Id(*incarnation)),
            Self::Cont { incarnation } => write!(f, "continue {}", Id(*incarnation)),
            Self::Crash { incarnation } => write!(f, "crash {}", Id(*incarnation)),
            Self::Phase { phase, connected } if connected.is_empty() => write!(f, "phase {phase}"),
            Self::Phase { phase, connected } => write!(f, "phase {phase}, connected {}", List(connected.iter())),
            Self::End => f.write_str("end"),
            Self::Block => f.write_str("may not send"),
            Self::Unblock => f.write_str("may send again"),
            Self::Cut { links } => write!(f, "cut {}", Links(links)),
            Self::Mend { links } => write!(f, "mend {}", Links(links)),
            Self::Attack { active } => write!(f, "attack {}", if *active { "begins" } else { "ends" }),
            Self::Trouble { what, incarnation: 0, begins } => write!(f, "{what} trouble {}", Begins(*begins)),
            Self::Trouble { what, incarnation, begins } => {
                write!(f, "{what} trouble of {} {}", Id(*incarnation), Begins(*begins))
            }
            Self::Gauge { incarnation, name, value, limit, idle } => {
                write!(f, "{name} of {}: {value}, limit {limit}, idle {idle}", Id(*incarnation))
            }
            Self::Traffic { incarnation, packets, idle } => {
                write!(f, "packets of {}: {packets}, idle {idle} a second", Id(*incarnation))
            }
            Self::Invoke { group, op, action } => write!(f, "asks group {group} as operation {op}: {action}"),
            Self::Return { op, outcome } => write!(f, "operation {op} gives: {outcome}"),
            Self::Guard { resource, serial, token, accepted } => {
                let verdict = if *accepted { "let in" } else { "turned away" };
                write!(f, "uses resource {resource} as its user {serial} with token {token:#x}: {verdict}")
            }
            Self::Impaired { ends, what, .. } => write!(f, "broken in part at {}: {what}", List(ends.iter())),
            Self::Endpoint { address } => write!(f, "is called at {address}"),
            Self::CallMade { call, to, idempotent, hash } => {
                let kind = if *idempotent { "idempotent call" } else { "call" };
                write!(f, "makes {kind} {call} to {to} hash {}", Id(*hash))
            }
            Self::RiseAsked { level } => write!(f, "asks the cell to rise to level {level}"),
            Self::Level { level, known } => write!(f, "level {level} is in force, all members know {known}"),
            Self::Differs { setting, cell, own } => {
                write!(f, "kept out of the cell: {setting} is {cell} there and {own} here")
            }
            Self::CellMinimum { members } => write!(f, "the cell is to have {members} members for uniform messages"),
            Self::GroupTerms { group, uniform, members_min, adequate } => {
                let default = if *uniform { "uniform" } else { "plain" };
                let few = if *adequate { "" } else { ", and has too few" };
                write!(
                    f,
                    "group {group} is {default} by default, and to have {members_min} members with its state{few}"
                )
            }
            Self::GroupAdequacy { group, view, adequate } => {
                let which = if *adequate { "enough" } else { "too few" };
                write!(f, "group {group} view {view} has {which} members with its state for uniform messages")
            }
            Self::Unsent { group, messages } => {
                write!(f, "the last {messages} accepted for group {group} will not be sent")
            }
            Self::Stable { group, view, seq } => {
                write!(f, "its messages in group {group} view {view} are stable up to {seq}")
            }
            Self::Inbox { name, inbox: 0 } => write!(f, "takes group {name:?} from the inbox of the process"),
            Self::Inbox { name, inbox } => write!(f, "takes group {name:?} from inbox {inbox}"),
            Self::Unread { incarnation, inbox, begins } => {
                write!(
                    f,
                    "inbox {inbox} of {} is {}",
                    Id(*incarnation),
                    if *begins { "not read" } else { "read again" }
                )
            }
            Self::StateKept { group, was, view, digest } => {
                let (was, digest) = (Id(*was), Id(*digest));
                write!(f, "goes on with the state of group {group} that {was} left, up to view {view}, digest {digest}")
            }
            Self::Forgotten { group, view, kept: Some(kept) } => {
                let kept = List(kept.iter().map(|(who, count)| format!("{}:{count}", Id(*who))));
                write!(f, "group {group} went on from view {view} with {kept}")
            }
            Self::Forgotten { group, view, kept: None } => {
                write!(f, "the state of group {group} as of view {view} is of no use any more")
            }
            Self::Ancestors { instances } => {
                f.write_str("goes on with the groups of instances")?;
                instances.iter().try_for_each(|instance| write!(f, " {}", Id(*instance)))
            }
            Self::ReformAsked => f.write_str("is asked to found the next instance of its cell"),
            Self::Renounced { generation } => {
                write!(f, "gives its cell instance up for one of generation {generation}")
            }
            Self::FoundAnew => f.write_str("is told that no member of its cell lives, and founds it again"),
            Self::GroupIncomplete { group, who } => {
                write!(f, "in group {group} the state is not whole at {}", List(who.iter().map(|who| Id(*who))))
            }
            Self::Observes { name } => write!(f, "asks to observe group {name:?}"),
            Self::GroupObservers { group, who } => {
                write!(f, "in group {group} observes {}", List(who.iter().map(|who| Id(*who))))
            }
            Self::OwnDomains { name, own } => {
                let shown = |(domain, version, is_optional): &(String, u32, bool)| {
                    format!("{domain:?} {version}{}", if *is_optional { " (optional)" } else { "" })
                };
                write!(f, "has of the state of group {name:?}: {}", List(own.iter().map(shown)))
            }
            Self::GroupDomains { group, view, list } => {
                let list = list.iter().map(|(domain, version)| format!("{domain:?} {version}"));
                write!(f, "in view {view} of group {group} the state has {}", List(list))
            }
            Self::DeliveredTo { group, sender, seq, domain, .. } => {
                write!(f, "message {seq} of {} in group {group} is for domain {domain} alone", Id(*sender))
            }
            Self::InDoubt { to, messages } => write!(f, "the last {messages} accepted for {} are in doubt", Id(*to)),
            Self::EndInDoubt { groups, members } => {
                let (groups, members) = (List(groups.iter()), List(members.iter()));
                write!(f, "leaves in doubt: behind stay groups {groups} and members {members}")
            }
            Self::ToldStable { group, view, seq } => {
                write!(f, "tells the application that its messages in group {group} view {view} are stable up to {seq}")
            }
            Self::ToldLost { group, not_sent, in_doubt } => {
                write!(f, "tells the application of group {group}: {not_sent} not sent, {in_doubt} in doubt")
            }
            Self::ToOneSend { group, view, to, is_answer, hash } => {
                let (what, to) = (if *is_answer { "an answer" } else { "a message" }, Id(*to));
                write!(f, "send {what} to {to} alone in group {group} view {view} hash {}", Id(*hash))
            }
            Self::ToOneDeliver { group, view, from, is_answer, hash } => {
                let (what, from) = (if *is_answer { "an answer" } else { "a message" }, Id(*from));
                write!(
                    f,
                    "deliver {what} from {from} to this one alone in group {group} view {view} hash {}",
                    Id(*hash)
                )
            }
            Self::ToOneSettled { group, to, outcome, messages } => {
                let outcome = match outcome {
                    ToOneOutcome::Delivered => "delivered",
                    ToOneOutcome::NotDelivered => "not delivered",
                    ToOneOutcome::InDoubt => "in doubt",
                };
                write!(f, "the next {messages} to {} alone in group {group} are {outcome}", Id(*to))
            }
            Self::Ask { group, asker, view, seq, what } => {
                write!(f, "ask {view}.{seq} of {} in group {group} ", Id(*asker))?;
                match what {
                    AskStep::Opened { places, want } => write!(f, "is open: {want:?} of the ranks {places:?}"),
                    AskStep::Shown { place, position, forwarded } => {
                        let how = if *forwarded { "comes forwarded" } else { "comes" };
                        write!(f, "{how} for the place of rank {place}")?;
                        position.map_or(Ok(()), |position| write!(f, " as total order position {position}"))
                    }
                    AskStep::Replied { place, reply, hash } => {
                        write!(f, "is answered for the place of rank {place}: {reply} hash {}", Id(*hash))
                    }
                    AskStep::Heard { place, from, reply, hash } => {
                        let (from, hash) = (Id(*from), Id(*hash));
                        write!(f, "has the answer of {from} for the place of rank {place}: {reply} hash {hash}")
                    }
                    AskStep::Ended(end) => write!(f, "ended: {end:?}"),
                }
            }
            Self::Submit { group, client, number, what } => {
                write!(f, "submit {number} of client {} in group {group} ", Id(*client))?;
                match what {
                    SubmitStep::Sent { hash } => write!(f, "is sent hash {}", Id(*hash)),
                    SubmitStep::Executed { view, position, hash } => {
                        let hash = Id(*hash);
                        write!(f, "is executed in view {view} as total order position {position}: result hash {hash}")
                    }
                    SubmitStep::Told { hash } => write!(f, "is told: result hash {}", Id(*hash)),
                    SubmitStep::NotExecuted => f.write_str("is told: not executed"),
                    SubmitStep::Unknown => f.write_str("is told: executed once, or never"),
                    SubmitStep::TooLong => f.write_str("is told: executed, and its result is too long"),
                }
            }
            Self::ToldSenseless { name } => {
                write!(f, "tells the application that the state of group {name} makes no sense")
            }
            Self::MembershipEnded { name, why } => match why {
                MembershipEnd::Left(why) => write!(f, "tells the application that it is out of group {name}: {why}"),
                MembershipEnd::Over => {
                    write!(f, "tells the application that it is out of group {name}, with its process")
                }
                MembershipEnd::Refused => write!(f, "tells the application that group {name} cannot be made"),
                MembershipEnd::Differs => {
                    write!(f, "tells the application that group {name} differs in having a state")
                }
            },
            Self::ToldStep { name, what } => match what {
                MembershipStep::Forgotten => {
                    write!(f, "tells the application that its state of group {name} is of no use")
                }
                MembershipStep::Kept => write!(f, "tells the application that group {name} goes on with its state"),
                MembershipStep::Taking(bytes) => {
                    write!(f, "tells the application that a state of group {name} comes, {bytes} bytes")
                }
                MembershipStep::Current => {
                    write!(f, "tells the application that the state of group {name} is complete")
                }
                MembershipStep::OwnState => {
                    write!(f, "tells the application that group {name} begins with its own state")
                }
                MembershipStep::View(view) => write!(f, "tells the application of view {view} of group {name}"),
                MembershipStep::Anew => {
                    write!(f, "tells the application that it is out of group {name} and comes back")
                }
            },
            Self::SnapshotView { group, view } => {
                write!(f, "the snapshot of group {group} was frozen in view {view}")
            }
            Self::GroupViewReplayed { group, view, members, left, .. } => {
                let members = List(members.iter().map(|p| Id(*p)));
                write!(f, "view {view} of group {group} replayed: {members}{}", Gone(left))
            }
            Self::GivenUp { name } => write!(f, "asks that group {name} waits no more"),
            Self::CallDeadline { call, within_ns } => {
                let (s, ms) = (within_ns / 1_000_000_000, within_ns / 1_000_000 % 1000);
                write!(f, "call {call} is to end within {s}.{ms:03} s")
            }
            Self::CallEnded { call, outcome } => write!(f, "call {call} ends: {outcome}"),
            Self::CallRan { run, from, hash } => {
                write!(f, "runs a call of {} as run {run} hash {}", Id(*from), Id(*hash))
            }
            Self::CallAnswered { run, answer: Some(hash) } => write!(f, "run {run} answers hash {}", Id(*hash)),
            Self::CallAnswered { run, answer: None } => write!(f, "run {run} did nothing"),
            Self::Balance { group, sum } => write!(f, "all accounts of group {group} hold {sum}"),
            Self::About { codes } => write!(f, "about {}", List(codes.iter())),
            Self::Accept { group, order, uniform, hash } => {
                write!(f, "accept for group {group} {order}{} hash {}", Uniform(*uniform), Id(*hash))
            }
        }
    }
}

struct Id(u64);

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

struct Begins(bool);

impl Display for Begins {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "begins" } else { "ends" })
    }
}

struct Links<'a>(&'a [(String, String)]);

impl Display for Links<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        List(self.0.iter().map(|(from, to)| format!("{from}>{to}"))).fmt(f)
    }
}

struct Uniform(bool);

impl Display for Uniform {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { " uniform" } else { "" })
    }
}

struct List<I>(I);

impl<I: Iterator<Item: Display> + Clone> Display for List<I> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, item) in self.0.clone().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { " " })?;
        }
        f.write_str("]")
    }
}

struct Gone<'a>(&'a [(u64, LeaveReason)]);

impl Display for Gone<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ", left {}", List(self.0.iter().map(|(p, reason)| format!("{} {reason}", Id(*p)))))
    }
}
