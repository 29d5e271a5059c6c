//! A member that holds the cell key and sends nonsense: the others may drop it, exclude it, or ignore it; they do
//! not panic, do not grow without bound, and their invariants hold. A sender without the key has no effect at all.

use std::path::Path;

use live::memory::Counting;
use live::steps::Edit;
use live::{Account, LiveCell, Step};
use phalanx_core::rng::Rng;
use speech::Speech;

#[path = "live/mod.rs"]
mod live;
#[path = "live/speech.rs"]
mod speech;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn byte(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).expect("a byte")
}

fn short(rng: &mut Rng, below: u64) -> u16 {
    u16::try_from(rng.below(below)).expect("short")
}

/// A step of the network, of an application, or of a process that dies.
fn honest(rng: &mut Rng) -> Step {
    let (which, who) = (byte(rng), byte(rng));
    match rng.below(40) {
        0..12 => Step::Wait { n: byte(rng) >> rng.below(6) },
        12..15 => Step::Deliver { which },
        15..18 => Step::Lose { which },
        18..20 => Step::Duplicate { which },
        20..23 => Step::Delay { which, ms: byte(rng) },
        23..27 => Step::Damage { which, at: short(rng, 1500), mask: byte(rng) },
        27..33 => Step::Multicast { who, how: byte(rng), len: short(rng, 3000) },
        33..35 => Step::Message { who, to: byte(rng), len: short(rng, 60_000) },
        35 => Step::Busy { who },
        36 if rng.chance_ppm(400_000) => Step::Group { who, which: byte(rng) },
        37 if rng.chance_ppm(400_000) => Step::Crash { who, told: rng.chance_ppm(500_000) },
        38 if rng.chance_ppm(100_000) => Step::Leave { who },
        39 => Step::Restart { who },
        _ => Step::Multicast { who, how: byte(rng) & 0x7f, len: short(rng, 300) },
    }
}

/// A step of a traitor.
fn hostile(rng: &mut Rng) -> Step {
    let (from, to) = (byte(rng), byte(rng));
    match rng.below(3) {
        0 => Step::Forge {
            from,
            to,
            kind: byte(rng),
            space: byte(rng),
            number: byte(rng) >> rng.below(8),
            times: byte(rng) >> rng.below(8),
            frames: Speech(rng).frames(),
        },
        1 if rng.chance_ppm(400_000) => Step::Speak { from, to, data: true, message: Speech(rng).data() },
        1 => Step::Speak { from, to, data: false, message: Speech(rng).control() },
        _ => {
            let edit = |rng: &mut Rng| Edit { how: byte(rng), at: short(rng, 100), value: byte(rng) >> rng.below(8) };
            Step::Twist { which: from, edits: (0..=rng.below(4)).map(|_| edit(rng)).collect() }
        }
    }
}

/// The seeds to run. A longer hunt: `PHALANX_HOSTILE_SEEDS=1000..5000`.
#[expect(clippy::disallowed_methods, reason = "the caller of the test may choose the seeds")]
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("PHALANX_HOSTILE_SEEDS") else { return 0..150 };
    let bounds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    bounds.unwrap_or_else(|| panic!("PHALANX_HOSTILE_SEEDS is '{text}'; write it like 1000..5000"))
}

/// Runs the steps through their byte encoding, so that it is tested too.
fn run(sealed: bool, steps: &[Step]) -> Account {
    let mut bytes = vec![u8::from(!sealed)];
    steps.iter().for_each(|step| step.write(&mut bytes));
    assert_eq!(Step::read_all(&bytes[1..]), steps);
    live::run(&bytes)
}

#[test]
fn nonsense_behind_the_seal_does_no_harm() {
    let mut forged = 0;
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let steps: Vec<Step> =
            (0..300).map(|_| if rng.chance_ppm(600_000) { hostile(&mut rng) } else { honest(&mut rng) }).collect();
        eprintln!("seed {seed}");
        forged += run(seed % 4 > 0, &steps).forged;
    }
    assert!(forged > 10_000, "{forged}");
}

