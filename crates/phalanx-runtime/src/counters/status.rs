//! A process's state in words: the text area of a counters file, which is TOML.

use phalanx_core::order::Hold;
use phalanx_core::{CellView, DeathProof, Incarnation, LeaveReason, StreamStatus, ViewNumber};
use toml::{Table, Value};

/// A process's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The cell's name.
    pub cell: String,
    /// The process's name.
    pub name: String,
    /// `searching`, `primary`, `non-primary`, `excluded` or `left`.
    pub state: String,
    /// What stands in the way, for people; empty if nothing does.
    pub why: String,
    /// The cell view's number; 0 before the first.
    pub view: ViewNumber,
    /// The level in force; 0 before the first view, and from a build that does not report it.
    pub level: u64,
    /// The highest level that all members of the view support.
    pub level_known: u64,
    /// Names of the cell view's members, in rank order.
    pub members: Vec<String>,
    /// The highest level that each of them supports.
    pub levels: Vec<u64>,
    /// The incarnation of each, in hexadecimal digits. Empty from builds that do not report it.
    pub incarnations: Vec<String>,
    /// The host of each, in hexadecimal digits; empty if unknown.
    pub hosts: Vec<String>,
    /// The latest members that left, oldest first: [`DEPARTED_SHOWN`] at most.
    pub departed: Vec<DepartedStatus>,
    /// The groups this process is a member of.
    pub groups: Vec<GroupStatus>,
    /// Groups of the cell that wait for members that are cut off: the first [`ORPHANS_SHOWN`] of them.
    pub orphans: Vec<OrphanStatus>,
    /// The number of groups beyond those.
    pub orphans_left_out: u64,
}

/// A member that left the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepartedStatus {
    /// The first view without it.
    pub view: ViewNumber,
    /// Its name.
    pub name: String,
    /// Its incarnation, in hexadecimal digits.
    pub incarnation: String,
    /// Why it left, for people.
    pub why: String,
    /// What this host's system said of its death: `ended` or `unlocked`; empty if nothing.
    pub proof: String,
    /// The names of members that did not hear it or that it held back, as far as this process was told.
    pub found_by: Vec<String>,
}

/// Most members that left and are listed.
pub const DEPARTED_SHOWN: usize = 16;

/// Most members of a group that are listed, and most groups for which they are.
pub const RANKS_SHOWN: usize = 32;

impl DepartedStatus {
    /// Those that left with a view.
    pub(crate) fn all_of(view: &CellView) -> impl Iterator<Item = Self> {
        let name = |who: &Incarnation| {
            let stays = view.members.iter().chain(view.departed.iter().map(|departed| &departed.member));
            let known = stays.into_iter().find(|member| member.incarnation == *who);
            known.map_or_else(|| who.to_string(), |member| member.name.clone())
        };
        view.departed.iter().map(move |departed| Self {
            view: view.view,
            name: departed.member.name.clone(),
            incarnation: departed.member.incarnation.to_string(),
            why: why_word(departed.why).to_owned(),
            proof: departed.proof.map_or("", proof_word).to_owned(),
            found_by: departed.found_by.iter().map(name).collect(),
        })
    }

    fn table(&self) -> Table {
        Table::from_iter([
            ("view".to_owned(), number(self.view.0)),
            ("name".to_owned(), self.name.clone().into()),
            ("incarnation".to_owned(), self.incarnation.clone().into()),
            ("why".to_owned(), self.why.clone().into()),
            ("proof".to_owned(), self.proof.clone().into()),
            ("found_by".to_owned(), texts(&self.found_by)),
        ])
    }

    fn from_table(table: &Table) -> Self {
        Self {
            view: ViewNumber(count(table, "view")),
            name: word(table, "name"),
            incarnation: word(table, "incarnation"),
            why: word(table, "why"),
            proof: word(table, "proof"),
            found_by: words(table, "found_by"),
        }
    }
}

/// A group whose state no member of the cell has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanStatus {
    /// The group's name.
    pub name: String,
    /// Members that have its state and are cut off, the first [`HOLDERS_SHOWN`] of them. The group continues when one
    /// of them returns.
    pub waits_for: Vec<HolderStatus>,
    /// The number of members beyond those.
    pub left_out: u64,
}

/// A member that a group waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderStatus {
    /// Its name; empty if unknown.
    pub name: String,
    /// Its incarnation, in hexadecimal digits.
    pub incarnation: String,
}

/// Most waiting groups that are listed.
pub const ORPHANS_SHOWN: usize = 32;

/// Most members listed for one waiting group.
pub const HOLDERS_SHOWN: usize = 16;

