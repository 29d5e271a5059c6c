//! Space-time diagrams: well-formed, with the proofs of a violation in them, and the same each time.

use phalanx_check::svg::{Diagram, Mark};
use phalanx_check::{Options, check, memory_label};
use phalanx_sim::{Reduction, draw_seed};
use phalanx_trace::{Event, Header, Order, Trace};
use roxmltree::Document;

const MS: u64 = 1_000_000;

/// Three go on together, and only the first delivered the last message of one that died: a violation of S3.
fn broken_run() -> Vec<Trace> {
    let names = ["a", "b<&>\"c\"", "c", "d"];
    let members: Vec<(u64, String)> = (1..=4).zip(names).map(|(who, name)| (who, name.to_owned())).collect();
    let mut traces: Vec<Trace> =
        members.iter().map(|(who, name)| Trace::new(Header::process("cell", name, *who, "clock"))).collect();
    for (trace, i) in traces.iter_mut().zip(0_u64..) {
        trace.push(i * MS, Event::Start);
        trace.push(i * MS + 1, Event::JoinAsked { cell: "cell".into() });
        trace.push(10 * MS + i, Event::CellView { instance: 9, view: 1, members: members.clone(), left: vec![] });
        trace.push(20 * MS, Event::GroupJoinAsked { name: "led<ger".into(), with_state: false });
        let (name, members) = ("led<ger".to_owned(), vec![1, 2, 3, 4]);
        let joined = members.clone();
        let view = Event::GroupView { group: 7, name, view: 1, prev: None, members, joined, left: vec![] };
        trace.push(30 * MS + i * 100_000, view);
    }
    let (group, view, seq, order, uniform, hash) = (7, 1, 1, Order::Fifo, false, 77);
    traces[3].push(40 * MS, Event::Send { group, view, seq, order, uniform, hash });
    let delivery =
        Event::Deliver { group, view, sender: 4, seq, order, uniform, position: None, hash, replayed: false };
    traces[0].push(41 * MS, delivery.clone());
    traces[3].push(40 * MS, delivery);
    let left = vec![(4, phalanx_trace::LeaveReason::Died)];
    for (trace, i) in traces[..3].iter_mut().zip(0_u64..) {
        let cell_members = members[..3].to_vec();
        trace.push(
            900 * MS + i * MS,
            Event::CellView { instance: 9, view: 2, members: cell_members, left: left.clone() },
        );
        let (name, members, left) = ("led<ger".to_owned(), vec![1, 2, 3], left.clone());
        let view = Event::GroupView { group: 7, name, view: 2, prev: Some(1), members, joined: vec![], left };
        trace.push(901 * MS + i * MS, view);
        trace.push(950 * MS, Event::End);
    }
    let mut harness = Trace::new(Header::harness("cell", "clock"));
    harness.push(42 * MS, Event::Crash { incarnation: 4 });
    traces.push(harness);
    traces
}

fn picture_of(traces: &[Trace]) -> String {
    let report = check(traces, &Options { complete: true, ..Options::default() });
    let labels: Vec<String> = traces.iter().map(memory_label).collect();
    let mark = Mark { at_ns: 35 * MS, node: None, text: "cut: 3>1 & 3>2 <both>".into() };
    Diagram::new("A run & its <end>", traces).with_report(&report, &labels).with_marks([mark]).to_svg()
}

/// Keeps a picture for people, in `target/tmp`.
fn keep(name: &str, svg: &str) {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, svg).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}

fn texts<'a>(document: &'a Document<'_>) -> Vec<&'a str> {
    // A text may begin with a title, which is an element of its own.
    let elements = document.descendants().filter(|node| node.has_tag_name("text"));
    elements.filter_map(|node| node.last_child()).filter_map(|node| node.text()).collect()
}

#[test]
fn what_proves_a_violation_is_in_the_picture() {
    let svg = picture_of(&broken_run());
    keep("broken.svg", &svg);
    let document = Document::parse(&svg).expect("well-formed XML");
    let texts = texts(&document);
    assert!(texts.iter().any(|text| text.starts_with("S3 at ") && text.contains("delivered")), "{texts:?}");
    assert!(texts.contains(&"S3 is broken"));
    assert!(texts.iter().any(|text| text.contains("deliver group 7 view 1")), "the record itself: {texts:?}");
    let with_class = |class: &str| document.descendants().filter(|node| node.attribute("class") == Some(class)).count();
    // Rings at the records inside the window, and one in the legend; and the message in red.
    let numbers = texts.iter().filter(|text| text.parse::<u32>().is_ok()).count();
    assert!(with_class("ring") >= 3 && numbers >= 4, "{} rings, {numbers} numbers", with_class("ring"));
    assert!(with_class("proofarrow") >= 1);
    // Names that are no XML are shown unchanged.
    assert!(texts.contains(&"b<&>\"c\""));
    assert!(texts.iter().any(|text| text.starts_with("led<ger.")));
    assert!(texts.iter().any(|text| text.contains("<both>")));
}

#[test]
fn nothing_of_a_picture_lies_outside_of_it() {
    let svg = picture_of(&broken_run());
    let document = Document::parse(&svg).expect("well-formed XML");
    let number =
        |node: roxmltree::Node<'_, '_>, name: &str| node.attribute(name).and_then(|text| text.parse::<f64>().ok());
    let (width, height) = (number(document.root_element(), "width"), number(document.root_element(), "height"));
    for node in document.descendants().filter(|node| node.ancestors().all(|above| !above.has_tag_name("marker"))) {
        for (names, most) in [(["x", "x1", "x2", "cx"], width), (["y", "y1", "y2", "cy"], height)] {
            for at in names.into_iter().filter_map(|name| number(node, name)) {
                assert!(at >= 0.0 && most.is_some_and(|most| at <= most), "{node:?} at {at} of {most:?}");
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_picture() {
    let traces = broken_run();
    assert_eq!(picture_of(&traces), picture_of(&traces));
}

#[test]
fn a_seed_is_drawn_in_the_window_asked_for() {
    let mut options = phalanx_sim::Options { members: 3, ..phalanx_sim::Options::default() };
    options.reduced = "until=3000,gap=500".parse::<Reduction>().expect("well formed");
    let window = Some(0..=4_000_000_000);
    let svg = draw_seed(5, &options, window.clone());
    assert_eq!(svg, draw_seed(5, &options, window));
    keep("seed.svg", &svg);
    let document = Document::parse(&svg).expect("well-formed XML");
    let texts = texts(&document);
    for text in ["p0", "p1", "p2", "p0 starts", "cell 1"] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert!(texts[0].contains("--reduced until=3000,gap=500"), "how to get it again: {}", texts[0]);
}

#[test]
fn an_empty_run_is_an_empty_picture() {
    let svg = Diagram::new("nothing", &[]).to_svg();
    Document::parse(&svg).expect("well-formed XML");
}
