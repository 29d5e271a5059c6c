//! The properties that each experiment with real processes must exercise. An experiment in which one of its properties
//! was never put to the test fails.
//!
//! Shell scripts (`tests/`) list their own properties. The simulator's campaign must exercise all of them (`phalanx sim
//! --all-tested`).

use std::collections::BTreeMap;

use phalanx_check::Property::{self, *};
use phalanx_trace::Event;

/// Properties exercised by `phalanx demo`.
pub(crate) const DEMO: &[Property] = &[
    E1, M1, M2, M3, M4, M5, M6, M8, M11, M15, S1, S2, S3, S4, S5, S6, S7, S8, S10, S11, S12, I1, I2, I3, O1, O3, O4,
    O5, U1, U2, U4, U5, X1, X2, X3, X4, X5, X9, X10, V1, V2, V3, V4, V6, V7, V9, V10, V17, R3, R8, R9,
];

/// Properties exercised by each bout of `phalanx torture`, whatever its faults.
#[cfg(any(feature = "lab", test))]
pub(crate) const TORTURE: &[Property] = &[
    E1, M1, M2, M3, M5, M6, M11, S1, S2, S4, S5, S6, S7, S8, S10, S11, S13, I1, I2, I3, O1, O2, O4, O5, O7, V1, V3, V4,
    V17, R1, R2, R3, R4, R5, R6, R8, R9, V15,
];

/// Properties exercised by the second cell of each bout, in which members submit. It has no quiet phase.
#[cfg(any(feature = "lab", test))]
pub(crate) const TORTURE_SECOND: &[Property] = &[
    E1, M1, M2, M3, M5, M6, M11, S1, S2, S5, S6, S7, S8, S10, S11, I1, I2, I3, O4, O5, U2, X9, X10, X11, X12, X13, X14,
];

/// Additional properties of a bout in which a member was killed and came back: a view lost a member, and a joiner took
/// the state.
#[cfg(any(feature = "lab", test))]
pub(crate) const TORTURE_KILL: &[Property] = &[M4, S3, O3, U1, X1, X2, X3, X4, X5];

/// Additional properties of a bout in which a live member was excluded and came back.
#[cfg(any(feature = "lab", test))]
pub(crate) const TORTURE_EXCLUSION: &[Property] = &[M4, M8, S3, S12, O3, X1, X2, X3, X4, X5];

/// Properties that no experiment with real processes exercises, because only the simulator can produce or record what
/// they need. Its campaign exercises them.
///
/// - M7 and V12: deliveries of a member that was left behind, and a transfer under way at the moment of healing, are
///   too rare.
/// - M10 and X6: groups that end and begin anew, or whose members leave while others go on.
/// - M13: founders that are away while a cell is founded.
/// - M12: packets that make no sense to some members.
/// - U7: cells and groups that require more than one member.
/// - V5 and V8: counts of packets and sizes of buffers, at moments that the harness knows.
/// - V14: paths that stay broken in part.
/// - V16: inboxes that nobody reads, which only a harness knows.
/// - S9: leaves beside silence.
/// - The rest: objects that members replicate, and their users.
#[cfg(test)]
const SIMULATED: &[Property] = &[M7, M9, M10, M12, M13, U7, X6, S9, V5, V8, V12, V14, V16, L1, L2, R7, BANK];

/// The harness's record of these properties; the checker requires each of them.
pub(crate) fn record(of: &[Property]) -> Event {
    Event::About { codes: of.iter().map(|property| property.code().to_owned()).collect() }
}

/// Their codes, as `phalanx check --require` takes them.
pub(crate) fn codes(of: &[Property]) -> String {
    of.iter().map(|property| property.code()).collect::<Vec<_>>().join(",")
}

