//! The bounds of a model of waits, and the rule that is missing in it.

/// Most members.
pub const MEMBERS: usize = 4;
/// The core's `ballot_step`, in ticks.
pub const STEP: u16 = 2;
/// Ticks after which a member that is heard and does not answer is left out. (`MUTE_PATIENCE`)
pub const MUTE: u16 = 60;

/// A rule of waits that is missing or replaced by another one. Each variant states the other behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A member does not wait for those of lower rank. Allowed.
    NoTurns,
    /// A member does not wait for a ballot that it promised to, if its own rank is lower.
    NoRival,
    /// No wait grows with the distance.
    NoDistance,
    /// Waits do not double when a proposal is superseded. Allowed.
    NoDoubling,
    /// Waits for the members of lower rank run on, whatever ballots there are. Allowed.
    NotRenewed,
    /// No ballot is vain. Allowed.
    NoVain,
    /// The ballots of a member that was vain have no time, and its wedges are ignored while another's have. As built.
    GivenUp,
    /// They have no time, and its wedges are heeded.
    GivenUpHeeded,
    /// A superseded coordinator may begin again at once. Allowed.
    NoBackoff,
    /// The time of a member that does not answer begins anew with each ballot.
    MuteAnew,
    /// A wedge says how long a step takes at its coordinator, and who promised waits at least as long. Allowed.
    Announced,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 11] = [
        Self::NoTurns,
        Self::NoRival,
        Self::NoDistance,
        Self::NoDoubling,
        Self::NotRenewed,
        Self::NoVain,
        Self::GivenUp,
        Self::GivenUpHeeded,
        Self::NoBackoff,
        Self::MuteAnew,
        Self::Announced,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTurns => "no_turns",
            Self::NoRival => "no_rival",
            Self::NoDistance => "no_distance",
            Self::NoDoubling => "no_doubling",
            Self::NotRenewed => "not_renewed",
            Self::NoVain => "no_vain",
            Self::GivenUp => "given_up",
            Self::GivenUpHeeded => "given_up_heeded",
            Self::NoBackoff => "no_backoff",
            Self::MuteAnew => "mute_anew",
            Self::Announced => "announced",
        }
    }
}

/// What a member cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is stopped.
    Stopped(usize),
    /// No message of a ballot reaches it.
    Deaf(usize),
    /// Reports and acceptances do not reach it. Other messages do.
    HalfDeaf(usize),
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Number of members.
    pub members: usize,
    /// Ticks that a message takes, by sender and receiver.
    pub delay: [[u16; MEMBERS]; MEMBERS],
    /// The fault.
    pub fault: Fault,
    /// Each member has measured before how far the others are.
    pub measured: bool,
    /// Members learn that a decree is needed within so many ticks of each other.
    pub spread: u16,
    /// What each wait before a further ballot may be longer, in ticks.
    pub jitter: u16,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Waits {
    /// Members that are a tick from each other.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self {
            members,
            delay: [[1; MEMBERS]; MEMBERS],
            fault: Fault::None,
            measured: false,
            spread: 6,
            jitter: 1,
            missing: None,
        }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let delays: Vec<String> = self.delay[..self.members]
            .iter()
            .map(|row| row[..self.members].iter().map(u16::to_string).collect::<Vec<_>>().join(","))
            .collect();
        format!(
            "waits: members {} delays {} fault {:?} measured {} spread {} jitter {}",
            self.members,
            delays.join(" "),
            self.fault,
            self.measured,
            self.spread,
            self.jitter
        )
    }

    pub(super) fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }
}
