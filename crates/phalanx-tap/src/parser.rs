//! From the text of a filter to what it says.

use crate::bounds::{NESTING_MAX, TEXT_BYTES_MAX};
use crate::cursor::Cursor;
use crate::error::{FilterError, FilterFault};
use crate::layout::{Flags, FrameKind};
use crate::lexer::{Token, tokens};
use crate::summary::Summary;
use crate::syntax::{Condition, End, Expr, Field, Protocol};
use crate::values::Word;

/// Words of tcpdump's language that are not in the subset.
const NOT_IN_SUBSET: [&str; 31] = [
    "ah",
    "arp",
    "atalk",
    "broadcast",
    "byte",
    "carp",
    "decnet",
    "esp",
    "ether",
    "fddi",
    "gateway",
    "geneve",
    "icmp",
    "icmp6",
    "ifindex",
    "igmp",
    "inbound",
    "iso",
    "link",
    "llc",
    "mask",
    "mpls",
    "outbound",
    "pppoes",
    "proto",
    "protochain",
    "rarp",
    "sctp",
    "tcp",
    "vlan",
    "wlan",
];

/// Parses a filter.
pub(crate) fn parsed(text: &str) -> Result<Expr, FilterError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(FilterError { place: TEXT_BYTES_MAX, fault: FilterFault::TooLong });
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { cursor: Cursor::new(&tokens) };
    if parser.cursor.peek() == Token::End {
        return Ok(Expr::And(Vec::new()));
    }
    let mut expr = parser.expr(None)?.expr;
    if parser.cursor.peek() != Token::End {
        return Err(parser.cursor.unexpected("'and', 'or' or the end"));
    }
    name_groups_of_ranks(&mut expr)?;
    Ok(expr)
}

/// A rank without a group is of the one that the filter names.
fn name_groups_of_ranks(expr: &mut Expr) -> Result<(), FilterError> {
    let mut named: Vec<String> = Vec::new();
    expr.for_each_test(&mut |_, condition| {
        if let Condition::Group(name) | Condition::Rank(_, Some(name)) | Condition::AckOf(name) = condition
            && !named.contains(name)
        {
            named.push(name.clone());
        }
    });
    let mut missing = None;
    expr.for_each_test(&mut |place, condition| {
        if let Condition::Rank(_, group @ None) = condition {
            match &named[..] {
                [name] => *group = Some(name.clone()),
                _ => missing = missing.or(Some(place)),
            }
        }
    });
    missing.map_or(Ok(()), |place| Err(FilterError { place, fault: FilterFault::WhichGroup }))
}

/// What was parsed.
struct Part {
    expr: Expr,
    /// How deep the expression is.
    depth: usize,
    /// The word that a bare value behind it takes.
    word: Option<Word>,
}

impl Part {
    fn of(expr: Expr, word: Option<Word>) -> Self {
        Self { expr, depth: 0, word }
    }
}

struct Parser<'t> {
    cursor: Cursor<'t>,
}

