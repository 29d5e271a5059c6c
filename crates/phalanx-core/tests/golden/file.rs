// Golden vectors are kept one a line: name and bytes. Shared by the tests of the sources and `tests/golden.rs`.

use std::fmt::Write as _;
use std::path::PathBuf;

/// Named byte strings, in the order of their file.
pub(crate) type Vectors = Vec<(String, Vec<u8>)>;

/// Fails unless the file holds exactly these vectors. With `PHALANX_BLESS=1` the file is written instead.
pub(crate) fn hold(file: &str, vectors: Vectors) {
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

#[expect(clippy::disallowed_methods, reason = "the caller of the test chooses whether it writes the vectors")]
pub(crate) fn blesses() -> bool {
    std::env::var_os("PHALANX_BLESS").is_some_and(|value| value == "1")
}

pub(crate) fn read(file: &str) -> Vectors {
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
