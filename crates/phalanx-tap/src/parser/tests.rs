use crate::bounds::{NESTING_MAX, TEXT_BYTES_MAX};
use crate::error::{FilterError, FilterFault};
use crate::filter::Filter;
use crate::layout::Layout;
use crate::names::NoNames;
use crate::packet::Packet;

/// The fault of a text, and its place.
fn fault(text: &str) -> Option<(usize, FilterFault)> {
    Filter::parse(text).err().map(|FilterError { place, fault }| (place, fault))
}

fn expected(expected: &'static str, found: &str) -> FilterFault {
    FilterFault::Unexpected { expected, found: found.to_owned() }
}

/// Whether two texts say the same.
fn are_alike(one: &str, other: &str) -> bool {
    let program = |text: &str, layout| {
        let compiled =
            Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).compile(layout, &NoNames, 9);
        compiled.map(|compiled| compiled.program).map_err(|error| error.fault)
    };
    Layout::ALL.iter().all(|layout| program(one, *layout) == program(other, *layout))
}

#[test]
fn faults_are_told_with_their_place() {
    for (text, place, wanted) in [
        ("type", 4, expected("a type such as 'multicast'", "the end")),
        ("type foo", 5, expected("a type such as 'multicast'", "'foo'")),
        ("in out", 3, expected("'and', 'or' or the end", "'out'")),
        ("in and", 6, expected("a test", "the end")),
        ("(in", 3, expected("')'", "the end")),
        ("in)", 2, expected("'and', 'or' or the end", "')'")),
        ("frobnicate", 0, FilterFault::UnknownWord("frobnicate".to_owned())),
        ("in and tcp", 7, FilterFault::NotInSubset("tcp".to_owned())),
        ("vlan 7", 0, FilterFault::NotInSubset("vlan".to_owned())),
        ("host sundown", 5, FilterFault::Address("sundown".to_owned())),
        ("host 10.1", 5, FilterFault::Address("10.1".to_owned())),
        ("host 10.0.0.300", 5, FilterFault::Address("10.0.0.300".to_owned())),
        ("port http", 5, FilterFault::Number("http".to_owned(), 65_535)),
        ("port 65536", 5, FilterFault::Number("65536".to_owned(), 65_535)),
        ("portrange 5-x", 10, expected("a range such as '7000-7009'", "'5-x'")),
        ("udp host 10.0.0.1", 4, FilterFault::Apart("host", "udp")),
        ("ip port 5", 3, FilterFault::Apart("port", "ip")),
        ("ip host ::1", 8, FilterFault::Apart("an IPv6 address", "ip")),
        ("ip6 host 10.0.0.1", 9, FilterFault::Apart("an IPv4 address", "ip6")),
        ("net 10.0.0.1/8", 4, FilterFault::Prefix),
        ("net 10.0.0.0/33", 13, FilterFault::Number("33".to_owned(), 32)),
        ("udp[0:3] = 1", 6, expected("1, 2 or 4", "'3'")),
        ("udp[0] 1", 7, expected("a comparison such as '>='", "'1'")),
        ("len > 99999999999", 6, FilterFault::Number("99999999999".to_owned(), 4_294_967_295)),
        ("len / 0 = 1", 4, FilterFault::Division),
        ("len % (3 - 3) = 1", 4, FilterFault::Division),
        ("len << 32 = 1", 4, FilterFault::Shift),
        ("len % 3 + 1 = 1", 4, FilterFault::Parentheses("%")),
        ("len + 1 ^ 1 = 1", 8, FilterFault::Parentheses("^")),
        ("-len % 3 = 1", 5, FilterFault::Parentheses("%")),
        ("number 5", 7, expected("a comparison such as '>='", "'5'")),
        ("sender 12ab", 7, expected("an incarnation of 16 digits", "'12ab'")),
        ("rank 2", 5, FilterFault::WhichGroup),
        ("group a or group b and rank 2", 28, FilterFault::WhichGroup),
        ("rank 65536 of a", 5, FilterFault::Number("65536".to_owned(), 65_535)),
        ("10.0.0.1", 0, FilterFault::UnknownWord("10.0.0.1".to_owned())),
        ("group \"a", 6, FilterFault::Quote),
        ("in ; out", 3, FilterFault::Character(';')),
        ("class foo", 6, expected("'data' or 'control'", "'foo'")),
    ] {
        assert_eq!(fault(text), Some((place, wanted)), "{text}");
    }
}

