//! Golden vectors: the bytes of the format as other implementations, and older releases, see them.
//!
//! `tests/golden/README.md` says how the files are read and when they may be written again.

use std::fmt::Write as _;
use std::path::PathBuf;

use phalanx_core::Incarnation;
use phalanx_core::seal::{CellKey, CookieKey, Opener, Sealer, Security};
use phalanx_core::wire::codec::{put_prefixed, put_varint};
use phalanx_core::wire::{Header, Kind, Reader, cell_tag};

const CELL: &str = "golden";
const SENDER: Incarnation = Incarnation(0x0102_0304_0506_0708);
const DEST: Incarnation = Incarnation(0x1112_1314_1516_1718);
const SPACE: u32 = 0x2122_2324;
const NUMBER: u64 = 0x3132_3334_3536_3738;
const FRAMES: &[u8] = b"the frames of a golden packet";

const KINDS: [(&str, Kind); 6] = [
    ("greeting", Kind::Greeting),
    ("direct", Kind::Direct),
    ("spread", Kind::Spread),
    ("control", Kind::Control),
    ("data", Kind::Data),
    ("multicast", Kind::Multicast),
];

const VARINTS: [u64; 12] =
    [0, 1, 127, 128, 300, 16_383, 16_384, u32::MAX as u64, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];

/// Named byte strings, in the order of their file.
type Vectors = Vec<(String, Vec<u8>)>;

#[test]
fn headers() {
    let file = "header.txt";
    hold(file, KINDS.map(|(name, kind)| (name.to_owned(), header(kind).to_bytes().to_vec())).to_vec());
    for ((_, bytes), (_, kind)) in read(file).into_iter().zip(KINDS) {
        assert_eq!(Header::parse(&bytes), Ok(header(kind)));
    }
}

#[test]
fn cell_tags() {
    let tag = |name: &str| (name.to_owned(), cell_tag(name).to_le_bytes()[..3].to_vec());
    hold("cell_tag.txt", vec![tag("golden"), tag("home"), tag("Zürich")]);
}

#[test]
fn sealed_packets() {
    packets("sealed.txt", &Security::Sealed(CellKey::from_bytes(counting())));
}

#[test]
fn unsealed_packets() {
    packets("unsealed.txt", &Security::None);
}

/// The fuzzers begin with packets of the format in force.
#[test]
fn kept_inputs_of_the_fuzzers() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    inputs.extend(read("header.txt").into_iter().map(|(name, bytes)| (format!("header/{name}"), bytes)));
    for (file, kind, choice) in [("sealed.txt", "sealed", [0, 3, 0]), ("unsealed.txt", "clear", [0x80, 3, 0])] {
        let input = |(name, bytes): (String, Vec<u8>)| (format!("open/{kind}-{name}"), [&choice, &bytes[..]].concat());
        inputs.extend(read(file).into_iter().map(input));
    }
    for (name, bytes) in inputs {
        let path = folder.join(&name);
        if blesses() {
            std::fs::write(&path, &bytes).expect("the folder of inputs can be written");
        }
        assert_eq!(std::fs::read(&path).expect("a kept input"), bytes, "{name}: see tests/golden/README.md");
    }
}

#[test]
fn varints() {
    let file = "varint.txt";
    let encode = |value: u64| {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        (value.to_string(), out)
    };
    hold(file, VARINTS.map(encode).to_vec());
    for ((_, bytes), value) in read(file).into_iter().zip(VARINTS) {
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.varint(), reader.is_empty()), (Ok(value), true));
    }
}

#[test]
fn prefixed_bytes() {
    let file = "prefixed.txt";
    let lens = [0, 1, 127, 128];
    let encode = |len: usize| {
        let mut out = Vec::new();
        put_prefixed(&mut out, &vec![0x5a; len]);
        (len.to_string(), out)
    };
    hold(file, lens.map(encode).to_vec());
    for ((_, bytes), len) in read(file).into_iter().zip(lens) {
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.prefixed(), reader.is_empty()), (Ok(&vec![0x5a; len][..]), true));
    }
}

#[test]
fn cookies() {
    let file = "cookie.txt";
    let key = CookieKey::new(&counting());
    let data: [(&str, &[u8]); 2] = [("empty", b""), ("text", b"127.0.0.1:7000 at 12")];
    hold(file, data.map(|(name, data)| (name.to_owned(), key.mac(data).to_vec())).to_vec());
    for ((_, bytes), (_, data)) in read(file).into_iter().zip(data) {
        assert!(key.verify(data, &bytes));
    }
}

/// One packet of each kind: sealed as the file says, and the file's bytes opened.
fn packets(file: &str, security: &Security) {
    let seal = |(name, kind): (&str, Kind)| {
        let mut packet = Vec::new();
        header(kind).write(&mut packet);
        packet.extend_from_slice(FRAMES);
        let dest = if kind.is_addressed() { DEST } else { Incarnation::NONE };
        // A sealer each: the kinds share one space and number here, which a process never does.
        Sealer::new(security, CELL, SENDER).seal(dest, &mut packet);
        (name.to_owned(), packet)
    };
    hold(file, KINDS.map(seal).to_vec());
    for ((_, mut bytes), (name, kind)) in read(file).into_iter().zip(KINDS) {
        let mut opener = Opener::new(security, CELL, DEST);
        let (got, frames) = opener.open(&mut bytes).expect("a golden packet opens");
        assert_eq!((got, &*frames), (header(kind), FRAMES), "{name}");
    }
}

fn header(kind: Kind) -> Header {
    Header { kind, cell_tag: cell_tag(CELL), sender: SENDER, space: SPACE, number: NUMBER }
}

/// 0, 1, 2, up to 31.
fn counting() -> [u8; 32] {
    std::array::from_fn(|index| index as u8)
}

/// Fails unless the file holds exactly these vectors. With `PHALANX_BLESS=1` the file is written instead.
fn hold(file: &str, vectors: Vectors) {
    let mut text = String::new();
    for (name, bytes) in &vectors {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{name} {hex}").expect("a string takes all");
    }
    if blesses() {
        std::fs::write(path(file), &text).expect("the golden folder can be written");
    }
    let kept = std::fs::read_to_string(path(file)).expect("a golden file; PHALANX_BLESS=1 makes it");
    let kept: Vec<&str> = kept.lines().collect();
    let now: Vec<&str> = text.lines().collect();
    assert_eq!(now, kept, "{file}: the format changed, see tests/golden/README.md");
}

fn blesses() -> bool {
    std::env::var_os("PHALANX_BLESS").is_some_and(|value| value == "1")
}

fn read(file: &str) -> Vectors {
    let text = std::fs::read_to_string(path(file)).expect("a golden file");
    let parse = |line: &str| {
        let (name, hex) = line.split_once(' ').expect("a name and bytes");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        (name.to_owned(), (0..hex.len()).step_by(2).map(byte).collect())
    };
    text.lines().map(parse).collect()
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}
