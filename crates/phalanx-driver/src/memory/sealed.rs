//! Files in memory that their maker alone can write, and nobody can shrink.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::io::Errno;

use super::map::Mine;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Makes a file of `bytes`, maps it for writing, and seals it: no other mapping can write it, and its length stays.
pub(crate) fn make(bytes: usize) -> io::Result<(OwnedFd, Mine)> {
    let file = make_file()?;
    ftruncate(&file, bytes as u64)?;
    let map = Mine::map(&file, bytes)?;
    // After the mapping: the seal against future writes forbids new writable mappings, and keeps this one.
    fcntl_add_seals(&file, SEALS)?;
    Ok((file, map))
}

/// Whether a file of another process has these seals. Without them its owner could shrink it under a mapping, and a load
/// beyond its end raises SIGBUS.
pub(crate) fn is_sealed(file: impl AsFd) -> bool {
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

fn make_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Systems may insist on non-executable memory (`vm.memfd_noexec`); kernels before 6.3 do not know the flag and give
    // EINVAL.
    match memfd_create("phalanx", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create("phalanx", flags)?),
        made => Ok(made?),
    }
}
