//! Memory that one process writes and others read: files that cannot shrink, mapped, with rings in them.

#[allow(unsafe_code)]
pub(crate) mod map;
pub(crate) mod ring;
pub(crate) mod sealed;
#[cfg(test)]
mod tests;
