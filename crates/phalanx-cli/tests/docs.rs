//! What the pages say of the command line is what it says itself: commands and versions.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{directory, run};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the command line prints.
fn printed(arguments: &[&str]) -> String {
    let output = run(directory().path(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands of the laboratory. A build without it lists none of them, and the pages name them all the same.
const LABORATORY: [&str; 3] = ["bench", "sim", "torture"];

/// The commands of a build with the laboratory.
fn all_commands() -> BTreeSet<String> {
    let (mut all, laboratory) = (commands(), BTreeSet::from(LABORATORY.map(str::to_owned)));
    if cfg!(feature = "lab") {
        assert!(all.is_superset(&laboratory), "the laboratory is in this build: {all:?}");
    } else {
        assert!(all.is_disjoint(&laboratory), "the laboratory is not in this build: {all:?}");
        all.extend(laboratory);
    }
    all
}

/// The commands in the list of `phalanx --help`.
fn commands() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let (_, after) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = after.lines().take_while(|line| !line.trim().is_empty());
    // A description that is wrapped goes on further to the right.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn the_readme_lists_the_commands_that_the_help_lists() {
    let page = read("README.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `phalanx "));
    let names = rows.filter_map(|row| row.split([' ', '`']).next()).map(str::to_owned);
    assert_eq!(names.collect::<BTreeSet<_>>(), all_commands(), "rows of README.md, and commands of phalanx --help");
}

#[test]
fn the_pages_name_no_command_that_is_not_there() {
    let commands = all_commands();
    assert!(commands.len() > 10, "the list was read: {commands:?}");
    let pages = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")).expect("docs/");
    let pages = pages.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    let pages = pages.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    for page in pages.chain(["README.md".to_owned()]) {
        for line in read(&page).lines() {
            for after in line.split("`phalanx ").skip(1) {
                let name = after.split([' ', '`', ',']).next().unwrap_or_default();
                let is_command = name.starts_with(char::is_alphabetic);
                assert!(!is_command || commands.contains(name), "{page}: there is no command phalanx {name}: {line}");
            }
        }
    }
}

#[test]
fn the_versions_are_those_of_the_page() {
    let (page, printed) = (read("docs/semver.md"), printed(&["--version"]));
    let release = env!("CARGO_PKG_VERSION");
    let wire = phalanx_runtime::core::wire::Header::VERSION;
    assert!(
        printed.contains(&format!("phalanx {release} ")) && printed.contains(&format!("wire version {wire},")),
        "{printed}"
    );
    let trace = phalanx_trace::FORMAT_VERSION;
    for said in [
        format!("**The release** (`{release}`)"),
        format!("**The wire version** ({wire})"),
        format!("**The trace format** ({trace})"),
    ] {
        assert!(page.contains(&said), "docs/semver.md does not say '{said}'");
    }
}
