use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::*;

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A file with `text`, removed when dropped.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("phalanx-config-{}-{name}.toml", std::process::id()));
        fs::write(&path, text).expect("the temporary directory is writable");
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn load_text(name: &str, text: &str) -> Result<Resolved, String> {
    let file = TempFile::new(name, text);
    Config::load(&[], [], Some(&file.0)).map_err(|e| e.to_string().replace(&*file.0.to_string_lossy(), "FILE"))
}

#[test]
fn flags_beat_environment_beats_file_beats_defaults_field_by_field() {
    let file = TempFile::new(
        "layers",
        "cell = \"from-file\"\nseeds = [\"10.0.0.1:7401\"]\n\n[timing]\nheartbeat = \"50ms\"\nsuspect_after = \"2s\"\n",
    );
    let environment = env(&[("PHALANX_CELL", "from-env"), ("PHALANX_TIMING__HEARTBEAT", "60ms"), ("HOME", "/nowhere")]);
    let flags = env(&[("cell", "from-flag")]);
    let resolved = Config::load(&flags, environment, Some(&file.0)).expect("it is a good configuration");
    assert_eq!(resolved.config.cell, "from-flag");
    assert_eq!(resolved.config.timing.heartbeat, Duration::from_millis(60));
    assert_eq!(resolved.config.timing.suspect_after, Duration::from_secs(2));
    assert_eq!(resolved.config.seeds, ["10.0.0.1:7401"]);
    assert_eq!(resolved.config.limits.members, 1024);
    assert_eq!(resolved.origin("cell"), Origin::Flag { flag: "--cell".to_owned() });
    assert_eq!(
        resolved.origin("timing.heartbeat"),
        Origin::Environment { variable: "PHALANX_TIMING__HEARTBEAT".to_owned() }
    );
    assert_eq!(resolved.origin("timing.suspect_after"), Origin::File { path: file.0.clone(), line: 6 });
    assert_eq!(resolved.origin("limits.members"), Origin::Default);
    assert!(resolved.warnings.is_empty());
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let error = load_text("typo", "cell = \"a\"\n[timing]\nheartbeet = \"50ms\"\n").expect_err("the key is unknown");
    assert_eq!(error, "FILE:3: there is no key 'timing.heartbeet'; did you mean 'timing.heartbeat'?");
    let error = load_text("bare", "suspect_after = \"1s\"\n").expect_err("the key is in a table");
    assert_eq!(error, "FILE:1: there is no key 'suspect_after'; did you mean 'timing.suspect_after'?");
    let error = load_text("far", "\n\nquorum = 3\n").expect_err("the key is unknown");
    assert_eq!(error, "FILE:3: there is no key 'quorum'");
    let error = load_text("deep", "[timing.more]\nheartbeat = \"1s\"\n").expect_err("too deep");
    assert!(error.starts_with("FILE:1: there is no key 'timing.more'"), "{error}");
    let error = Config::load(&env(&[("sell", "x")]), [], None).expect_err("the flag is unknown");
    assert_eq!(error.to_string(), "flag --set sell: there is no key 'sell'; did you mean 'cell'?");
}

#[test]
fn bare_numbers_are_refused_where_a_unit_matters() {
    let error = load_text("bare-duration", "[timing]\nheartbeat = 50\n").expect_err("no unit");
    assert_eq!(error, "FILE:2: timing.heartbeat: 50 is a bare number; write a duration with its unit, like \"150ms\"");
    let error = load_text("bare-size", "[limits]\noutbox = \"4096\"\n").expect_err("no unit");
    assert_eq!(error, "FILE:2: limits.outbox: '4096' has no unit; write a size like \"64KiB\"");
    assert!(load_text("port", "data_port = 7400\n").is_ok());
    assert!(load_text("text-port", "data_port = \"7400\"\n").is_ok());
}

