//! `phalanx sim --tap`: writes what the processes of one seed sent to a capture file.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use phalanx_sim::{TapFile, TapForm};

use crate::exit::{Exit, Failure, While};
use crate::notice::say;

#[derive(Args, Debug)]
pub(super) struct Tap {
    /// Write each packet that the one seed sends to this new file, once for each destination, in pcapng. Wireshark and
    /// tshark read it with dissector/phalanx.lua
    #[arg(long, value_name = "FILE.pcapng")]
    tap: Option<PathBuf>,
    /// How packets stand in that file
    #[arg(long, value_enum, requires = "tap", default_value = "clear")]
    tap_form: Form,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Header and frames, before they are sealed
    Clear,
    /// Datagrams, which tcpdump reads, too. Of what goes through memory the header alone
    Sealed,
}

impl Tap {
    /// Makes the file, if one is asked for.
    pub(super) fn file(&self, seeds: &Range<u64>) -> Result<Option<TapFile>, Failure> {
        let Some(path) = &self.tap else { return Ok(None) };
        if seeds.end - seeds.start != 1 {
            let why = "--tap: name one seed with --seeds, like 7..8; a file holds the packets of one";
            return Err(Failure::new(Exit::Usage, why));
        }
        let form = match self.tap_form {
            Form::Clear => TapForm::Clear,
            Form::Sealed => TapForm::Sealed,
        };
        TapFile::create(path, form).map(Some).map_err(|error| {
            let remedy = if error.kind() == ErrorKind::AlreadyExists { ": remove it, or name another one" } else { "" };
            Failure::new(Exit::Usage, format!("--tap {}: {error}{remedy}", path.display()))
        })
    }

    /// Says what is in the file.
    pub(super) fn finish(&self, file: &TapFile) -> Result<(), Failure> {
        let Some(path) = &self.tap else { return Ok(()) };
        let packets = file.finish().when(path.display())?;
        say(format_args!("{packets} packets in {}", path.display()));
        Ok(())
    }
}