#[test]
fn a_name_may_be_any_word() {
    for text in ["from and", "group type", "member 7", "to größe", "from \"not me\"", "group (a or \"or\")"] {
        assert_eq!(fault(text), None, "{text}");
    }
}

#[test]
fn a_tap_refuses_by_name_what_it_cannot_know() {
    let refused = |text: &str, layout| {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        filter.compile(layout, &NoNames, 9).err().map(|FilterError { place, fault }| (place, fault))
    };
    for (text, place, word) in [
        ("in and frame heartbeat", 13, "frame"),
        ("order total", 6, "order"),
        ("uniform", 0, "uniform"),
        ("not ack", 4, "ack"),
        ("ack of quotes", 7, "ack of"),
        ("acked > 5", 0, "acked"),
    ] {
        for layout in [Layout::Ipv4, Layout::Ipv6] {
            assert_eq!(refused(text, layout), Some((place, FilterFault::Sealed(word))), "{text}");
        }
        assert_eq!(refused(text, Layout::Clear), None, "{text}");
    }
    for (text, place, word) in [
        ("in and host 10.0.0.1", 12, "host"),
        ("net fd00::/8", 4, "net"),
        ("src port 5", 9, "port"),
        ("portrange 5-6", 10, "portrange"),
        ("udp", 0, "udp"),
        ("ip[0] = 1", 0, "ip"),
        ("packet[udp[3]] = 1", 0, "udp"),
    ] {
        assert_eq!(refused(text, Layout::Clear), Some((place, FilterFault::Datagram(word))), "{text}");
        assert_eq!(refused(text, Layout::Ipv4), None, "{text}");
    }
}

#[test]
fn a_bare_value_takes_the_word_before_it() {
    assert!(are_alike("port 53 or 54", "port 53 or port 54"));
    assert!(are_alike("port (53 or 54)", "port 53 or port 54"));
    assert!(are_alike("src port 53 and not 54", "src port 53 and not src port 54"));
    assert!(are_alike("port not 53", "not port 53"));
    assert!(are_alike("port 53 and (54 or 55)", "port 53 and (port 54 or port 55)"));
    assert!(are_alike("type data or multicast", "type data or type multicast"));
    assert!(are_alike("host 10.0.0.1 and (10.0.0.2 or fd00::1)", "host 10.0.0.1 and (host 10.0.0.2 or host fd00::1)"));
    // What stands between takes it away.
    assert_eq!(fault("port 53 or in or 54"), Some((17, FilterFault::UnknownWord("54".to_owned()))));
}

#[test]
fn and_and_or_bind_alike_from_left_to_right() {
    assert!(are_alike("in or out and memory", "(in or out) and memory"));
    assert!(are_alike("in and out or memory", "(in and out) or memory"));
    assert!(are_alike("not in and out", "(not in) and out"));
    assert!(are_alike("! in && out || memory", "not in and out or memory"));
    assert!(!are_alike("in or out and memory", "in or (out and memory)"));
}

