//! A member that holds the cell key and sends nonsense: the others may drop it, exclude it, or ignore it; they do
//! not panic, do not grow without bound, and their invariants hold. Who has no key does nothing at all.

use std::path::Path;

use live::memory::Counting;
use live::{Account, Edit, LiveCell, Step};
use phalanx_core::rng::Rng;

mod live;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that begin like frames more often than chance would have it.
fn frames(rng: &mut Rng) -> Vec<u8> {
    let longest = if rng.chance_ppm(100_000) { 1300 } else { 60 };
    let len = usize::try_from(rng.below(longest)).expect("small");
    let mut bytes: Vec<u8> = (0..len).map(|_| byte(rng)).collect();
    for (at, byte) in bytes.iter_mut().enumerate() {
        if at == 0 || rng.chance_ppm(300_000) {
            *byte = u8::try_from(rng.below(16)).expect("small") | if rng.chance_ppm(400_000) { 0x80 } else { 0 };
        }
    }
    bytes
}

fn byte(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).expect("a byte")
}

fn short(rng: &mut Rng, below: u64) -> u16 {
    u16::try_from(rng.below(below)).expect("short")
}

/// What a network does, and an application, and processes that die.
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

/// What a traitor does.
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
            frames: frames(rng),
        },
        1 => Step::Speak { from, to, data: rng.chance_ppm(400_000), message: frames(rng) },
        _ => {
            let edit = |rng: &mut Rng| Edit { how: byte(rng), at: short(rng, 100), value: byte(rng) >> rng.below(8) };
            Step::Twist { which: from, edits: (0..=rng.below(4)).map(|_| edit(rng)).collect() }
        }
    }
}

/// Runs the steps by way of their bytes, so that those are tested too.
fn run(sealed: bool, steps: &[Step]) -> Account {
    let mut bytes = vec![u8::from(!sealed)];
    steps.iter().for_each(|step| step.write(&mut bytes));
    assert_eq!(Step::read_all(&bytes[1..]), steps);
    live::run(&bytes)
}

#[test]
fn nonsense_behind_the_seal_does_no_harm() {
    let mut forged = 0;
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let steps: Vec<Step> =
            (0..300).map(|_| if rng.chance_ppm(600_000) { hostile(&mut rng) } else { honest(&mut rng) }).collect();
        forged += run(seed % 4 > 0, &steps).forged;
    }
    assert!(forged > 10_000, "{forged}");
}

#[test]
fn an_honest_cell_agrees_whatever_its_network_does() {
    let (mut delivered, mut refused, mut restarts) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(1000 + seed);
        let steps: Vec<Step> = (0..300).map(|_| honest(&mut rng)).collect();
        let account = run(seed % 4 > 0, &steps);
        assert_eq!(account.forged, 0);
        delivered += account.delivered;
        refused += account.refused;
        restarts += account.restarts;
    }
    assert!(delivered > 5000 && refused > 1000 && restarts > 100, "{delivered} {refused} {restarts}");
}

/// Inputs that found something, or reach far: see `fuzz/README.md`.
#[test]
fn kept_inputs_do_no_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/live");
    let mut runs = 0;
    for entry in folder.read_dir().expect("inputs are kept in fuzz/seeds") {
        let path = entry.expect("a readable folder").path();
        println!("{}", path.display());
        live::run(&std::fs::read(&path).expect("a readable file"));
        runs += 1;
    }
    assert!(runs > 10, "{runs} inputs");
}

#[test]
fn without_the_key_nothing_happens() {
    let mut cell = LiveCell::found(true);
    let mut rng = Rng::new(1);
    for i in 0..50_000u64 {
        let (to, kind, seals) = (byte(&mut rng), byte(&mut rng), i % 16 == 0);
        cell.take(&Step::Intrude { to, kind, seals, frames: frames(&mut rng) });
    }
    assert_eq!(cell.account().refused, 50_000);
}
