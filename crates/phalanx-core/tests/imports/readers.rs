//! The readers of the guards, on small sources.

use super::graph::Graph;
use super::source::Module;
use super::types::{Size, sizes};

/// A crate of three files: the root, `a` and `b`.
fn small(root: &str, a: &str, b: &str) -> Graph {
    let files = [("", root), ("a", a), ("b", b)];
    let module = |name: &str| if name.is_empty() { Module::new() } else { vec![name.to_owned()] };
    Graph::of(&files.into_iter().map(|(name, text)| (module(name), text.to_owned())).collect())
}

#[test]
fn circles_are_found_however_a_file_imports() {
    let a_circle = [vec![vec!["a".to_owned()], vec!["b".to_owned()]]];
    let there = "use crate::b::B; pub struct A;";
    for back in ["use crate::a::A;", "use super::a::*;", "fn f() { crate::a::A; }", "use crate::Again;"] {
        let graph = small("pub use a::A as Again;", there, &format!("pub struct B; {back}"));
        assert_eq!(graph.circles(), a_circle, "by {back}");
    }
    for none in ["", "// use crate::a::A;", "const S: &str = \"{ crate::a::A\";", "#[cfg(test)] use crate::a::A;"] {
        let graph = small("", there, &format!("pub struct B; {none}"));
        assert!(graph.circles().is_empty(), "by {none}");
    }
    let others = small("pub use a::A; use crate::b::B;", "use crate::b::B; pub struct A;", "pub struct B;");
    assert!(others.circles().is_empty(), "a re-export of a module's own parts is no import");
}

#[test]
fn methods_are_counted_wherever_they_stand() {
    let graph = small(
        "pub struct Few(u8, Vec<(u8, u8)>); pub struct None; struct Many<T: Fn(u8) -> u8> where T: Clone { one: T, \
         two: [crate::b::B; 2], pub(in crate::a) three: std::vec::Vec<u8>, }",
        "use super::Many; impl<T: Fn(u8) -> u8> Many<T> where T: Clone { const C: fn(u8) = f; fn one(&self) { \
         fn inner() {} let c = '{'; let s = r#\"} fn \"#; } pub(crate) fn two(f: fn(u8)) -> impl Fn() {} \
         #[cfg(test)] fn none() {} } impl Clone for Many<u8> { fn clone() {} } #[cfg(test)] impl Many<u8> { fn no() {} }",
        "use crate::Many as Renamed; impl Renamed<u8> { async fn three() {} } impl super::Few { } \
         pub struct B { #[cfg(test)] none: u8, some: u8 }",
    );
    let found: Vec<(String, Size)> = sizes(&graph).into_iter().map(|((_, name), size)| (name, size)).collect();
    let size = |fields, methods, files| Size { fields, methods, files };
    let named = |name: &str, size| (name.to_owned(), size);
    let expected = [
        named("Few", size(2, 0, 0)),
        named("Many", size(3, 3, 2)),
        named("None", size(0, 0, 0)),
        named("B", size(1, 0, 0)),
    ];
    assert_eq!(found, expected);
}
