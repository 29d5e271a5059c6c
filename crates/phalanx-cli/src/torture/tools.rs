//! Runs the system's programs that set up networks, and passes on their errors.

use std::process::{Command, Stdio};

use crate::exit::{Exit, Failure};

/// Runs a program to its end, and returns its output.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let doing = || format!("{program} {}", arguments.join(" "));
    let output = command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot run {}: {error}", doing())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or("it said nothing");
    Err(Failure::new(Exit::Failure, format!("{} failed: {complaint}", doing())))
}

/// Runs a program in a network namespace.
pub(super) fn run_in(namespace: &str, program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut all = vec!["netns", "exec", namespace, program];
    all.extend_from_slice(arguments);
    run("ip", &all)
}

/// A program, also looked for in the directories of administrators' programs.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    // Settings in the environment of the harness must not affect members.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PHALANX_")) {
        command.env_remove(name);
    }
    command
}

/// Checks what the torture needs of this machine. An error contains the remedy.
pub(super) fn require() -> Result<(), Failure> {
    let missing = |what: &str| Failure::new(Exit::Unreachable, what.to_owned());
    if !rustix::process::geteuid().is_root() {
        return Err(missing(
            "needs root, for network namespaces. Run it with sudo, or in namespaces of your own:\n  \
             unshare -Urnm sh -c 'mount -t tmpfs none /run && exec phalanx torture'",
        ));
    }
    for (program, flag, package) in [("ip", "-V", "iproute2"), ("nft", "-v", "nftables")] {
        if run(program, &[flag]).is_err() {
            return Err(missing(&format!(
                "needs the program '{program}'. On Debian or Ubuntu: apt-get install {package}"
            )));
        }
    }
    let probe = format!("phxt{}-probe", std::process::id());
    let made = run("ip", &["netns", "add", &probe]).and_then(|_| run("ip", &["netns", "delete", &probe]));
    made.map(drop).map_err(|failure| {
        missing(&format!(
            "cannot make network namespaces here ({}). Run it as root of the machine itself",
            failure.what
        ))
    })
}