/// The state of one group's stream at a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// The group's name.
    pub name: String,
    /// Its number in the cell.
    pub number: u64,
    /// The view's number.
    pub view: ViewNumber,
    /// The number of members in the view.
    pub members: u64,
    /// Their ranks in the cell view. Empty if there are more members, or groups, than [`RANKS_SHOWN`], and from builds that do
    /// not report it.
    pub ranks: Vec<u64>,
    /// Whether the group has a state: `yes`, `no`, `observed` (it may have one, and this process observes), or `unknown`,
    /// because it was made below level 6. Empty from earlier builds.
    pub state: String,
    /// The names of the domains that the group lists for its state; that of the state itself is empty. None if it keeps no list, from builds
    /// that do not report it, and for more than [`RANKS_SHOWN`] groups.
    pub domains: Vec<String>,
    /// Messages accepted and not yet in a packet.
    pub queued_messages: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Packets sent and not yet stable.
    pub unstable_packets: u64,
    /// Messages sent in this view.
    pub sent: u64,
    /// Messages delivered in this view.
    pub delivered: u64,
    /// The member that holds the stream back, if one does.
    pub waits_for: Option<String>,
    /// What the queued messages wait for: `credit` (that member's application takes no deliveries), `ack` (that member
    /// acknowledges nothing) or `change` (a new view is being decided).
    pub hold: Option<String>,
    /// The member that sequences the group's abcasts.
    pub orders: Option<String>,
}

impl From<&StreamStatus> for GroupStatus {
    fn from(stream: &StreamStatus) -> Self {
        Self {
            name: stream.name.to_string(),
            number: u64::from(stream.group.0),
            view: stream.view,
            members: stream.members as u64,
            ranks: Vec::new(),
            state: state_word(stream.has_state, stream.observes).to_owned(),
            domains: Vec::new(),
            queued_messages: stream.queued_messages as u64,
            queued_bytes: stream.queued_bytes as u64,
            unstable_packets: stream.unstable_packets,
            sent: stream.sent,
            delivered: stream.delivered,
            waits_for: stream.waits_for.clone(),
            hold: stream.hold.map(|hold| hold_word(hold).to_owned()),
            orders: stream.orders.clone(),
        }
    }
}

impl OrphanStatus {
    /// A group of that name with all members that it waits for.
    #[must_use]
    pub fn new(name: &str, waits_for: Vec<(Incarnation, String)>) -> Self {
        let left_out = waits_for.len().saturating_sub(HOLDERS_SHOWN) as u64;
        let told = waits_for.into_iter().take(HOLDERS_SHOWN);
        let told = told.map(|(who, name)| HolderStatus { name, incarnation: who.to_string() });
        Self { name: name.to_owned(), waits_for: told.collect(), left_out }
    }

    fn table(&self) -> Table {
        let holder = |holder: &HolderStatus| {
            let HolderStatus { name, incarnation } = holder.clone();
            Table::from_iter([("name".to_owned(), name.into()), ("incarnation".to_owned(), incarnation.into())]).into()
        };
        Table::from_iter([
            ("name".to_owned(), self.name.clone().into()),
            ("waits_for".to_owned(), Value::Array(self.waits_for.iter().map(holder).collect())),
            ("left_out".to_owned(), number(self.left_out)),
        ])
    }

    fn from_table(table: &Table) -> Self {
        let holder = |table| HolderStatus { name: word(table, "name"), incarnation: word(table, "incarnation") };
        let waits_for = tables(table, "waits_for").map(holder).collect();
        Self { name: word(table, "name"), waits_for, left_out: count(table, "left_out") }
    }
}

impl Status {
    /// Formats the status in at most `room_bytes`. Members and groups that do not fit are left out, and their number is
    /// given.
    pub(super) fn to_text(&self, room_bytes: usize) -> String {
        let mut counts = [self.members.len(), self.groups.len(), self.orphans.len()];
        loop {
            let text = self.table(counts).to_string();
            if text.len() <= room_bytes || counts == [0; 3] {
                return text;
            }
            counts = counts.map(|count| count / 2);
        }
    }

    fn table(&self, [members, groups, orphans]: [usize; 3]) -> Table {
        let mut table = Table::new();
        let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
        put("cell", self.cell.clone().into());
        put("name", self.name.clone().into());
        put("state", self.state.clone().into());
        put("why", self.why.clone().into());
        put("view", number(self.view.0));
        put("level", number(self.level));
        put("level_known", number(self.level_known));
        put("levels", Value::Array(self.levels.iter().take(members).map(|level| number(*level)).collect()));
        put("members", Value::Array(self.members.iter().take(members).map(|m| m.clone().into()).collect()));
        put("members_left_out", number((self.members.len() - members) as u64));
        put("incarnations", texts(&self.incarnations[..members.min(self.incarnations.len())]));
        put("hosts", texts(&self.hosts[..members.min(self.hosts.len())]));
        put("departed", Value::Array(self.departed.iter().map(|d| d.table().into()).collect()));
        put("group", Value::Array(self.groups.iter().take(groups).map(|g| g.table().into()).collect()));
        put("groups_left_out", number((self.groups.len() - groups) as u64));
        put("orphan", Value::Array(self.orphans.iter().take(orphans).map(|o| o.table().into()).collect()));
        put("orphans_left_out", number(self.orphans_left_out + (self.orphans.len() - orphans) as u64));
        table
    }

