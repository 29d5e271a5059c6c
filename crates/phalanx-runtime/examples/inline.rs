//! Three members in one thread, polled by the application: no thread switch between a packet and its handler.
//!
//! Each member multicasts ten numbers in total order; all must deliver the same thirty, in the same order. Run it with
//! `cargo run --example inline`.

use std::error::Error;
use std::time::Duration;

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Delivery, Event, GroupId, GroupTerms, Order, Stability};
use phalanx_runtime::{Handler, Inline, Options};

/// The deliveries of one member.
#[derive(Default)]
struct App {
    group: Option<GroupId>,
    members: usize,
    seen: Vec<u8>,
}

impl Handler for App {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.seen.extend_from_slice(delivery.payload);
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            self.group = Some(view.group);
            self.members = view.members.len();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A directory of its own keeps the example apart from other cells of this host.
    let directory = tempfile::tempdir()?;
    let options = |name: &str| {
        let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
        Options::from(Config { name: Some(name.to_owned()), runtime_dir, state_dir, ..Config::default() })
    };
    let mut members = Vec::new();
    for name in ["ann", "bob", "cid"] {
        let (mut app, mut member) = (App::default(), Inline::start(&options(name))?);
        member.join_group("numbers", false, GroupTerms::default(), &mut app)?;
        members.push((app, member));
    }

    // The first member founds the cell, the others join it; all come into the group.
    poll_until(&mut members, |app| app.members == 3)?;

    for (rank, (app, member)) in members.iter_mut().enumerate() {
        let group = app.group.ok_or("in the group by now")?;
        for i in 0..10 {
            let number = rank as u8 * 10 + i;
            member.multicast(group, Order::Total, Stability::GroupDefault, &[number], app)?;
        }
    }
    poll_until(&mut members, |app| app.seen.len() == 30)?;

    let (first, _) = &members[0];
    assert!(members.iter().all(|(app, _)| app.seen == first.seen), "one order for all");
    let mut sorted = first.seen.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..30).collect::<Vec<u8>>(), "everything once");

    for (app, member) in &mut members {
        member.leave(app);
    }
    while !members.iter().all(|(_, member)| member.is_over()) {
        poll_all(&mut members)?;
    }
    eprintln!("all three saw {:?}", members[0].0.seen);
    Ok(())
}

fn poll_until(members: &mut [(App, Inline)], done: impl Fn(&App) -> bool) -> Result<(), Box<dyn Error>> {
    while !members.iter().all(|(app, _)| done(app)) {
        poll_all(members)?;
    }
    Ok(())
}

fn poll_all(members: &mut [(App, Inline)]) -> Result<(), Box<dyn Error>> {
    for (app, member) in members {
        if !member.poll(app).more {
            // With a thread of its own, a member would wait without a limit.
            member.wait(Some(Duration::from_micros(200)))?;
        }
    }
    Ok(())
}
