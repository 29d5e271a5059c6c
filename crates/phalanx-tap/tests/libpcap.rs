//! libpcap as an oracle: it executes the same programs, and compiles the same texts. It is no dependency: the tests load it
//! when they run, and skip themselves, visibly, where it is missing.

#[path = "libpcap/filters.rs"]
mod filters;
#[path = "libpcap/library.rs"]
mod library;

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::thread;

use phalanx_core::rng::Rng;
use phalanx_tap::{FLAGS_AT, Filter, Instruction, Layout, NoNames, Packet, Program, UdpPreamble, opcode};

use crate::draw;
use library::Library;

/// The verdict of filters that take a packet, as libpcap writes it.
const SNAP: u32 = 262_144;

/// The library, or a report that the calling test cannot run here.
fn library() -> Option<Library> {
    let library = Library::load();
    if library.is_none() {
        skip("libpcap is not installed (the package libpcap0.8)");
    }
    library
}

/// Reports that the calling test cannot run on this machine. The test harness counts it as passed, so `./x test` lists it
/// from the file that `STEP_SKIPS` names.
fn skip(why: &str) {
    let ci = std::env::var_os("PHALANX_CI").is_some_and(|value| value == "1");
    assert!(!ci, "with PHALANX_CI=1 a skipped test is a failure: {why}");
    let line = format!("{}: {why}", thread::current().name().unwrap_or("a test of the packet filter"));
    eprintln!("skipped: {line}");
    if let Some(file) = std::env::var_os("STEP_SKIPS") {
        let opened = OpenOptions::new().append(true).open(file);
        opened.and_then(|mut file| writeln!(file, "{line}")).expect("the list of what is skipped can be written");
    }
}

/// A random program that the verifier takes.
fn program(rng: &mut Rng) -> Program {
    const LOADS: [u16; 7] = [
        opcode::LD_WORD,
        opcode::LD_HALF,
        opcode::LD_BYTE,
        opcode::LD_WORD_AT_X,
        opcode::LD_HALF_AT_X,
        opcode::LD_BYTE_AT_X,
        opcode::LDX_MSH,
    ];
    const OTHERS: [u16; 9] = [
        opcode::LD_IMM,
        opcode::LD_LEN,
        opcode::LDX_IMM,
        opcode::LDX_LEN,
        opcode::NEG,
        opcode::TAX,
        opcode::TXA,
        opcode::JA,
        opcode::RET_A,
    ];
    const SCRATCH: [u16; 4] = [opcode::ST, opcode::STX, opcode::LD_MEM, opcode::LDX_MEM];
    const CALC: [u16; 10] = [
        opcode::ADD,
        opcode::SUB,
        opcode::MUL,
        opcode::DIV,
        opcode::OR,
        opcode::AND,
        opcode::LSH,
        opcode::RSH,
        opcode::MOD,
        opcode::XOR,
    ];
    const JUMPS: [u16; 4] = [opcode::JEQ, opcode::JGT, opcode::JGE, opcode::JSET];
    loop {
        let count = 1 + draw::index(rng, 20);
        let mut instructions: Vec<Instruction> = (0..count)
            .map(|_| {
                let is_x = if rng.below(2) == 0 { opcode::X } else { 0 };
                let code = match rng.below(12) {
                    0..4 => *draw::one(rng, &LOADS),
                    4 | 5 => *draw::one(rng, &OTHERS),
                    6 => *draw::one(rng, &SCRATCH),
                    7..9 => *draw::one(rng, &CALC) | is_x,
                    _ => *draw::one(rng, &JUMPS) | is_x,
                };
                let k = match rng.below(16) {
                    0 => rng.next_u64() as u32,
                    1 => u32::MAX - rng.below(4) as u32,
                    2..5 => rng.below(4) as u32,
                    _ => rng.below(48) as u32,
                };
                Instruction { code, yes: rng.below(4) as u8, no: rng.below(4) as u8, k }
            })
            .collect();
        instructions.push(Instruction::new(*draw::one(rng, &[opcode::RET_A, opcode::RET]), 77));
        let has_flags = instructions.iter().any(|one| one.code == opcode::LD_WORD && one.k == FLAGS_AT);
        // Many random programs are refused, for their jumps and scratch words above all.
        if let (Ok(program), false) = (Program::new(&instructions), has_flags) {
            return program;
        }
    }
}

