//! Checks which auto traits a type has, and whether a table names every public type of a crate. Shared by the tests
//! `auto_traits.rs` of the crates that users import.

use std::fs;
use std::marker::PhantomData;
use std::path::Path;

use crate::sources;

/// The type that is examined. Its inherent constants hide those of [`Lacks`] where the bound holds.
pub(crate) struct Asked<T: ?Sized>(PhantomData<T>);

/// The constants of every type: without a bound it has no trait.
#[allow(dead_code, reason = "if all types of a crate have a trait, its absence is never checked")]
pub(crate) trait Lacks {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
    const UNWIND_SAFE: bool = false;
    const REF_UNWIND_SAFE: bool = false;
}

impl<T: ?Sized> Lacks for Asked<T> {}

impl<T: ?Sized + Send> Asked<T> {
    pub(crate) const SEND: bool = true;
}

impl<T: ?Sized + Sync> Asked<T> {
    pub(crate) const SYNC: bool = true;
}

impl<T: ?Sized + Unpin> Asked<T> {
    pub(crate) const UNPIN: bool = true;
}

impl<T: ?Sized + std::panic::UnwindSafe> Asked<T> {
    pub(crate) const UNWIND_SAFE: bool = true;
}

impl<T: ?Sized + std::panic::RefUnwindSafe> Asked<T> {
    pub(crate) const REF_UNWIND_SAFE: bool = true;
}

/// `table!(NAME, has [SEND, SYNC], lacks [UNWIND_SAFE], [A, B]);` does not compile if one of the types lacks a trait of
/// the first list, or has one of the second. `NAME` is the list of the types as written.
macro_rules! table {
    ($name:ident, has $has:tt, lacks $lacks:tt, [$($asked:ty),* $(,)?]) => {
        const $name: &[&str] = &[$(stringify!($asked)),*];
        $(table!(@each $asked, $has, $lacks);)*
    };
    (@each $asked:ty, [$($has:ident),*], [$($lacks:ident),*]) => {
        $(const _: () = assert!(Asked::<$asked>::$has, concat!(stringify!($asked), " must be ", stringify!($has)));)*
        $(const _: () = assert!(!Asked::<$asked>::$lacks, concat!(stringify!($asked), " must not be ", stringify!($lacks)));)*
    };
}
pub(crate) use table;

/// Fails unless the tables name each public type in the sources of the crate in `folder` once, except `unnamed`, which
/// users cannot name.
///
/// A line that begins with `pub struct` or `pub enum` declares a public type: the lint `unreachable_pub` ensures that.
pub(crate) fn expect_all_types(folder: &str, tables: &[&[&str]], unnamed: &[&str]) {
    let mut known = types(&Path::new(folder).join("src"));
    known.retain(|name| !unnamed.contains(&name.as_str()));
    // The last part of the path, without generic arguments.
    let last = |row: &str| {
        let path = row.split('<').next().unwrap_or(row);
        path.rsplit("::").next().unwrap_or(path).trim().to_owned()
    };
    let mut listed: Vec<String> = tables.concat().into_iter().map(last).collect();
    listed.retain(|name| !unnamed.contains(&name.as_str()));
    known.sort();
    listed.sort();
    let beside =
        |a: &[String], b: &[String]| -> Vec<String> { a.iter().filter(|name| !b.contains(name)).cloned().collect() };
    assert_eq!(beside(&known, &listed), [""; 0], "public types without a row in tests/auto_traits.rs");
    assert_eq!(beside(&listed, &known), [""; 0], "rows of tests/auto_traits.rs without a public type");
    assert_eq!(known, listed, "types of one name have a row each");
}

/// The names of the structs and enums that the sources below `dir` call public.
fn types(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources::below(dir) {
        for line in fs::read_to_string(&file).expect("readable").lines().map(str::trim_start) {
            let Some(rest) = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")) else {
                continue;
            };
            found.extend(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned));
        }
    }
    found
}
