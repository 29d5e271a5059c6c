//! A writer in a process of its own, killed at any instruction.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use phalanx_core::rng::Rng;

use super::*;

/// The record with that number: its length and bytes follow from the number.
fn record(number: u64) -> Vec<u8> {
    let len = 8 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
    let mut bytes: Vec<u8> = (0..len as u64).map(|i| (number.wrapping_mul(7) + i) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The child's side. In the parent's own test run there is nothing to do.
#[test]
fn writes_until_it_is_killed() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let numbers: Vec<u32> = told.split(' ').map(|n| n.parse().expect("a number")).collect();
    let [pid, memory, doorbell, data, control] = numbers[..] else { panic!("five numbers: {told}") };
    let local = |port: u32| SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")));
    let parent =
        Peer { offer: Offer { pid, memory, doorbell }, token: PARENT, data: local(data), control: local(control) };
    let mut driver = small(&ShmOptions { data_ring_bytes: 1 << 20, ..ShmOptions::default() });
    driver.begin_incarnation(u64::from(std::process::id()));
    driver.attach(&parent).expect("the parent lives");
    let offer = driver.offer().expect("memory");
    let ports = [TrafficClass::Data, TrafficClass::Control].map(|class| driver.local_address(class).port());
    let said = format!("\n{MARK}{} {} {} {} {}\n", offer.pid, offer.memory, offer.doorbell, ports[0], ports[1]);
    io::stdout().write_all(said.as_bytes()).expect("the parent reads");
    let to = [parent.data];
    for number in 0.. {
        while driver.outbox().write_shared(TrafficClass::Data, &to, [&[], &[], &record(number)]) == 0 {
            driver.flush();
            thread::yield_now();
        }
        if number % 5 == 0 {
            driver.flush();
        }
        if number % 64 == 0 {
            // Gives the reader a chance, so that it is not overtaken all the time.
            thread::yield_now();
        }
    }
}

#[test]
fn every_record_of_a_writer_that_is_killed_is_whole() {
    let started = Instant::now();
    let mut driver = make();
    driver.begin_incarnation(PARENT);
    let mut rng = Rng::new(5).fork("kills");
    let (mut kills, mut records) = (0_u64, 0);
    while kills < 200 && (kills < 20 || started.elapsed() < Duration::from_secs(10)) {
        records += one_life(&mut driver, &mut rng);
        kills += 1;
    }
    assert_eq!(driver.link_stats().broken, 0, "after {kills} kills");
    assert!(records > kills, "{records} records of {kills} writers");
}

fn one_life(driver: &mut Near, rng: &mut Rng) -> u64 {
    let offer = driver.offer().expect("memory");
    let ports = [TrafficClass::Data, TrafficClass::Control].map(|class| driver.local_address(class).port());
    let mut process = Command::new(std::env::current_exe().expect("a test program has a path"))
        .args(["--exact", "shm::tests::child::writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(TOLD, format!("{} {} {} {} {}", offer.pid, offer.memory, offer.doorbell, ports[0], ports[1]))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a test program starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let said = lines.find_map(|line| line.expect("text").split_once(MARK).map(|(_, said)| said.to_owned()));
    let said = said.expect("the child says where it is");
    let numbers: Vec<u32> = said.split(' ').map(|n| n.parse().expect("a number")).collect();
    let [pid, memory, doorbell, data, control] = numbers[..] else { panic!("five numbers: {said}") };
    let local = |port: u32| SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")));
    let token = u64::from(pid);
    let child = Peer { offer: Offer { pid, memory, doorbell }, token, data: local(data), control: local(control) };
    driver.attach(&child).expect("the child lives");
    let enough = 1 + rng.below(500);
    let (mut next, mut records) = (0, 0);
    let mut check = |driver: &mut Near| {
        driver.flush();
        let taken = driver.receive(64, &mut |_, _, origin, packet| {
            assert_eq!(origin, Origin::Memory);
            let number = u64::from_le_bytes(packet[..8].try_into().expect("eight bytes"));
            assert!(number >= next, "{number} came after {next}");
            assert!(*packet == record(number), "record {number} is not whole");
            next = number + 1;
            records += 1;
        });
        taken.packets
    };
    let mut seen = 0;
    while seen < enough {
        let more = check(driver) as u64;
        seen += more;
        if more == 0 {
            driver.wait(Some(Duration::from_millis(1)), &[]).expect("waiting works");
        }
    }
    process.kill().expect("it lives");
    process.wait().expect("it was killed");
    while check(driver) > 0 {}
    driver.detach(token);
    records
}

const TOLD: &str = "PHALANX_TEST_SHM";
const MARK: &str = "writer: ";
const PARENT: u64 = u64::MAX;