#[test]
fn programs_have_the_verdicts_that_libpcap_gives() {
    let Some(library) = library() else { return };
    let mut rng = draw::rng("programs");
    let (mut taken, mut steps) = (0, 0);
    for _ in 0..20_000 {
        let program = program(&mut rng);
        assert!(library.accepts(program.instructions()), "{:?}", program.instructions());
        for _ in 0..5 {
            let count = draw::index(&mut rng, 64);
            let bytes = draw::bytes(&mut rng, count);
            let whole = u32::try_from(count).expect("it is short") + rng.below(2) as u32 * 100;
            let packet = draw::cut(&mut rng, &bytes).of_len(whole);
            let (verdict, executed) = program.run_counted(&packet);
            let expected = library.verdict(program.instructions(), &bytes, whole);
            assert_eq!(verdict, expected, "{:?} of {bytes:?}, {whole} as a whole", program.instructions());
            taken += usize::from(verdict != 0);
            steps += executed;
        }
    }
    // Neither nearly all nor nearly none, and not all at the first instruction.
    assert!((10_000..90_000).contains(&taken), "{taken} of 100,000 were taken");
    assert!(steps > 300_000, "{steps} instructions were executed");
}

#[test]
fn what_libpcap_refuses_is_refused_here() {
    let Some(library) = library() else { return };
    let mut rng = draw::rng("refusals");
    let mut refused = 0;
    for _ in 0..100_000 {
        let count = 1 + draw::index(&mut rng, 5);
        let instructions: Vec<Instruction> = (0..count)
            .map(|_| Instruction {
                code: rng.below(256) as u16,
                yes: rng.below(3) as u8,
                no: rng.below(3) as u8,
                k: if rng.below(4) == 0 { rng.next_u64() as u32 } else { rng.below(20) as u32 },
            })
            .collect();
        let accepts = library.accepts(&instructions);
        refused += usize::from(!accepts);
        assert!(accepts || Program::new(&instructions).is_err(), "{instructions:?}");
    }
    assert!(refused > 10_000, "{refused} were refused");
}

/// A packet as a capture file has it, of which `held` bytes are there.
struct Captured {
    preamble: UdpPreamble,
    payload: Vec<u8>,
    held: usize,
}

impl Captured {
    fn draw(rng: &mut Rng) -> Self {
        let count = draw::index(rng, 160);
        let (from, to) = draw::addresses(rng);
        let preamble = UdpPreamble::new(from, to, count);
        let whole = preamble.bytes().len() + count;
        // The preamble is always there.
        let held = if rng.below(4) == 0 { preamble.bytes().len() + draw::index(rng, count + 1) } else { whole };
        Self { preamble, payload: draw::bytes(rng, count), held }
    }

    fn whole(&self) -> u32 {
        u32::try_from(self.preamble.bytes().len() + self.payload.len()).expect("it is short")
    }

    /// All of its bytes that are there.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.preamble.bytes(), &self.payload].concat();
        bytes.truncate(self.held);
        bytes
    }

    /// The same, as a tap shows it, with the payload in two parts.
    fn packet(&self) -> Packet<'_> {
        let payload = &self.payload[..self.held - self.preamble.bytes().len()];
        let (header, frames) = payload.split_at(payload.len().min(24));
        Packet::new(self.preamble.bytes(), [header, frames, &[]]).of_len(self.whole())
    }
}

/// What came of a comparison.
#[derive(Default)]
struct Compared {
    /// Packets that the filter takes.
    taken: usize,
    /// Packets that libpcap judges in another way with its optimiser than without.
    split: usize,
}

