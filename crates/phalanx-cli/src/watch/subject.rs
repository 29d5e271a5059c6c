//! What is watched, what was told of it last, and the lines that tell a change.

use std::fmt;
use std::time::Duration;

use phalanx_runtime::counters::DepartedStatus;
use phalanx_runtime::local::host::host_id;
use serde_json::{Map, Value, json};

use super::picture::{Members, Person, Picture};
use crate::exit::{Exit, Failure};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Cell,
    Member(String),
    /// In hexadecimal digits.
    Host(String),
    Group(String),
}

impl Subject {
    /// The subjects of a command line: pairs of a kind and a name. Without any, the cell.
    pub(super) fn all_of(words: &[String]) -> Result<Vec<Self>, Failure> {
        let usage = |what: String| Failure::new(Exit::Usage, what);
        if words.is_empty() {
            return Ok(vec![Self::Cell]);
        }
        words
            .chunks(2)
            .map(|pair| match pair {
                [kind, name] => match (&kind[..], &name[..]) {
                    ("member", name) => Ok(Self::Member(name.to_owned())),
                    ("group", name) => Ok(Self::Group(name.to_owned())),
                    ("host", "here") => Ok(Self::Host(format!("{:016x}", host_id()))),
                    ("host", digits) => match u64::from_str_radix(digits, 16) {
                        Ok(host) => Ok(Self::Host(format!("{host:016x}"))),
                        Err(_) => Err(usage(format!("host {digits}: write its 16 hexadecimal digits, or `here`"))),
                    },
                    (kind, _) => Err(usage(format!("{kind}: watch a member, a host or a group"))),
                },
                _ => Err(usage(format!("{}: a name is missing", pair.join(" ")))),
            })
            .collect()
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    text: String,
    fields: Map<String, Value>,
}

impl Line {
    fn new(text: String, fields: Value) -> Self {
        let Value::Object(fields) = fields else { return Self { text, fields: Map::new() } };
        Self { text, fields }
    }

    pub(super) fn as_json(&self, time: Duration) -> Value {
        let mut fields = self.fields.clone();
        fields.insert("time_ms".to_owned(), u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into());
        Value::Object(fields)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A subject, and what was told of it.
pub(super) struct Watched {
    subject: Subject,
    /// It was told how it stands.
    is_begun: bool,
    /// The latest view that was looked at, and whether a quorum was heard.
    view: Option<(u64, bool)>,
    people: Vec<Person>,
    members: Members,
}

impl Watched {
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, is_begun: false, view: None, people: Vec::new(), members: Members::Unknown }
    }

    /// What changed.
    pub(super) fn look(&mut self, picture: &Picture) -> Vec<Line> {
        if let Subject::Group(name) = &self.subject {
            let name = name.clone();
            return self.look_at_group(&name, picture);
        }
        // Nothing is known while no process of this host is in a view.
        let Some((view, is_primary)) = picture.view() else { return Vec::new() };
        let is_meant = |person: &Person| match &self.subject {
            Subject::Cell => true,
            Subject::Member(name) => person.name == *name,
            Subject::Host(host) => person.host == *host,
            Subject::Group(_) => false,
        };
        let now: Vec<Person> = picture.members().into_iter().filter(is_meant).collect();
        let was = std::mem::replace(&mut self.people, now.clone());
        let mut lines: Vec<Line> =
            missing(&was, &now).map(|gone| left(gone, picture.departed(&gone.incarnation))).collect();
        let seen = self.view.replace((view, is_primary));
        // Those that came and went between two looks.
        if let Some((seen, _)) = seen {
            let is_meant = |name: &String| match &self.subject {
                Subject::Cell => true,
                Subject::Member(meant) => name == meant,
                Subject::Host(_) | Subject::Group(_) => false,
            };
            let brief = picture.departed_since(seen).filter(|gone| is_meant(&gone.name));
            let unseen = brief.filter(|gone| was.iter().all(|person| person.incarnation != gone.incarnation));
            lines.extend(unseen.map(|gone| {
                let (name, incarnation) = (gone.name.clone(), gone.incarnation.clone());
                left(&Person { name, incarnation, host: String::new() }, Some(gone))
            }));
        }
        lines.extend(missing(&now, &was).map(came));
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match &self.subject {
            Subject::Cell if seen != Some((view, is_primary)) => lines.push(stands(view, is_primary, &now)),
            Subject::Member(name) if is_first && now.is_empty() => {
                lines.push(absent(format!("member {name}: not in the cell"), "member", name));
            }
            Subject::Host(host) if now.is_empty() && (is_first || !was.is_empty()) => {
                lines.push(absent(format!("host {host}: no process of it in the cell"), "host", host));
            }
            _ => {}
        }
        lines
    }