impl Parser<'_> {
    /// Runs `parse` one level deeper.
    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Result<Part, FilterError>) -> Result<Part, FilterError> {
        self.cursor.enter()?;
        let part = parse(self)?;
        self.cursor.leave();
        Ok(part)
    }

    /// `and` and `or` bind alike, from left to right.
    fn expr(&mut self, word: Option<Word>) -> Result<Part, FilterError> {
        let mut left = self.term(word)?;
        while let Some(is_and) = self.cursor.took_joint() {
            let right = self.term(left.word)?;
            left = self.joined(left, is_and, right)?;
        }
        Ok(left)
    }

    fn joined(&self, left: Part, is_and: bool, right: Part) -> Result<Part, FilterError> {
        let is_same = matches!((&left.expr, is_and), (Expr::And(_), true) | (Expr::Or(_), false));
        // A list that grows is no deeper than its deepest element.
        let depth = (left.depth + usize::from(!is_same)).max(right.depth + 1);
        if depth > NESTING_MAX {
            return Err(self.cursor.fault(FilterFault::TooDeep));
        }
        let expr = if is_and { left.expr.and(right.expr) } else { left.expr.or(right.expr) };
        Ok(Part { expr, depth, word: right.word })
    }

    fn negated(&self, part: Part) -> Result<Part, FilterError> {
        let depth = part.depth + 1;
        if depth > NESTING_MAX {
            return Err(self.cursor.fault(FilterFault::TooDeep));
        }
        Ok(Part { expr: Expr::Not(Box::new(part.expr)), depth, word: part.word })
    }

    fn term(&mut self, word: Option<Word>) -> Result<Part, FilterError> {
        if self.cursor.took_not() {
            let part = self.deeper(|parser| parser.term(word))?;
            return self.negated(part);
        }
        if self.cursor.peek() == Token::Sign("(") {
            // The parenthesis may begin an expression of numbers.
            if let Some(comparison) = self.cursor.tried_comparison() {
                return Ok(Part::of(comparison, None));
            }
            self.cursor.take();
            let part = self.deeper(|parser| parser.expr(word))?;
            self.cursor.need_sign(")", "')'")?;
            return Ok(Part { word, ..part });
        }
        self.primary(word)
    }

    /// A single test, or values of one word.
    fn primary(&mut self, word: Option<Word>) -> Result<Part, FilterError> {
        let place = self.cursor.place();
        let name = match self.cursor.peek() {
            Token::Word(name) => name,
            Token::Quoted(_) => return self.bare_value(word),
            Token::Sign("-") => return self.comparison(),
            Token::Sign(_) | Token::End => return Err(self.cursor.unexpected("a test")),
        };
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return if self.cursor.is_number_compared() { self.comparison() } else { self.bare_value(word) };
        }
        let test = |condition| Ok(Part::of(Expr::Test(place, condition), None));
        if let Some(word) = Word::named(name) {
            self.cursor.take();
            return self.values(word);
        }
        match name {
            "len" | "size" | "packet" => self.comparison(),
            "ip" | "ip6" | "udp" if self.cursor.peek_second() == Token::Sign("[") => self.comparison(),
            "ip" | "ip6" | "udp" | "src" | "dst" | "host" | "net" | "port" | "portrange" => {
                let protocol = self.took_protocol();
                match self.datagram_word(protocol)? {
                    Some(word) => self.values(word),
                    None => test(Condition::Protocol(protocol.unwrap_or(Protocol::Udp))),
                }
            }
            "less" | "greater" => Ok(Part::of(self.cursor.length_bound()?, None)),
            "in" | "out" => {
                self.cursor.take();
                test(Condition::Flag(Flags::SENT, name == "out"))
            }
            "memory" => {
                self.cursor.take();
                test(Condition::Flag(Flags::MEMORY, true))
            }
            "uniform" => {
                self.cursor.take();
                test(Condition::Order(Summary::UNIFORM, "uniform"))
            }
            "ack" => {
                self.cursor.take();
                if self.cursor.took_word("of") {
                    self.values(Word::AckOf)
                } else {
                    test(Condition::Frame(FrameKind::Ack))
                }
            }
            "number" => self.field(Field::Number, u64::MAX),
            "space" => self.field(Field::Space, u32::MAX.into()),
            "acked" => self.field(Field::Acked, u64::MAX),
            _ => self.bare_value(word),
        }
    }

    fn comparison(&mut self) -> Result<Part, FilterError> {
        Ok(Part::of(self.cursor.comparison()?, None))
    }

    /// A value without a word before it.
    fn bare_value(&mut self, word: Option<Word>) -> Result<Part, FilterError> {
        if let Some(word) = word {
            let condition = self.cursor.value(word)?;
            return Ok(Part::of(condition, Some(word)));
        }
        match self.cursor.peek() {
            Token::Word(name) if NOT_IN_SUBSET.contains(&name) => {
                Err(self.cursor.fault(FilterFault::NotInSubset(name.to_owned())))
            }
            Token::Word(name) => Err(self.cursor.fault(FilterFault::UnknownWord(name.to_owned()))),
            _ => Err(self.cursor.unexpected("a test")),
        }
    }

    /// One value behind its word, or several in parentheses.
    fn values(&mut self, word: Word) -> Result<Part, FilterError> {
        if self.cursor.took_not() {
            let part = self.deeper(|parser| parser.values(word))?;
            return self.negated(part);
        }
        if !self.cursor.took_sign("(") {
            return Ok(Part::of(self.cursor.value(word)?, Some(word)));
        }
        let mut left = self.deeper(|parser| parser.values(word))?;
        while let Some(is_and) = self.cursor.took_joint() {
            let right = self.deeper(|parser| parser.values(word))?;
            left = self.joined(left, is_and, right)?;
        }
        self.cursor.need_sign(")", "')'")?;
        Ok(left)
    }

    fn took_protocol(&mut self) -> Option<Protocol> {
        let found = [Protocol::Ip, Protocol::Ip6, Protocol::Udp];
        found.into_iter().find(|protocol| self.cursor.took_word(protocol.word()))
    }

    /// The word of addresses or ports that begins here. `None`: only a protocol stood before.
    fn datagram_word(&mut self, protocol: Option<Protocol>) -> Result<Option<Word>, FilterError> {
        let place = self.cursor.place();
        let end = self.took_end();
        let kind = ["host", "net", "port", "portrange"].into_iter().find(|kind| self.cursor.took_word(kind));
        let (end, kind) = match (end, kind) {
            (None, None) => return Ok(None),
            (end, kind) => (end.unwrap_or(End::Either), kind.unwrap_or("host")),
        };
        let goes_together = match (protocol, kind) {
            (None, _) | (Some(Protocol::Udp), "port" | "portrange") => true,
            (Some(Protocol::Ip | Protocol::Ip6), "host" | "net") => true,
            (Some(_), _) => false,
        };
        if let (false, Some(protocol)) = (goes_together, protocol) {
            return Err(FilterError { place, fault: FilterFault::Apart(kind, protocol.word()) });
        }
        Ok(Some(match kind {
            "host" => Word::Host(end, protocol),
            "net" => Word::Net(end, protocol),
            "port" => Word::Port(end),
            _ => Word::PortRange(end),
        }))
    }

    /// `src`, `dst`, `src or dst` and so on.
    fn took_end(&mut self) -> Option<End> {
        let (first, other) = match self.cursor.peek() {
            Token::Word("src") => (End::Source, "dst"),
            Token::Word("dst") => (End::Destination, "src"),
            _ => return None,
        };
        self.cursor.take();
        let both = self.cursor.tried(|cursor| {
            let is_and = cursor.took_joint()?;
            cursor.took_word(other).then_some(if is_and { End::Both } else { End::Either })
        });
        Some(both.unwrap_or(first))
    }

    /// `number > 5` and its like.
    fn field(&mut self, field: Field, most: u64) -> Result<Part, FilterError> {
        let place = self.cursor.place();
        self.cursor.take();
        let relation =
            self.cursor.took_relation().ok_or_else(|| self.cursor.unexpected("a comparison such as '>='"))?;
        let number = self.cursor.number(most)?;
        Ok(Part::of(Expr::Test(place, Condition::Field(field, relation, number)), None))
    }
}

#[cfg(test)]
mod tests;
