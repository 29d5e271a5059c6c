//! The key file and the number file of a cell.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use phalanx_core::seal::{BadKey, CellKey};

use super::directory::{STATE_DIR, check};
use super::error::LocalError;

/// Reads a cell key from a file that only this user may read.
///
/// # Errors
/// When it cannot be read, belongs to or is open to others, or holds no key.
pub fn read_key(path: &Path) -> Result<CellKey, LocalError> {
    let file = open(path).map_err(LocalError::io("read the cell key", path))?;
    from_file(path, file)
}

/// Reads the key, or creates one. Of several processes that create one at once, all read the same.
pub(super) fn read_or_make(path: &Path) -> Result<CellKey, LocalError> {
    match open(path) {
        Ok(file) => return from_file(path, file),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(LocalError::io("read the cell key", path)(error)),
    }
    let mut bytes = [0; CellKey::LEN];
    getrandom::fill(&mut bytes).map_err(|error| LocalError::io("draw a key for", path)(std::io::Error::from(error)))?;
    put(path, &CellKey::from_bytes(bytes))?;
    read_key(path)
}

/// Writes the key, unless the file exists.
pub(super) fn put(path: &Path, key: &CellKey) -> Result<(), LocalError> {
    make_once(path, &key.to_hex()).map_err(LocalError::io("make the cell key", path))
}

/// Reads the number of a state directory; `None` if the file is missing.
pub(super) fn read_id(path: &Path) -> Result<Option<u64>, LocalError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LocalError::io("read", path)(error)),
    };
    check(path, &file, STATE_DIR)?;
    let mut text = String::new();
    file.take(KEY_FILE_BYTES).read_to_string(&mut text).map_err(LocalError::io("read", path))?;
    u64::from_str_radix(text.trim(), 16).map(Some).map_err(|_not_hex| LocalError::BadId { path: path.to_path_buf() })
}

/// Reads the number, or draws one on first use. All processes that start in the directory read the same, until it is
/// emptied.
pub(super) fn read_or_make_id(path: &Path) -> Result<u64, LocalError> {
    if let Some(id) = read_id(path)? {
        return Ok(id);
    }
    let id =
        getrandom::u64().map_err(|error| LocalError::io("draw a number for", path)(std::io::Error::from(error)))?;
    put_id(path, id)?;
    read_id(path)?.ok_or_else(|| LocalError::BadId { path: path.to_path_buf() })
}

/// Writes that number, unless the file exists.
pub(super) fn put_id(path: &Path, id: u64) -> Result<(), LocalError> {
    make_once(path, &format!("{id:016x}")).map_err(LocalError::io("make", path))
}

/// Creates a file of one line, complete or not at all. Of several processes that do so at once, one wins.
fn make_once(path: &Path, line: &str) -> std::io::Result<()> {
    let unique = getrandom::u64().map_err(std::io::Error::from)?;
    // A draft of its own for each attempt, so that processes that do this at once do not write into one file.
    let draft = path.with_extension(format!("{unique:016x}.draft"));
    let written = write(&draft, line);
    // `link` fails if the name exists, so the second process finds the first one's complete file.
    let linked = written.and_then(|()| fs::hard_link(&draft, path));
    let _ = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn from_file(path: &Path, file: File) -> Result<CellKey, LocalError> {
    check(path, &file, "cell_key")?;
    let mut text = String::new();
    let read = file.take(KEY_FILE_BYTES).read_to_string(&mut text);
    let bad = || LocalError::BadKey { path: path.to_path_buf() };
    match read {
        Ok(_) => CellKey::from_hex(&text).map_err(|BadKey| bad()),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(bad()),
        Err(error) => Err(LocalError::io("read the cell key", path)(error)),
    }
}

fn write(draft: &Path, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

/// A key file has 65 bytes. Reading some more shows that a longer file is wrong.
const KEY_FILE_BYTES: u64 = 256;