    fn look_at_group(&mut self, name: &str, picture: &Picture) -> Vec<Line> {
        let now = picture.group(name);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if now == self.members && !is_first {
            return Vec::new();
        }
        let was = std::mem::replace(&mut self.members, now.clone());
        let mut lines = Vec::new();
        let none = Vec::new();
        let before = if let Members::Known { who, .. } = &was { who } else { &none };
        let after = if let Members::Known { who, .. } = &now { who } else { &none };
        // Who left the group and is in the cell left the group alone.
        let members = picture.members();
        let stays = |person: &Person| members.iter().any(|member| member.incarnation == person.incarnation);
        if !matches!(now, Members::Unknown) {
            lines.extend(missing(before, after).map(|gone| {
                let why = picture.departed(&gone.incarnation).filter(|_| !stays(gone));
                in_group(name, left(gone, why), stays(gone))
            }));
        }
        lines.extend(missing(after, before).map(|person| in_group(name, came(person), false)));
        lines.push(match &now {
            Members::Unknown => absent(format!("group {name}: no process of this host is in it"), "group", name),
            Members::Waiting(holders) => Line::new(
                format!("group {name}: no member; it waits for one of {}", holders.join(", ")),
                json!({"subject": "group", "name": name, "change": "waiting", "waits_for": holders}),
            ),
            Members::Known { number, view, count, who } => Line::new(
                format!("group {name} view {view}: {count} members"),
                json!({
                    "subject": "group", "name": name, "change": "members", "number": number, "view": view, "count": count,
                    "members": who.iter().map(|person| &person.name).collect::<Vec<_>>(),
                }),
            ),
        });
        lines
    }
}

/// Those of the first list that are not in the second.
fn missing<'a>(these: &'a [Person], those: &'a [Person]) -> impl Iterator<Item = &'a Person> {
    // Builds that report no incarnations are told by their names.
    these
        .iter()
        .filter(|one| !those.iter().any(|other| (&one.name, &one.incarnation) == (&other.name, &other.incarnation)))
}

fn came(person: &Person) -> Line {
    let Person { name, incarnation, host } = person;
    Line::new(
        format!("{name} {incarnation}: here, on host {}", if host.is_empty() { "unknown" } else { host }),
        json!({"subject": "member", "name": name, "change": "here", "incarnation": incarnation, "host": host}),
    )
}

fn left(person: &Person, departed: Option<&DepartedStatus>) -> Line {
    let Person { name, incarnation, host } = person;
    let mut text = format!("{name} {incarnation}: gone");
    let mut fields = json!({
        "subject": "member", "name": name, "change": "gone", "incarnation": incarnation, "host": host,
    });
    match departed {
        Some(departed) => {
            text += &format!(", {}", departed.why);
            if !departed.proof.is_empty() {
                let proof = if departed.proof == "ended" { "its process ended" } else { "its lock is free" };
                text += &format!(" ({proof})");
            }
            if !departed.found_by.is_empty() {
                text += &format!(", found by {}", departed.found_by.join(", "));
            }
            fields["why"] = departed.why.clone().into();
            fields["proof"] = departed.proof.clone().into();
            fields["found_by"] = json!(departed.found_by);
        }
        None => text += ", for a reason that no process of this host knows",
    }
    Line::new(text, fields)
}

/// A line about a member of a group. `stays`: in the cell.
fn in_group(group: &str, line: Line, stays: bool) -> Line {
    let mut fields = line.fields;
    fields.insert("group".to_owned(), group.into());
    if stays {
        fields.insert("why".to_owned(), "left the group".into());
        let text = line.text.split(": ").next().unwrap_or_default();
        return Line { text: format!("group {group}: {text}: left the group"), fields };
    }
    Line { text: format!("group {group}: {}", line.text), fields }
}

fn absent(text: String, subject: &str, name: &str) -> Line {
    Line::new(text, json!({"subject": subject, "name": name, "change": "absent"}))
}

fn stands(view: u64, is_primary: bool, members: &[Person]) -> Line {
    let names: Vec<&String> = members.iter().map(|person| &person.name).collect();
    let state = if is_primary { "primary" } else { "non-primary" };
    Line::new(
        format!("cell view {view}: {} members, {state}", members.len()),
        json!({"subject": "cell", "change": "view", "view": view, "state": state, "members": names}),
    )
}

#[cfg(test)]
mod tests {
    use phalanx_runtime::core::ViewNumber;
    use phalanx_runtime::counters::{GroupStatus, Status};

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn subjects_come_in_pairs() {
        let all = Subject::all_of(&words("member a host 0f group g")).expect("they are");
        let host = Subject::Host("000000000000000f".into());
        assert_eq!(all, [Subject::Member("a".into()), host, Subject::Group("g".into())]);
        assert_eq!(Subject::all_of(&[]).expect("it is"), [Subject::Cell]);
        for (wrong, why) in
            [("member", "a name is missing"), ("house x", "watch a member"), ("host g", "16 hexadecimal")]
        {
            let failure = Subject::all_of(&words(wrong)).expect_err("it is wrong");
            assert!(failure.exit == Exit::Usage && failure.what.contains(why), "{failure:?}");
        }
    }