    /// Parses the text of [`Self::to_text`]. Missing fields, and fields of another type, stay empty.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let table: Table = text.parse().ok()?;
        Some(Self {
            cell: word(&table, "cell"),
            name: word(&table, "name"),
            state: word(&table, "state"),
            why: word(&table, "why"),
            view: ViewNumber(count(&table, "view")),
            level: count(&table, "level"),
            level_known: count(&table, "level_known"),
            levels: numbers(&table, "levels"),
            members: words(&table, "members"),
            incarnations: words(&table, "incarnations"),
            hosts: words(&table, "hosts"),
            departed: tables(&table, "departed").map(DepartedStatus::from_table).collect(),
            groups: tables(&table, "group").map(GroupStatus::from_table).collect(),
            orphans: tables(&table, "orphan").map(OrphanStatus::from_table).collect(),
            orphans_left_out: count(&table, "orphans_left_out"),
        })
    }
}

impl GroupStatus {
    fn table(&self) -> Table {
        let mut table = Table::from_iter([
            ("name".to_owned(), self.name.clone().into()),
            ("number".to_owned(), number(self.number)),
            ("view".to_owned(), number(self.view.0)),
            ("members".to_owned(), number(self.members)),
            ("ranks".to_owned(), Value::Array(self.ranks.iter().map(|rank| number(*rank)).collect())),
            ("state".to_owned(), self.state.clone().into()),
            ("domains".to_owned(), texts(&self.domains)),
            ("queued_messages".to_owned(), number(self.queued_messages)),
            ("queued_bytes".to_owned(), number(self.queued_bytes)),
            ("unstable_packets".to_owned(), number(self.unstable_packets)),
            ("sent".to_owned(), number(self.sent)),
            ("delivered".to_owned(), number(self.delivered)),
        ]);
        if let Some(name) = &self.waits_for {
            table.insert("waits_for".to_owned(), name.clone().into());
        }
        if let Some(hold) = &self.hold {
            table.insert("hold".to_owned(), hold.clone().into());
        }
        if let Some(name) = &self.orders {
            table.insert("orders".to_owned(), name.clone().into());
        }
        table
    }

    fn from_table(table: &Table) -> Self {
        Self {
            name: word(table, "name"),
            number: count(table, "number"),
            view: ViewNumber(count(table, "view")),
            members: count(table, "members"),
            ranks: numbers(table, "ranks"),
            state: word(table, "state"),
            domains: words(table, "domains"),
            queued_messages: count(table, "queued_messages"),
            queued_bytes: count(table, "queued_bytes"),
            unstable_packets: count(table, "unstable_packets"),
            sent: count(table, "sent"),
            delivered: count(table, "delivered"),
            waits_for: table.get("waits_for").and_then(Value::as_str).map(str::to_owned),
            hold: table.get("hold").and_then(Value::as_str).map(str::to_owned),
            orders: table.get("orders").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

fn state_word(has_state: Option<bool>, observes: bool) -> &'static str {
    match (has_state, observes) {
        (_, true) => "observed",
        (Some(true), false) => "yes",
        (Some(false), false) => "no",
        (None, false) => "unknown",
    }
}

fn hold_word(hold: Hold) -> &'static str {
    match hold {
        Hold::Credit => "credit",
        Hold::Ack => "ack",
        Hold::Change => "change",
        Hold::System => "system",
        Hold::Outside => "not primary",
        Hold::Inadequate => "inadequate",
    }
}

fn why_word(why: LeaveReason) -> &'static str {
    match why {
        LeaveReason::Left => "left",
        LeaveReason::Died => "died",
        LeaveReason::Unreachable => "unreachable",
        LeaveReason::TooSlow => "too slow",
        LeaveReason::Nonsense => "sent nonsense",
        LeaveReason::Anew => "takes the state anew",
        LeaveReason::Stopped => "the group stopped",
        LeaveReason::NoProgress => "no progress",
    }
}

fn proof_word(proof: DeathProof) -> &'static str {
    match proof {
        DeathProof::Ended => "ended",
        DeathProof::Unlocked => "unlocked",
    }
}

fn texts(texts: &[String]) -> Value {
    Value::Array(texts.iter().map(|text| text.clone().into()).collect())
}

fn words(table: &Table, key: &str) -> Vec<String> {
    let all = table.get(key).and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn numbers(table: &Table, key: &str) -> Vec<u64> {
    let all = table.get(key).and_then(Value::as_array);
    all.into_iter().flatten().map(|n| n.as_integer().and_then(|n| u64::try_from(n).ok()).unwrap_or(0)).collect()
}

fn number(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn word(table: &Table, key: &str) -> String {
    table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn count(table: &Table, key: &str) -> u64 {
    table.get(key).and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}
