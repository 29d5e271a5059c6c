//! `phalanx`: the command line.

mod about;
mod answer;
mod ask;
#[cfg(feature = "lab")]
mod bench;
mod call;
mod cat;
mod check;
mod child;
mod demo;
mod doctor;
mod exit;
mod flags;
mod give_up;
mod here;
#[cfg_attr(not(feature = "lab"), path = "absent.rs")]
mod lab;
mod level;
mod member;
mod news;
mod node;
mod notice;
mod program;
mod reform;
mod serve;
mod signals;
#[cfg(feature = "lab")]
mod sim;
mod stat;
mod table;
mod tap;
#[cfg(feature = "lab")]
mod torture;
mod visit;
mod watch;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

use exit::{Exit, Failure};
use notice::say;

/// Release, commit, contents, and the protocol versions of this build; see docs/semver.md.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (release, build) = (env!("CARGO_PKG_VERSION"), env!("PHALANX_BUILD_COMMIT"));
    let laboratory = if cfg!(feature = "lab") { "with" } else { "without" };
    format!(
        "{release} (build {build} {laboratory} the laboratory, wire version {}, level {})",
        phalanx_runtime::core::wire::Header::VERSION,
        phalanx_runtime::core::LEVEL
    )
});

/// Process groups from the shell: a fault-tolerant pipe, calls, asks, a demonstration, a checker, a doctor
#[derive(Parser, Debug)]
#[command(name = "phalanx", version = VERSION.as_str(), after_long_help = exit::HELP)]
#[command(arg_required_else_help = true, disable_help_subcommand = false)]
struct Phalanx {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::Demo),
    Cat(cat::Cat),
    Serve(serve::Serve),
    Call(call::Call),
    Answer(answer::Answer),
    Ask(ask::Ask),
    Node(node::Node),
    #[command(hide = true)]
    DemoMember(demo::Member),
    Check(check::Check),
    Stat(stat::Stat),
    Watch(watch::Watch),
    Tap(tap::Tap),
    Doctor(doctor::Doctor),
    Level(level::Level),
    GiveUp(give_up::GiveUp),
    Reform(reform::Reform),
    #[command(flatten)]
    Lab(lab::Command),
}

fn main() -> ExitCode {
    let command = Phalanx::parse().command;
    match run(&command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            say(&failure.what);
            failure.exit.into()
        }
    }
}

fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Cat(cat) => cat::run(cat),
        Command::Serve(serve) => serve::run(serve),
        Command::Call(call) => call::run(call),
        Command::Answer(answer) => answer::run(answer),
        Command::Ask(ask) => ask::run(ask),
        Command::Node(node) => node::run(node),
        Command::Demo(demo) => demo::run(demo),
        Command::DemoMember(member) => demo::run_member(member),
        Command::Check(check) => check::run(check),
        Command::Stat(stat) => stat::run(stat),
        Command::Watch(watch) => watch::run(watch),
        Command::Tap(tap) => tap::run(tap),
        Command::Level(level) => level::run(level),
        Command::GiveUp(give_up) => give_up::run(give_up),
        Command::Reform(reform) => reform::run(reform),
        Command::Doctor(doctor) => doctor::run(doctor),
        Command::Lab(command) => lab::run(command),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Phalanx::command().debug_assert();
    }
}