    /// A process in a view of these members, all on one host and in group `g`. If `m9` is not
    /// there, it left with that view.
    fn picture(view: u64, members: &[&str]) -> Picture {
        let gone = DepartedStatus {
            view: ViewNumber(view),
            name: "m9".into(),
            incarnation: "m9".into(),
            why: "died".into(),
            proof: "ended".into(),
            found_by: Vec::new(),
        };
        let all: Vec<String> = members.iter().map(|name| (*name).to_owned()).collect();
        let group = GroupStatus {
            name: "g".into(),
            number: 1,
            view: ViewNumber(view),
            members: members.len() as u64,
            ranks: (0..members.len() as u64).collect(),
            ..GroupStatus::default()
        };
        Picture::of(vec![Status {
            state: "primary".into(),
            view: ViewNumber(view),
            hosts: vec!["0f".into(); members.len()],
            incarnations: all.clone(),
            members: all,
            groups: vec![group],
            departed: if members.contains(&"m9") { Vec::new() } else { vec![gone] },
            ..Status::default()
        }])
    }

    fn texts(watched: &mut Watched, picture: &Picture) -> Vec<String> {
        watched.look(picture).iter().map(Line::to_string).collect()
    }

    #[test]
    fn the_cell_tells_all_that_come_and_go() {
        let mut cell = Watched::new(Subject::Cell);
        assert!(texts(&mut cell, &Picture::default()).is_empty(), "nobody is in a view");
        assert_eq!(
            texts(&mut cell, &picture(1, &["m1", "m9"])),
            ["m1 m1: here, on host 0f", "m9 m9: here, on host 0f", "cell view 1: 2 members, primary"]
        );
        assert!(texts(&mut cell, &picture(1, &["m1", "m9"])).is_empty());
        assert_eq!(
            texts(&mut cell, &picture(2, &["m1"])),
            ["m9 m9: gone, died (its process ended)", "cell view 2: 1 members, primary"]
        );
    }

    #[test]
    fn a_member_a_host_and_a_group_tell_their_own_changes() {
        let mut member = Watched::new(Subject::Member("m9".into()));
        let mut host = Watched::new(Subject::Host("0f".into()));
        let mut group = Watched::new(Subject::Group("g".into()));
        assert_eq!(texts(&mut member, &picture(1, &["m1"])), ["member m9: not in the cell"]);
        assert_eq!(texts(&mut host, &picture(1, &["m1"])), ["m1 m1: here, on host 0f"]);
        assert_eq!(texts(&mut group, &Picture::default()), ["group g: no process of this host is in it"]);
        assert_eq!(texts(&mut member, &picture(2, &["m1", "m9"])), ["m9 m9: here, on host 0f"]);
        let told = texts(&mut group, &picture(2, &["m1", "m9"]));
        assert_eq!(told.last().map(String::as_str), Some("group g view 2: 2 members"));
        let lines = group.look(&picture(3, &["m1"]));
        assert_eq!(lines[0].to_string(), "group g: m9 m9: gone, died (its process ended)");
        let json = lines[0].as_json(Duration::from_millis(7));
        assert_eq!((&json["why"], &json["group"], &json["time_ms"]), (&"died".into(), &"g".into(), &7.into()));
        let gone = texts(&mut member, &picture(3, &["m1"]));
        assert_eq!(gone, ["m9 m9: gone, died (its process ended)"]);
        // A host of which all went, for reasons that nobody here knows.
        let mut none = picture(4, &["x"]);
        none = Picture::of(vec![Status { hosts: vec!["0e".into()], ..none.into_first() }]);
        let told = texts(&mut host, &none);
        assert_eq!(told[0], "m1 m1: gone, for a reason that no process of this host knows");
        assert_eq!(told[1], "host 0f: no process of it in the cell");
    }

    /// Who came and went between two looks is told of once.
    #[test]
    fn a_short_stay_is_told() {
        let mut cell = Watched::new(Subject::Cell);
        let (mut named, mut other) =
            (Watched::new(Subject::Member("m9".into())), Watched::new(Subject::Member("m8".into())));
        let mut now = |view| {
            let picture = picture(view, &["m1"]);
            [&mut cell, &mut named, &mut other].map(|watched| texts(watched, &picture).join("; "))
        };
        assert_eq!(now(5)[1..], ["member m9: not in the cell", "member m8: not in the cell"]);
        let gone = "m9 m9: gone, died (its process ended)";
        assert_eq!(now(7), [&format!("{gone}; cell view 7: 1 members, primary")[..], gone, ""]);
    }

    /// Who left a group and is in the cell did not leave that.
    #[test]
    fn a_leave_of_the_group_is_none_of_the_cell() {
        let mut group = Watched::new(Subject::Group("g".into()));
        group.look(&picture(1, &["m1", "m2"]));
        let mut status = picture(2, &["m1", "m2"]).into_first();
        status.groups[0].ranks = vec![0];
        let told = texts(&mut group, &Picture::of(vec![status]));
        assert_eq!(told[0], "group g: m2 m2: left the group");
    }
}
