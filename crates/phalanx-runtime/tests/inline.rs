//! Processes that their owner polls, over real sockets. `phalanx/tests` has the same as programs see it.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, directory, options};
use phalanx_runtime::config::{Config, DriverMode, SecurityMode};
use phalanx_runtime::core::{
    CommandError, Delivery, Event, Founding, GroupId, GroupTerms, Incarnation, MemberInfo, Membership, Order, Sequence,
    Stability, Uniformity, ViewNumber,
};
use phalanx_runtime::driver::{Faults, Wait};
use phalanx_runtime::{Handler, Inline, Options, StartError};

/// Polls all in turn until `done`. Only a hang takes so long that the test fails.
fn poll_until<D: Wait, H: Handler>(
    members: &mut [(Inline<D>, H)],
    mut done: impl FnMut(&mut [(Inline<D>, H)]) -> bool,
) {
    let begun = Instant::now();
    while !done(members) {
        assert!(begun.elapsed() < PATIENCE, "it does not come to that");
        for (process, app) in members.iter_mut() {
            if !process.poll(app).more {
                process.wait(Some(Duration::from_millis(1))).expect("waits");
            }
        }
    }
}

/// The belief of a process that its application does not poll ages; its membership stays.
#[test]
fn the_age_of_a_belief_grows_while_the_process_is_not_polled() {
    struct App;
    impl Handler for App {
        fn deliver(&mut self, _: &Delivery<'_>) {}
        fn event(&mut self, _: Event) {}
    }
    let dir = directory();
    let mut process = Inline::start(&options(dir.path(), "a")).expect("starts");
    let belief = process.belief();
    assert_eq!(belief.look().membership, Membership::Searching);
    let begun = Instant::now();
    while belief.look().membership != Membership::Primary {
        process.poll(&mut App);
        assert!(begun.elapsed() < PATIENCE, "it founds its cell");
    }
    let rests = Duration::from_millis(100);
    thread::sleep(rests);
    let old = thread::scope(|scope| scope.spawn(|| belief.look()).join().expect("no panic"));
    assert!(old.age >= rests && old.membership == Membership::Primary, "{old:?}");
    assert!(!old.is_primary(rests - Duration::from_millis(1)) && old.is_primary(old.age));
    let turning = Instant::now();
    process.wait(Some(Duration::ZERO)).expect("waits");
    process.poll(&mut App);
    assert!(belief.look().age <= turning.elapsed(), "the turn renewed it");
    drop(process);
    assert_eq!(belief.look().membership, Membership::Over);
}

#[test]
fn an_incarnation_that_is_given_up_reports_its_unsent_multicasts() {
    #[derive(Default)]
    struct App {
        group: Option<GroupId>,
        members: usize,
        primary: bool,
        told: Vec<String>,
        sent: u64,
    }
    impl Handler for App {
        fn begin(&mut self, _: &MemberInfo) {
            self.told.push("begin".to_owned());
        }
        fn sent(&mut self, _: GroupId, _: ViewNumber, _: Sequence, _: Order, _: Uniformity, _: &[u8]) {
            self.sent += 1;
        }
        fn deliver(&mut self, _: &Delivery<'_>) {}
        fn event(&mut self, event: Event) {
            match event {
                Event::GroupView(view) => (self.group, self.members) = (Some(view.group), view.members.len()),
                Event::NonPrimary { .. } => self.primary = false,
                Event::CellView(_) => self.primary = true,
                Event::Unsent { messages, .. } => self.told.push(messages.to_string()),
                _ => {}
            }
        }
    }
    let dir = directory();
    let start = |name: &str| {
        let mut options = options(dir.path(), name);
        let limits = &mut options.config.limits;
        (limits.group_window_bytes, limits.outbox_bytes) = (64 << 10, 16 << 10);
        let (mut process, mut app) = (Inline::start(&options).expect("starts"), App::default());
        process.join_group("g", false, GroupTerms::default(), &mut app).expect("a good name");
        (process, app)
    };
    let mut elder = vec![start("elder")];
    poll_until(&mut elder, |members| members[0].1.members == 1);
    let mut both = vec![elder.remove(0), start("younger")];
    poll_until(&mut both, |members| members[1].1.members == 2);
    // The elder dies.
    drop(both.remove(0));
    poll_until(&mut both, |members| !members[0].1.primary);
    let (mut process, mut app) = both.remove(0);
    let group = app.group.expect("in the group");
    let mut accepted = 0_u64;
    let refused = loop {
        match process.multicast(group, Order::Fifo, Stability::Plain, &[7; 2_000], &mut app) {
            Ok(taken) => {
                accepted += 1;
                app.sent += u64::from(taken.sent.is_some());
            }
            Err(refused) => break refused,
        }
        process.poll(&mut app);
    };
    assert_eq!(refused, CommandError::NoCredit);
    process.begin_anew();
    process.poll(&mut app);
    let unsent = accepted - app.sent;
    assert!(unsent > 0);
    assert_eq!(app.told, ["begin", &unsent.to_string(), "begin"], "once, and as the end of the life that accepted it");
}

/// Keeps all payloads, in order.
#[derive(Default)]
struct Log {
    group: Option<GroupId>,
    members: usize,
    delivered: Vec<Vec<u8>>,
    direct: Vec<(Incarnation, Vec<u8>)>,
}

impl Handler for Log {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.delivered.push(delivery.payload.to_vec());
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            (self.group, self.members) = (Some(view.group), view.members.len());
        }
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.direct.push((from, payload.to_vec()));
    }
}