/// Number of times each property was put to the test, from the checker's table.
pub(crate) fn instances(report: &str) -> BTreeMap<Property, u64> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let property: Property = words.next()?.parse().ok()?;
        let numbers = [words.next()?, words.next()?, words.next()?].map(str::parse::<u64>);
        match numbers {
            [Ok(tested), Ok(_), Ok(_)] => Some((property, tested)),
            _ => None,
        }
    };
    report.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;

    /// The properties of each experiment, by its name. Scripts list them in lines `# about: CODE..`.
    fn experiments() -> BTreeMap<String, Vec<Property>> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let parse = |codes: &str| -> Vec<Property> {
            codes.split_whitespace().map(|code| code.parse().unwrap_or_else(|e| panic!("{e}"))).collect()
        };
        // Properties common to all scripts are in the library, as readonly NAME="CODE..".
        let library = read(&tests.join("namespaces/lib.bash"));
        let common = |name: &str| {
            let (_, rest) = library.split_once(&format!(" {name}=\"")).expect("the library names it");
            parse(rest.split('"').next().expect("a closing quote"))
        };
        let listed = |folder: &str, end: &str| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(tests.join(folder)).expect("the folder is there");
            let paths = entries.map(|entry| entry.expect("readable").path());
            paths.filter(|path| path.to_string_lossy().ends_with(end)).collect()
        };
        let mut all = BTreeMap::from([("demo".to_owned(), DEMO.to_vec()), ("torture".to_owned(), TORTURE.to_vec())]);
        all.insert("torture, losses".to_owned(), [TORTURE, TORTURE_KILL, TORTURE_EXCLUSION].concat());
        all.insert("torture, second cell".to_owned(), TORTURE_SECOND.to_vec());
        let cases = listed("namespaces/cases", ".bash");
        assert!(cases.len() > 5);
        let scripts = ["namespaces", "examples", ""].map(|folder| listed(folder, ".sh")).concat();
        for path in cases.iter().chain(&scripts) {
            let text = read(path);
            let is_case = cases.contains(path);
            if !is_case && !text.contains("harness create") {
                continue;
            }
            let lines = text.lines().filter_map(|line| line.strip_prefix("# about:"));
            let mut about: Vec<Property> = lines.flat_map(parse).collect();
            if is_case {
                about.extend(common("ABOUT"));
                about.extend(common("ABOUT_HEALED").iter().filter(|_| text.contains("\n# healed\n")));
            }
            all.insert(path.file_name().expect("a file").to_string_lossy().into_owned(), about);
        }
        all
    }

    #[test]
    fn every_guarantee_is_some_experiments_business() {
        let all = experiments();
        assert!(all.contains_key("partition.sh") && all.contains_key("ledger.sh"), "{:?}", all.keys());
        for (name, about) in &all {
            assert!(about.contains(&E1) && about.len() >= 5, "{name} is about {about:?}");
        }
        let real: BTreeSet<Property> = all.into_values().flatten().collect();
        let simulated: BTreeSet<Property> = SIMULATED.iter().copied().collect();
        assert_eq!(real.intersection(&simulated).collect::<Vec<_>>(), Vec::<&Property>::new());
        let every: BTreeSet<Property> = Property::ALL.iter().copied().collect();
        let missed: Vec<_> = every.difference(&(&real | &simulated)).copied().collect();
        assert_eq!(missed, [], "no experiment is about these");
    }

    #[test]
    fn no_experiment_waives_what_it_did_not_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders = vec![root.join("tests"), root.join("crates/phalanx-cli/src"), root.join("bench")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(text) = std::fs::read_to_string(&path) {
                    let waives = text.contains("Require::Nothing") && !path.ends_with("about.rs");
                    assert!(!waives, "{} asks for nothing", path.display());
                }
            }
        }
    }

    #[test]
    fn the_checkers_table_is_read() {
        let mut trace = phalanx_trace::Trace::new(phalanx_trace::Header::process("cell", "a", 7, "clock"));
        trace.push(0, Event::Start);
        let report = phalanx_check::check(&[trace], &phalanx_check::Options::default());
        let told = instances(&report.to_string());
        assert_eq!(told.len(), Property::ALL.len());
        assert_eq!((told[&E1], told[&V1]), (1, 0));
    }
}