/// Compares all ways to a verdict for one text.
///
/// The program of libpcap that is not optimised is what the text means. The optimiser leaves a load or a division out if
/// the verdict does not depend on its result, also if it would have rejected the packet; and it has an error of its own
/// (1.10.3: of `udp port 7001 or ip6 or greater 56 or ip` it loses the last test). So libpcap may disagree with itself.
///
/// `None`: libpcap refuses the text, because it takes a divisor such as `ip[0]` for the constant 0.
fn compare(library: &Library, text: &str, captured: &[Captured]) -> Option<Compared> {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let ours = [Layout::Ipv4, Layout::Ipv6].map(|layout| {
        let compiled = filter.compile(layout, &NoNames, SNAP);
        compiled.unwrap_or_else(|error| panic!("{text}: {error}")).program
    });
    let mut theirs = Vec::new();
    for optimised in [false, true] {
        let instructions = match library.compile(text, optimised) {
            Err(error) if ["division by zero", "modulus by zero"].contains(&&*error) => return None,
            instructions => instructions.unwrap_or_else(|error| panic!("libpcap refuses {text}: {error}")),
        };
        theirs.push((Program::new(&instructions).unwrap_or_else(|error| panic!("{text}: {error}")), instructions));
    }
    let mut compared = Compared::default();
    for one in captured {
        let (packet, bytes) = (one.packet(), one.bytes());
        let verdict = ours[usize::from(one.preamble.layout() == Layout::Ipv6)].run(&packet);
        let verdicts = theirs.iter().map(|(program, instructions)| {
            let verdict = library.verdict(instructions, &bytes, one.whole());
            assert_eq!(program.run(&packet), verdict, "{text}: libpcap's program, executed here");
            verdict
        });
        let verdicts: Vec<u32> = verdicts.collect();
        assert_eq!(verdict, verdicts[0], "{text}\n{:?}\n{bytes:?}", theirs[0]);
        compared.taken += usize::from(verdict != 0);
        compared.split += usize::from(verdict != verdicts[1]);
    }
    Some(compared)
}

#[test]
fn filters_choose_the_packets_that_libpcap_chooses() {
    let Some(library) = library() else { return };
    let mut rng = draw::rng("filters");
    let captured: Vec<Captured> = (0..100).map(|_| Captured::draw(&mut rng)).collect();
    let (mut some, mut split, mut count) = (0, 0, 0);
    for _ in 0..1_500 {
        let text = filters::filter(&mut rng);
        let Some(compared) = compare(&library, &text, &captured) else { continue };
        count += captured.len();
        some += usize::from((1..captured.len()).contains(&compared.taken));
        split += compared.split;
    }
    assert!(some > 500, "{some} of 1,500 filters took some packets and left others");
    assert!(count > 140_000, "{count} of 150,000 verdicts were compared");
    assert!(split < count / 30, "libpcap disagreed with itself about {split} of {count} verdicts");
}

#[test]
fn filters_of_the_manual_choose_the_packets_that_libpcap_chooses() {
    let Some(library) = library() else { return };
    let mut rng = draw::rng("manual");
    let captured: Vec<Captured> = (0..400).map(|_| Captured::draw(&mut rng)).collect();
    for text in filters::MANUAL {
        let compared = compare(&library, text, &captured);
        assert_eq!(compared.map(|compared| compared.split), Some(0), "{text}");
    }
}

#[test]
fn tcpdump_finds_the_same_packets_in_a_file() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skip("tcpdump is not installed (the package tcpdump)");
    }
    let mut rng = draw::rng("files");
    let captured: Vec<Captured> = (0..200).map(|_| Captured::draw(&mut rng)).collect();
    let folder = std::env::temp_dir().join(format!("phalanx-tap-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder of the test's own");
    let (file, found) = (folder.join("all.pcap"), folder.join("found.pcap"));
    std::fs::write(&file, capture_file(&captured)).expect("a small file");
    for text in filters::MANUAL {
        let filter = Filter::parse(text).expect("a filter");
        let ours = captured.iter().filter(|one| {
            let program = filter.compile(one.preamble.layout(), &NoNames, SNAP).expect("a program").program;
            program.run(&one.packet()) != 0
        });
        let expected = capture_file(ours);
        let output = Command::new("tcpdump").arg("-r").arg(&file).arg("-w").arg(&found).arg(text).output();
        let output = output.expect("tcpdump runs");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(&found).expect("what tcpdump found"), expected, "{text}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// A capture file of raw IP packets, in the format that tcpdump writes on this machine.
fn capture_file<'c>(captured: impl IntoIterator<Item = &'c Captured>) -> Vec<u8> {
    let mut file = Vec::new();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    file.extend(words(&[0xa1b2_c3d4]));
    file.extend(2_u16.to_ne_bytes().into_iter().chain(4_u16.to_ne_bytes()));
    // Raw IP in files is 101.
    file.extend(words(&[0, 0, SNAP, 101]));
    for one in captured {
        file.extend(words(&[0, 0, u32::try_from(one.held).expect("it is short"), one.whole()]));
        file.extend(one.bytes());
    }
    file
}
