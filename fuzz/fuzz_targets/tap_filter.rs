//! Arbitrary text as a filter: what is understood compiles to a verified program or is refused by name, for each layout, and
//! errors name a place in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::id::Incarnation;
use phalanx_core::wire::Space;
use phalanx_tap::{BoundMember, BoundView, Filter, FilterError, Layout, Names, PROGRAM_MAX, Packet};

/// Knows every name that begins with a letter of the first half.
struct Half;

impl Names for Half {
    fn views(&self, group: &str) -> Vec<BoundView> {
        let view = BoundView { space: Space(7), members: vec![Incarnation(1), Incarnation(2)] };
        if is_known(group) { vec![view] } else { Vec::new() }
    }

    fn member(&self, name: &str) -> Option<BoundMember> {
        let addresses = vec![([10, 0, 0, 1], 7000).into(), ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 7000).into()];
        is_known(name).then(|| BoundMember { incarnations: vec![Incarnation(1), Incarnation(9)], addresses })
    }
}

fn is_known(name: &str) -> bool {
    name < "n"
}

fuzz_target!(|text: &str| {
    let is_place = |error: &FilterError| error.place <= text.len() && text.is_char_boundary(error.place);
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => return assert!(is_place(&error), "{error}"),
    };
    for layout in Layout::ALL {
        match filter.compile(layout, &Half, 96) {
            Ok(compiled) => {
                let packet = Packet::new(&[0x45; 48], [&[0x36; 24], text.as_bytes(), &[]]);
                let (verdict, count) = compiled.program.run_counted(&packet);
                assert!(verdict == 0 || verdict == 96);
                assert!(count <= compiled.program.instructions().len() && count <= PROGRAM_MAX);
                assert!(compiled.unbound.iter().all(|name| text.contains(&name.name) && !is_known(&name.name)));
            }
            Err(error) => assert!(is_place(&error), "{error}"),
        }
    }
});
