//! Allowed imports: between crates and between modules of the core. No new circle of files that import each other comes,
//! and no large type grows.
//! `docs/ARCHITECTURE.md`, "Who imports whom", says what the tables are for.

#[path = "imports/graph.rs"]
mod graph;
#[path = "imports/known.rs"]
mod known;
#[path = "imports/readers.rs"]
mod readers;
#[path = "imports/source.rs"]
mod source;
#[path = "imports/types.rs"]
mod types;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use graph::Graph;
use known::{DATA_METHODS, FIELDS_MAX, FILES_MAX, GENERIC_OVER_THE_SINK, KNOWN_CIRCLES, LARGE_TYPES, METHODS_MAX};
use types::sizes;

/// The crates of the workspace that each crate may use.
const CRATES: [(&str, &[&str]); 12] = [
    ("phalanx-core", &[]),
    ("phalanx-trace", &[]),
    ("phalanx-check", &["phalanx-trace"]),
    ("phalanx-driver", &["phalanx-core", "phalanx-tap"]),
    ("phalanx-tap", &["phalanx-core"]),
    ("phalanx-life", &["phalanx-core", "phalanx-trace"]),
    ("phalanx-runtime", &["phalanx-core", "phalanx-driver", "phalanx-life", "phalanx-tap", "phalanx-trace"]),
    // The simulator is behind a feature.
    ("phalanx", &["phalanx-core", "phalanx-driver", "phalanx-life", "phalanx-runtime", "phalanx-sim", "phalanx-trace"]),
    ("phalanx-bench", &["phalanx", "phalanx-tap", "phalanx-runtime"]),
    (
        "phalanx-sim",
        &[
            "phalanx-core",
            "phalanx-driver",
            "phalanx-tap",
            "phalanx-life",
            "phalanx-runtime",
            "phalanx-check",
            "phalanx-trace",
        ],
    ),
    ("phalanx-model", &["phalanx-core", "phalanx-runtime", "phalanx-check", "phalanx-sim", "phalanx-trace"]),
    (
        "phalanx-cli",
        &[
            "phalanx",
            "phalanx-runtime",
            "phalanx-bench",
            "phalanx-check",
            "phalanx-sim",
            "phalanx-tap",
            "phalanx-trace",
        ],
    ),
];

/// Modules of the core that all others may import, and that may import each other.
const VOCABULARY: [&str; 9] = ["api", "frames", "id", "packet", "rng", "sorted", "time", "transitions", "truesize"];

/// The modules that each module of the core may import besides the vocabulary. Data climbs, so nothing imports what is
/// above it.
const LAYERS: [(&str, &[&str]); 7] = [
    ("wire", &[]),
    ("seal", &["wire"]),
    ("link", &["wire"]),
    ("order", &["wire", "link"]),
    ("member", &["wire", "link"]),
    ("process", &["wire", "seal", "link", "order", "member"]),
    ("rpc", &["wire", "seal", "link"]),
];

/// Imports of the vocabulary from layers above `wire`, by file. No more of these may come. `wire` is exempt, because it
/// holds what the vocabulary is made of: newtypes of numbers, and tagged entries.
const VOCABULARY_KNOWS: [(&str, &str); 3] =
    // `Effects` keeps the record that founders must not forget, and shows the directory that was installed.
    [("api", "member/directory"), ("api", "member/founding"), ("api", "member/reform")];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> Graph {
    Graph::of(&source::files(&crates().join(name).join("src")))
}

