//! Where packets go: lines for people or programs, or a capture file.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};

use phalanx_runtime::tap::Form;
use phalanx_tap::capture::{Capture, Seen, new_file};
use phalanx_tap::{Description, NameTable, Party};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// Why no more is shown.
#[derive(Debug)]
pub(super) enum Stop {
    /// Standard output is closed.
    Closed,
    Failed(Failure),
}

pub(super) struct Output {
    to: To,
    names: NameTable,
    packets: u64,
}

enum To {
    Lines(BufWriter<Stdout>),
    Json(BufWriter<Stdout>),
    File(Box<Capture<Box<dyn Write>>>, PathBuf),
}

impl Output {
    pub(super) fn lines() -> Self {
        Self::new(To::Lines(BufWriter::new(io::stdout())))
    }

    pub(super) fn json() -> Self {
        Self::new(To::Json(BufWriter::new(io::stdout())))
    }

    /// A new file, for its owner alone.
    pub(super) fn file(path: &Path) -> Result<Self, Failure> {
        let file = new_file(path).map_err(|error| {
            let remedy = if error.kind() == ErrorKind::AlreadyExists { ": remove it, or name another one" } else { "" };
            Failure::new(Exit::Usage, format!("--write {}: {error}{remedy}", path.display()))
        })?;
        Self::into_writer(Box::new(BufWriter::new(file)), path).map_err(|error| full(path, 0, &error))
    }

    fn into_writer(out: Box<dyn Write>, path: &Path) -> io::Result<Self> {
        let capture = Capture::new(out)?;
        Ok(Self::new(To::File(Box::new(capture), path.to_owned())))
    }

    fn new(to: To) -> Self {
        Self { to, names: NameTable::default(), packets: 0 }
    }

    /// How many packets were shown.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Names of members and groups, which later packets need.
    pub(super) fn names(&mut self, text: &str) {
        self.names.learn(text);
        if let To::File(capture, _) = &mut self.to {
            capture.names(text);
        }
    }

    pub(super) fn packet(&mut self, pid: u32, seen: &Seen<'_>, form: Form) -> Result<(), Stop> {
        let written = match &mut self.to {
            To::Lines(out) => writeln!(out, "{}", Description::of(seen, form, &self.names)),
            To::Json(out) => writeln!(out, "{}", as_json(pid, &Description::of(seen, form, &self.names))),
            To::File(capture, _) if form == Form::Sealed => capture.sealed(seen),
            To::File(capture, _) => capture.clear(seen),
        };
        written.map_err(|error| self.stop(&error))?;
        self.packets += 1;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        let flushed = match &mut self.to {
            To::Lines(out) | To::Json(out) => out.flush(),
            To::File(capture, _) => capture.flush(),
        };
        flushed.map_err(|error| self.stop(&error))
    }

    /// Hands over what is left.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        self.flush()
    }

    fn stop(&self, error: &io::Error) -> Stop {
        match &self.to {
            To::Lines(_) | To::Json(_) if error.kind() == ErrorKind::BrokenPipe => Stop::Closed,
            To::Lines(_) | To::Json(_) => {
                Stop::Failed(Failure::new(Exit::Failure, format!("standard output: {error}")))
            }
            To::File(_, path) => Stop::Failed(full(path, self.packets, error)),
        }
    }
}

fn full(path: &Path, packets: u64, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            ". Make room, or take less with a filter, --snap or --count"
        }
        _ => "",
    };
    // Blocks that were written before the failure can be read.
    let what = format!("{}: {error}{remedy}. At most {packets} packets are in the file", path.display());
    Failure::new(Exit::Failure, what)
}

fn as_json(pid: u32, packet: &Description<'_>) -> Value {
    let party = |party: &Party<'_>| {
        json!({
            "name": party.name, "incarnation": party.incarnation.map(|who| who.to_string()),
            "address": party.address.map(|address| address.to_string()),
        })
    };
    let (space, number) = packet.number().map(|(space, number)| (space.0, number.0)).unzip();
    let (group, view) = packet.group.unzip();
    json!({
        "time_ns": u64::try_from(packet.time.as_nanos()).unwrap_or(u64::MAX), "pid": pid,
        "way": if packet.is_sent { "out" } else { "in" },
        "class": if packet.class == phalanx_runtime::core::TrafficClass::Control { "control" } else { "data" },
        "memory": packet.is_memory, "from": party(&packet.from), "to": party(&packet.to),
        "kind": packet.kind(), "group": group, "view": view, "space": space, "number": number,
        "bytes": packet.packet_bytes, "cut": packet.is_cut, "lost": packet.missed,
        "frames": packet.frames, "more_frames": packet.more_frames,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A disk with room for so many bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_with_its_remedy() {
        let at = "10.0.0.1:7000".parse().expect("an address");
        let seen = Seen::new(Duration::from_secs(1), at, at, [&[0x36; 24], &[0; 100], &[]]);
        let mut output = Output::into_writer(Box::new(Disk(1_000)), Path::new("a.pcapng")).expect("there is room");
        let failure = loop {
            match output.packet(1, &seen, Form::Sealed) {
                Ok(()) => {}
                Err(Stop::Failed(failure)) => break failure,
                Err(stop) => panic!("{stop:?}"),
            }
        };
        assert_eq!(failure.exit, Exit::Failure);
        // How many there is room for depends on the name of the build, which the file holds.
        let packets = output.packets();
        assert!((2..6).contains(&packets), "{packets}");
        for told in ["a.pcapng", "Make room", "--snap", &format!("At most {packets} packets")] {
            assert!(failure.what.contains(told), "{}", failure.what);
        }
        assert!(output.finish().is_err(), "it is not complete");
    }

    #[test]
    fn a_packet_that_cannot_be_read_has_no_number() {
        let at = "10.0.0.1:7000".parse().expect("an address");
        let seen = Seen::new(Duration::from_nanos(7), at, at, [&[0x45; 24], &[], &[]]);
        let names = NameTable::default();
        let told = as_json(9, &Description::of(&seen, Form::Clear, &names));
        assert_eq!((&told["number"], &told["kind"], &told["group"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!((&told["time_ns"], &told["pid"], &told["bytes"]), (&7.into(), &9.into(), &24.into()));
    }
}
