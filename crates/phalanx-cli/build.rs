//! Records in the binary the commit it was built from, if that is known.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=PHALANX_BUILD");
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/index");
    let build = std::env::var("PHALANX_BUILD").ok().or_else(commit).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=PHALANX_BUILD_COMMIT={build}");
}

/// The commit, with a suffix when files differ from it. `None` outside a repository or without git.
fn commit() -> Option<String> {
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { hash } else { format!("{hash}-modified") })
}

fn git(arguments: &[&str]) -> Option<String> {
    // Without the option `git status` may write the index, and that would run this again at the next build.
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