#[test]
fn numbers_are_reckoned_in_the_order_of_their_operators() {
    assert!(are_alike("len + 2 * 3 = 4", "len + 6 = 4"));
    assert!(are_alike("len = 2 + 3 * 4 << 1 & 0xff | 1", "len = 29"));
    assert!(are_alike("len = 10 - 3 - 2", "len = 5"));
    assert!(are_alike("len = 100 / 5 / 2", "len = 10"));
    assert!(are_alike("len = -1", "len = 0xffffffff"));
    assert!(are_alike("len = 017 - 0xa", "len = 5"));
    assert!(are_alike("len = (7 % 4) ^ 1", "len = 2"));
    assert!(are_alike("less 5", "len <= 5"));
    assert!(are_alike("greater 5", "len >= 5"));
    assert!(are_alike("((len)) == (5)", "len = 5"));
    assert!(are_alike("size = 5 and 54 = len", "(size == 5) and (54 == len)"));
}

#[test]
fn a_text_has_its_bounds() {
    let padded = |bytes: usize| format!("in{}", " ".repeat(bytes - 2));
    assert_eq!(fault(&padded(TEXT_BYTES_MAX)), None);
    assert_eq!(fault(&padded(TEXT_BYTES_MAX + 1)), Some((TEXT_BYTES_MAX, FilterFault::TooLong)));

    let parentheses = |count: usize| format!("{}in{}", "(".repeat(count), ")".repeat(count));
    assert_eq!(fault(&parentheses(NESTING_MAX)), None);
    assert_eq!(fault(&parentheses(NESTING_MAX + 1)).map(|(_, fault)| fault), Some(FilterFault::TooDeep));

    let negations = |count: usize| format!("{}in", "!".repeat(count));
    assert_eq!(fault(&negations(NESTING_MAX)), None);
    assert_eq!(fault(&negations(NESTING_MAX + 1)).map(|(_, fault)| fault), Some(FilterFault::TooDeep));

    let changes = |count: usize| format!("in{}", " and in or in".repeat(count));
    assert_eq!(fault(&changes(NESTING_MAX / 2)), None);
    assert_eq!(fault(&changes(NESTING_MAX / 2 + 1)).map(|(_, fault)| fault), Some(FilterFault::TooDeep));

    let list = |count: usize| format!("in{}", " or in".repeat(count));
    assert_eq!(fault(&list(600)), None, "a list is not deep");

    let minuses = |count: usize| format!("{}len = 1", "-".repeat(count));
    assert_eq!(fault(&minuses(NESTING_MAX)), None);
    assert_eq!(fault(&minuses(NESTING_MAX + 1)).map(|(_, fault)| fault), Some(FilterFault::TooDeep));

    let sums = |count: usize| format!("len{} = 1", " + len".repeat(count));
    assert_eq!(fault(&sums(64)), None);
    assert_eq!(fault(&sums(65)).map(|(_, fault)| fault), Some(FilterFault::TooComplex));
}

#[test]
fn a_program_has_its_bounds() {
    let compiled = |text: &str| {
        let filter = Filter::parse(text).expect("a filter");
        filter.compile(Layout::Ipv6, &NoNames, 9).map(|compiled| compiled.program).map_err(|error| error.fault)
    };
    // Each address takes 16 instructions.
    let hosts = |count: usize| format!("host ::1{}", " or ::1".repeat(count - 1));
    assert!(compiled(&hosts(250)).is_ok());
    assert_eq!(compiled(&hosts(270)), Err(FilterFault::TooManyInstructions));
    // Each parenthesis on the right takes a scratch word.
    let right = |count: usize| format!("{}len{} = 1", "len - (".repeat(count), ")".repeat(count));
    assert!(compiled(&right(16)).is_ok());
    assert_eq!(compiled(&right(17)), Err(FilterFault::TooComplex));
}

#[test]
fn an_empty_filter_takes_everything() {
    for text in ["", "  \n"] {
        for layout in Layout::ALL {
            let program =
                Filter::parse(text).expect("a filter").compile(layout, &NoNames, 5).expect("a program").program;
            assert_eq!(program.run_counted(&Packet::new(&[], [&[]; 3])), (5, 1));
        }
    }
}