#[test]
fn nothing_is_lost_over_a_bad_network() {
    const EACH: u32 = 300;
    let dir = directory();
    let faults = Faults { loss_ppm: 20_000, duplicate_ppm: 20_000, reorder_ppm: 20_000 };
    let start = |number: u64| {
        let options = Options { faults: Some((faults, number)), ..options(dir.path(), &format!("n{number}")) };
        let (mut process, mut log) = (Inline::start_lossy(&options).expect("starts"), Log::default());
        process.join_group("g", false, GroupTerms::default(), &mut log).expect("a good name");
        (process, log)
    };
    let mut members = [0, 1, 2].map(start);
    poll_until(&mut members, |members| members.iter().all(|(_, log)| log.members == 3));
    let mut accepted = [0; 3];
    poll_until(&mut members, |members| {
        for ((process, log), accepted) in members.iter_mut().zip(&mut accepted) {
            let group = log.group.expect("in the group");
            while *accepted < EACH {
                let payload = [&accepted.to_le_bytes()[..], &[1; 500]].concat();
                match process.multicast(group, Order::Total, Stability::Plain, &payload, log) {
                    Ok(_) => *accepted += 1,
                    Err(CommandError::NoCredit) => break,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        members.iter().all(|(_, log)| log.delivered.len() == 3 * EACH as usize)
    });
    assert!(members.iter().all(|(_, log)| log.delivered == members[0].1.delivered), "one order for all");
}

#[test]
fn direct_messages_arrive_in_order() {
    let dir = directory();
    let start = |name: &str| {
        let (mut process, mut log) = (Inline::start(&options(dir.path(), name)).expect("starts"), Log::default());
        process.join_group("g", false, GroupTerms::default(), &mut log).expect("a good name");
        (process, log)
    };
    let mut members = ["a", "b"].map(start);
    poll_until(&mut members, |members| members.iter().all(|(_, log)| log.members == 2));
    let ids = members.each_ref().map(|(process, _)| process.node().incarnation());
    let (a, log) = &mut members[0];
    for number in 0..300_u32 {
        a.send(ids[1], &number.to_le_bytes(), log).expect("accepted");
    }
    poll_until(&mut members, |members| members[1].1.direct.len() == 300);
    let sent: Vec<_> = (0..300_u32).map(|number| (ids[0], number.to_le_bytes().to_vec())).collect();
    assert_eq!(members[1].1.direct, sent);
}

#[test]
fn a_failed_start_says_what_to_do() {
    let dir = directory();
    let mut open = options(dir.path(), "a");
    open.config.bind = "0.0.0.0".parse().expect("an address");
    match Inline::start(&open).map(drop) {
        Err(error @ StartError::NoKey { .. }) => assert!(error.to_string().contains("copy"), "{error}"),
        other => panic!("{other:?}"),
    }
    open.config.security = SecurityMode::None;
    match Inline::start(&open).map(drop) {
        Err(error @ StartError::NoAddress { .. }) => assert!(error.to_string().contains("bind"), "{error}"),
        other => panic!("{other:?}"),
    }
    open.config.seeds = vec!["127.0.0.1:9".to_owned()];
    Inline::start(&open).map(drop).expect("towards a seed the address is known");

    let mut seeds = options(dir.path(), "a");
    seeds.config.seeds = vec!["no port".to_owned()];
    assert!(matches!(Inline::start(&seeds).map(drop), Err(StartError::Seed { .. })));

    let mut name = options(dir.path(), &"x".repeat(201));
    assert!(matches!(Inline::start(&name).map(drop), Err(StartError::BadName { what: "process", .. })));
    name.config.cell = String::new();
    assert!(matches!(Inline::start(&name).map(drop), Err(StartError::BadName { what: "cell", .. })));

    let local = crate::common::local(dir.path());
    assert_eq!(local.living().expect("readable"), [], "a failed start leaves nothing behind");
}

#[test]
fn founders_are_named_once_and_are_not_too_many() {
    let dir = directory();
    let many: Vec<String> = (0..65).map(|number| format!("f{number}")).collect();
    let twice = ["x", "y", "x"].map(str::to_owned).to_vec();
    for (founders, told) in [(twice, "'x' stands there twice"), (many, "65 names are too many")] {
        let mut options = options(dir.path(), &founders[0]);
        options.config.founders = founders;
        let error = Inline::start(&options).map(drop).expect_err("refused");
        assert!(matches!(error, StartError::BadFounders { .. }) && error.to_string().contains(told), "{error}");
    }
    let mut nameless = Options::from(Config {
        driver: DriverMode::Udp,
        runtime_dir: Some(crate::common::run(dir.path())),
        state_dir: Some(crate::common::state(dir.path())),
        ..Config::default()
    });
    nameless.founding = Some(Founding::Named(vec!["x".to_owned()]));
    let error = Inline::start(&nameless).map(drop).expect_err("refused");
    assert!(matches!(error, StartError::NamelessFounder), "{error}");
}