#[test]
fn an_honest_cell_agrees_whatever_its_network_does() {
    let (mut delivered, mut refused, mut restarts) = (0, 0, 0);
    for seed in seeds() {
        let mut rng = Rng::new(!seed);
        let steps: Vec<Step> = (0..300).map(|_| honest(&mut rng)).collect();
        let account = run(seed % 4 > 0, &steps);
        assert_eq!(account.forged, 0);
        delivered += account.delivered;
        refused += account.refused;
        restarts += account.restarts;
    }
    assert!(delivered > 5000 && refused > 1000 && restarts > 100, "{delivered} {refused} {restarts}");
}

/// Messages to an application that takes nothing wait at their sender, within bounds, and none is lost.
#[test]
fn an_application_that_takes_nothing_costs_no_more_than_its_windows() {
    let before = live::memory::start();
    let mut cell = LiveCell::found(true);
    let busy = Step::Busy { who: 1 };
    cell.take(&busy);
    for _ in 0..2000 {
        cell.take(&Step::Message { who: 0, to: 1, len: 50_000 });
        cell.take(&Step::Message { who: 2, to: 1, len: 0 });
        cell.take(&Step::Wait { n: 10 });
    }
    let (sent, held) = (cell.account().sent_bytes, live::memory::peak() - before);
    assert!(held < 8 << 20, "{held} bytes are held");
    assert_eq!(cell.account().received_bytes, 0);
    cell.take(&busy);
    (0..20).for_each(|_| cell.take(&Step::Wait { n: 255 }));
    assert_eq!(cell.account().received_bytes, sent);
    assert!(sent > 500_000, "{sent}");
}

/// The inputs kept for the fuzzer, see `fuzz/README.md`. Those made here begin with `made`. The others found something
/// or reach far.
#[test]
#[expect(clippy::disallowed_methods, reason = "the caller of the test chooses whether it writes the inputs")]
fn kept_inputs_do_no_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/live");
    let write = std::env::var_os("PHALANX_WRITE_SEEDS").is_some();
    for (name, bytes) in made_inputs() {
        let path = folder.join(format!("made-{name}"));
        if write {
            std::fs::write(&path, &bytes).expect("the folder is there");
        }
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(kept == bytes, "{name} is not as it is made: run this test with PHALANX_WRITE_SEEDS=1");
    }
    for entry in folder.read_dir().expect("inputs are kept in fuzz/seeds") {
        let path = entry.expect("a readable folder").path();
        eprintln!("{}", path.display());
        live::run(&std::fs::read(&path).expect("a readable file"));
    }
}

/// A few inputs for each kind of step.
fn made_inputs() -> Vec<(String, Vec<u8>)> {
    type Make = fn(&mut Rng) -> Step;
    let kinds: [(&str, Make); 6] = [
        ("honest", honest),
        ("hostile", hostile),
        ("control", |rng| Step::Speak { from: byte(rng), to: byte(rng), data: false, message: Speech(rng).control() }),
        ("data", |rng| Step::Speak { from: byte(rng), to: byte(rng), data: true, message: Speech(rng).data() }),
        ("frames", |rng| Step::Forge {
            from: byte(rng),
            to: byte(rng),
            kind: byte(rng),
            space: byte(rng) >> 1,
            number: 0,
            times: 0,
            frames: Speech(rng).frames(),
        }),
        ("intruder", |rng| Step::Intrude {
            to: byte(rng),
            kind: byte(rng),
            seals: rng.chance_ppm(500_000),
            frames: Speech(rng).frames(),
        }),
    ];
    let mut inputs = Vec::new();
    for (kind, make) in kinds {
        for i in 0..3u8 {
            let mut rng = Rng::new(u64::from(i)).fork(kind);
            let mut bytes = vec![i];
            for _ in 0..12 {
                make(&mut rng).write(&mut bytes);
                honest(&mut rng).write(&mut bytes);
            }
            inputs.push((format!("{kind}-{i}"), bytes));
        }
    }
    inputs
}

#[test]
fn without_the_key_nothing_happens() {
    let mut cell = LiveCell::found(true);
    let mut rng = Rng::new(1);
    for i in 0..50_000u64 {
        let (to, kind, seals) = (byte(&mut rng), byte(&mut rng), i % 16 == 0);
        cell.take(&Step::Intrude { to, kind, seals, frames: Speech(&mut rng).frames() });
    }
    assert_eq!(cell.account().refused, 50_000);
}