/// A file's name; `lib` for the root.
fn shown(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

#[test]
fn crates_depend_on_those_below_them_only() {
    for entry in fs::read_dir(crates()).expect("a directory").map(|entry| entry.expect("readable")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        let row = CRATES.iter().find(|(row, _)| *row == name);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{name} has no row in CRATES: what may it use?"));
        // The first word of each line of a dependency section. Tests may use more.
        let used = manifest.split("\n[").filter(|section| section.starts_with("dependencies]")).flat_map(str::lines);
        for used in
            used.filter_map(|line| line.split([' ', '.', '=']).next()).filter(|word| word.starts_with("phalanx"))
        {
            assert!(allowed.contains(&used), "{name} must not depend on {used}: see CRATES");
        }
    }
}

#[test]
fn a_module_of_the_core_imports_nothing_from_above_it() {
    let mut met: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (from, to) in read("phalanx-core").edges() {
        let Some(module) = from.first() else { continue };
        for to in to {
            let Some(imported) = to.first().filter(|imported| *imported != module) else {
                assert!(
                    !to.is_empty(),
                    "{} imports names of the crate's root: name the module they stand in",
                    shown(&from)
                );
                continue;
            };
            if VOCABULARY.contains(&imported.as_str()) {
                continue;
            }
            let (file, other) = (shown(&from), shown(&to));
            let known = VOCABULARY_KNOWS.iter().find(|(from, to)| *from == file && *to == other);
            let layer = LAYERS.iter().find(|(layer, _)| layer == module);
            let below = match layer {
                Some((_, below)) => below.contains(&imported.as_str()),
                None => imported == "wire",
            };
            assert!(
                below || known.is_some(),
                "{file} imports {other}: `{module}` must not know `{imported}`, see LAYERS"
            );
            met.extend(known);
        }
    }
    assert_eq!(met.len(), VOCABULARY_KNOWS.len(), "only {met:?} are left of VOCABULARY_KNOWS: shorten it");
}

#[test]
fn no_more_files_import_each_other() {
    for (name, _) in CRATES {
        let graph = read(name);
        assert!(graph.len() > 4, "the sources of {name} were read");
        let circles: Vec<Vec<String>> =
            graph.circles().iter().map(|circle| circle.iter().map(|file| shown(file)).collect()).collect();
        let known: Vec<&[&str]> = KNOWN_CIRCLES.iter().filter(|row| row.0 == name).map(|row| row.1).collect();
        let is_part = |circle: &[String], row: &[&str]| circle.iter().all(|file| row.contains(&file.as_str()));
        for circle in &circles {
            assert!(
                known.iter().any(|row| is_part(circle, row)),
                "files of {name} import each other; move what they share to its owner:\n{}",
                imports_within(&graph, circle)
            );
        }
        for row in known {
            let left: Vec<&Vec<String>> = circles.iter().filter(|circle| is_part(circle, row)).collect();
            assert!(left == [row], "of the circle {row:?} of {name} only {left:?} is left: shorten KNOWN_CIRCLES");
        }
    }
}

/// Who imports whom in a circle, one file a line.
fn imports_within(graph: &Graph, circle: &[String]) -> String {
    let edges = graph.edges().into_iter().map(|(from, to)| (shown(&from), to));
    let lines = edges.filter(|(from, _)| circle.contains(from)).map(|(from, to)| {
        let to: Vec<String> = to.iter().map(|to| shown(to)).filter(|to| circle.contains(to)).collect();
        format!("  {from} imports {}", to.join(", "))
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn no_large_type_grows() {
    let mut listed = 0;
    for (name, _) in CRATES {
        for ((module, type_name), size) in sizes(&read(name)) {
            let full = format!("{}::{type_name}", shown(&module));
            let is_data = size.methods <= DATA_METHODS;
            let is_large = size.fields > FIELDS_MAX && !is_data || size.methods > METHODS_MAX || size.files > FILES_MAX;
            let row = LARGE_TYPES.iter().find(|(row, of, _)| *row == name && *of == full);
            let Some((_, _, known)) = row else {
                assert!(!is_large, "{full} of {name} is too large, {size:?}: give some of it an owner of its own");
                continue;
            };
            assert!(is_large, "{full} of {name} is not large any more, {size:?}: drop its row of LARGE_TYPES");
            let grows = size.fields > known.fields || size.methods > known.methods || size.files > known.files;
            assert!(!grows, "{full} of {name} has grown from {known:?} to {size:?}: give the new part its own type");
            assert!(size == *known, "{full} of {name} has shrunk from {known:?} to {size:?}: shorten its row");
            listed += 1;
        }
    }
    assert_eq!(listed, LARGE_TYPES.len(), "LARGE_TYPES names a type that is gone: drop its row");
}

#[test]
fn only_the_packet_path_is_generic_over_the_sink() {
    let mut listed = 0;
    for (module, text) in source::files(&crates().join("phalanx-core/src/process")) {
        let file = [vec!["process".to_owned()], module].concat().join("/");
        let tokens = source::tokens(&text);
        let generic =
            tokens.windows(2).filter(|two| two[1] == "Effects" && (two[0] == "impl" || two[0] == ":")).count();
        let row = GENERIC_OVER_THE_SINK.iter().find(|(row, _)| *row == file);
        let known = row.map_or(0, |(_, count)| *count);
        assert!(
            generic <= known,
            "{file} has {generic} places generic over the sink, not {known}: take a `dyn Effects`"
        );
        assert_eq!(generic, known, "{file} has fewer places generic over the sink: shorten GENERIC_OVER_THE_SINK");
        listed += usize::from(row.is_some());
    }
    assert_eq!(listed, GENERIC_OVER_THE_SINK.len(), "GENERIC_OVER_THE_SINK names a file that is gone");
}
