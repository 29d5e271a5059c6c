//! The place in a filter's text, and what is read there.

use crate::bounds::NESTING_MAX;
use crate::error::{FilterError, FilterFault};
use crate::lexer::Token;
use crate::syntax::Relation;

/// Where a parser is.
pub(crate) struct Cursor<'t> {
    /// Ends with [`Token::End`].
    tokens: &'t [(usize, Token<'t>)],
    next: usize,
    /// Parentheses, brackets and negations around the next token.
    nested: usize,
}

impl<'t> Cursor<'t> {
    /// At the first of `tokens`, which end with [`Token::End`].
    pub(crate) fn new(tokens: &'t [(usize, Token<'t>)]) -> Self {
        Self { tokens, next: 0, nested: 0 }
    }

    pub(crate) fn peek(&self) -> Token<'t> {
        self.tokens.get(self.next).map_or(Token::End, |(_, token)| *token)
    }

    pub(crate) fn peek_second(&self) -> Token<'t> {
        self.tokens.get(self.next + 1).map_or(Token::End, |(_, token)| *token)
    }

    pub(crate) fn place(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(place, _)| *place)
    }

    pub(crate) fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next += 1;
        token
    }

    pub(crate) fn took_word(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Token::Word(word);
        self.next += usize::from(is_next);
        is_next
    }

    pub(crate) fn took_sign(&mut self, sign: &'static str) -> bool {
        let is_next = self.peek() == Token::Sign(sign);
        self.next += usize::from(is_next);
        is_next
    }

    pub(crate) fn need_sign(&mut self, sign: &'static str, expected: &'static str) -> Result<(), FilterError> {
        if self.took_sign(sign) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    pub(crate) fn fault(&self, fault: FilterFault) -> FilterError {
        FilterError { place: self.place(), fault }
    }

    pub(crate) fn unexpected(&self, expected: &'static str) -> FilterError {
        let found = match self.peek() {
            Token::Word(word) => format!("'{word}'"),
            Token::Quoted(name) => format!("\"{name}\""),
            Token::Sign(sign) => format!("'{sign}'"),
            Token::End => "the end".to_owned(),
        };
        self.fault(FilterFault::Unexpected { expected, found })
    }

    /// Goes one level deeper.
    pub(crate) fn enter(&mut self) -> Result<(), FilterError> {
        if self.nested == NESTING_MAX {
            return Err(self.fault(FilterFault::TooDeep));
        }
        self.nested += 1;
        Ok(())
    }

    /// Back from there.
    pub(crate) fn leave(&mut self) {
        debug_assert!(self.nested > 0, "each leave follows an enter");
        self.nested -= 1;
    }

    /// What `read` finds here. If it finds nothing, nothing was taken.
    pub(crate) fn tried<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (next, nested) = (self.next, self.nested);
        let found = read(self);
        if found.is_none() {
            (self.next, self.nested) = (next, nested);
        }
        found
    }

    /// Whether `and` was taken, or `or`.
    pub(crate) fn took_joint(&mut self) -> Option<bool> {
        if self.took_word("and") || self.took_sign("&&") {
            return Some(true);
        }
        (self.took_word("or") || self.took_sign("||")).then_some(false)
    }

    pub(crate) fn took_not(&mut self) -> bool {
        self.took_word("not") || self.took_sign("!")
    }

    pub(crate) fn took_relation(&mut self) -> Option<Relation> {
        let Token::Sign(sign) = self.peek() else { return None };
        let relation = match sign {
            "=" | "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            "<" => Relation::Less,
            "<=" => Relation::LessOrEqual,
            ">" => Relation::Greater,
            ">=" => Relation::GreaterOrEqual,
            _ => return None,
        };
        self.take();
        Some(relation)
    }

    /// A number of at most `most`: decimal, octal behind `0`, hexadecimal behind `0x`.
    pub(crate) fn number(&mut self, most: u64) -> Result<u64, FilterError> {
        let Token::Word(text) = self.peek() else { return Err(self.unexpected("a number")) };
        let number = parsed_number(text).filter(|number| *number <= most);
        let number = number.ok_or_else(|| self.fault(FilterFault::Number(text.to_owned(), most)))?;
        self.take();
        Ok(number)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number has at most 16 bits")]
    pub(crate) fn number_of_16_bits(&mut self) -> Result<u16, FilterError> {
        self.number(u16::MAX.into()).map(|number| number as u16)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number has at most 32 bits")]
    pub(crate) fn number_of_32_bits(&mut self) -> Result<u32, FilterError> {
        self.number(u32::MAX.into()).map(|number| number as u32)
    }
}

pub(crate) fn parsed_number(text: &str) -> Option<u64> {
    // `from_str_radix` takes signs, but no word begins with one.
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}