#[test]
fn bad_values_are_named_with_their_place() {
    for (name, text, want) in [
        ("bind", "bind = \"localhost\"\n", "FILE:1: bind: 'localhost' is not an IP address"),
        ("port", "data_port = 70000\n", "FILE:1: data_port: 70000 is not a whole number from 0 to 65535"),
        ("seed", "seeds = [\"10.0.0.1\"]\n", "FILE:1: seeds: '10.0.0.1' is not an address with a port"),
        ("list", "seeds = [1, 2]\n", "FILE:1: seeds: a list with something else than strings does not fit here"),
        ("driver", "driver = \"shm\"\n", "FILE:1: driver: 'shm' is neither"),
        ("security", "security = \"off\"\n", "FILE:1: security: 'off' is neither"),
        ("name", "name = \"\"\n", "FILE:1: name: a name has 1 to 200 bytes"),
        ("zero", "[timing]\nprobe = \"0s\"\n", "FILE:2: timing.probe: must lie between"),
        ("small", "[limits]\ngroup_window = \"1KiB\"\n", "FILE:2: limits.group_window: must lie between"),
        ("same", "data_port = 7\ncontrol_port = 7\n", "FILE:2: control_port: must differ from data_port"),
        ("order", "[timing]\nheartbeat = \"1200ms\"\n", "default: timing.suspect_after: must be at least three"),
        ("slow", "[limits]\nslow_members = \"demote\"\n", "FILE:2: limits.slow_members: 'demote' is neither"),
        (
            "hasty",
            "[limits]\nslow_members = \"expel\"\n[timing]\nexpel_after = \"500ms\"\n",
            "FILE:4: timing.expel_after: must be at least 1s",
        ),
        ("seldom", "[timing]\nturn_gap_max = \"61s\"\n", "FILE:2: timing.turn_gap_max: must be at most 1min"),
        ("patient", "[timing]\nend_wait = \"61min\"\n", "FILE:2: timing.end_wait: must be at most 60min"),
        ("twice", "founders = [\"a\", \"b\", \"a\"]\n", "FILE:1: founders: 'a' stands there twice"),
        ("both", "security = \"none\"\ncell_key = \"k\"\n", "FILE:1: security: \"none\" and a cell_key contradict"),
    ] {
        let error = load_text(name, text).expect_err(name);
        assert!(error.starts_with(want), "{error}");
    }
}

#[test]
fn syntax_errors_carry_line_and_column() {
    let error = load_text("syntax", "cell = \"a\"\nname = b\n").expect_err("not TOML");
    assert!(error.starts_with("FILE:2:8: "), "{error}");
    let missing = Config::load(&[], [], Some(Path::new("/nowhere/phalanx.toml"))).expect_err("no such file");
    assert!(missing.to_string().contains("/nowhere/phalanx.toml"), "{missing}");
}

#[test]
fn security_none_warns_and_unknown_variables_are_reported() {
    let environment = env(&[("PHALANX_SECURITY", "none"), ("PHALANX_SEEED", "x"), ("PHALANX_CI", "1")]);
    let resolved = Config::load(&[], environment, None).expect("it is allowed, loudly");
    assert_eq!(resolved.warnings.len(), 2);
    assert!(resolved.warnings[0].contains("did you mean PHALANX_SEEDS?"), "{:?}", resolved.warnings);
    assert!(resolved.warnings[1].contains("neither authenticated nor encrypted"));
    assert!(resolved.warnings[1].contains("PHALANX_SECURITY"));
}

#[test]
fn what_is_shown_can_be_loaded_again() {
    let flags = env(&[("name", "a \"b\""), ("seeds", "h:1, [::1]:2"), ("trace", "t"), ("cell_key", "k")]);
    let first = Config::load(&flags, [], None).expect("good");
    let mut text = String::new();
    for line in first.shown() {
        if let Some(value) = line.value {
            text.push_str(&format!("{} = {value}\n", line.key));
        }
    }
    let second = load_text("again", &text).expect("what is shown is a file");
    let values = |resolved: &Resolved| resolved.shown().into_iter().map(|s| s.value).collect::<Vec<_>>();
    assert_eq!(values(&first), values(&second));
}

#[test]
fn every_key_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(path).expect("docs/configuration.md exists");
    for key in KEYS {
        let default = key.show(&Config::default());
        let row = format!("| `{}` | `{}` |", key.name, key.variable());
        let line = text.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row for {row}"));
        if let Some(default) = default.filter(|d| d != "[]") {
            assert!(line.contains(&format!("`{default}`")), "{line} does not tell the default {default}");
        }
    }
}

#[test]
fn two_founders_are_warned_that_the_loss_of_the_first_stops_the_cell() {
    let warnings = |founders: &str| {
        let flags = [("founders".to_owned(), founders.to_owned())];
        Config::load(&flags, [], None).expect("good").warnings
    };
    let said = warnings("one,two");
    assert!(said.len() == 1 && said[0].contains("the other does not go on"), "{said:?}");
    assert!(warnings("one,two,three").is_empty() && warnings("one").is_empty());
}

#[test]
fn no_more_members_are_asked_for_than_there_may_be() {
    let load = |text| load_text("minimum", text);
    assert_eq!(load("[limits]\nmembers_min = 3\n").expect("good").config.limits.members_min, 3);
    let error = load("[limits]\nmembers = 2\nmembers_min = 3\n").expect_err("more than there may be");
    assert!(error.starts_with("FILE:3: limits.members_min: must not exceed limits.members"), "{error}");
    assert!(load("[limits]\nmembers_min = 0\n").is_err());
}
