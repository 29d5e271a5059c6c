//! Comparisons of numbers that are computed from the packet.

use crate::bounds::OPERATORS_MAX;
use crate::cursor::{Cursor, parsed_number};
use crate::error::{FilterError, FilterFault};
use crate::lexer::Token;
use crate::step::Operation;
use crate::syntax::{Arith, Base, Condition, Expr, Protocol, Relation};

/// The operators, with how close they bind. libpcap does not say how close the last two do, and has them begin behind a
/// minus: they stand alone or in parentheses here.
const OPERATORS: [(&str, Operation, u8); 10] = [
    ("|", Operation::Or, 1),
    ("&", Operation::And, 2),
    ("<<", Operation::Lsh, 3),
    (">>", Operation::Rsh, 3),
    ("+", Operation::Add, 4),
    ("-", Operation::Sub, 4),
    ("*", Operation::Mul, 5),
    ("/", Operation::Div, 5),
    ("%", Operation::Mod, ALONE),
    ("^", Operation::Xor, ALONE),
];
const ALONE: u8 = 0;

impl Cursor<'_> {
    /// A comparison, if one begins here. If not, nothing is taken.
    pub(crate) fn tried_comparison(&mut self) -> Option<Expr> {
        self.tried(|cursor| cursor.comparison().ok())
    }

    /// Whether a number here begins a comparison.
    pub(crate) fn is_number_compared(&self) -> bool {
        let is_number = matches!(self.peek(), Token::Word(text) if parsed_number(text).is_some());
        let is_sign = matches!(self.peek_second(), Token::Sign(sign) if !matches!(sign, ")" | "&&" | "||"));
        is_number && is_sign
    }

    pub(crate) fn comparison(&mut self) -> Result<Expr, FilterError> {
        let place = self.place();
        let mut operators = OPERATORS_MAX;
        let left = self.arith(&mut operators)?;
        let relation = self.took_relation().ok_or_else(|| self.unexpected("a comparison such as '>='"))?;
        let right = self.arith(&mut operators)?;
        Ok(Expr::Test(place, Condition::Compare(left, relation, right)))
    }

    /// `less N` and `greater N`.
    pub(crate) fn length_bound(&mut self) -> Result<Expr, FilterError> {
        let place = self.place();
        let relation =
            if self.take() == Token::Word("less") { Relation::LessOrEqual } else { Relation::GreaterOrEqual };
        let number = Arith::Number(self.number_of_32_bits()?);
        Ok(Expr::Test(place, Condition::Compare(Arith::Len, relation, number)))
    }

    /// Operands and operators up to something else. `operators`: how many more there may be.
    fn arith(&mut self, operators: &mut usize) -> Result<Arith, FilterError> {
        // What waits for its right side: the place of the operator, the operator, and what stands left of it.
        let mut waiting: Vec<(usize, Operation, u8, Arith)> = Vec::new();
        let is_negative = self.peek() == Token::Sign("-");
        let mut last = self.operand(operators)?;
        let mut alone = None;
        let mut count = 0;
        while let Some((sign, operation, binds)) = self.peeked_operator() {
            let place = self.place();
            count += 1;
            if binds == ALONE {
                alone = Some((place, sign));
            }
            if let Some((place, sign)) = alone
                && (count > 1 || is_negative)
            {
                return Err(FilterError { place, fault: FilterFault::Parentheses(sign) });
            }
            *operators = operators.checked_sub(1).ok_or_else(|| self.fault(FilterFault::TooComplex))?;
            self.take();
            while let Some((place, operation, _, left)) = waiting.pop_if(|(.., before, _)| *before >= binds) {
                last = calculated(place, operation, left, last)?;
            }
            waiting.push((place, operation, binds, last));
            last = self.operand(operators)?;
        }
        while let Some((place, operation, _, left)) = waiting.pop() {
            last = calculated(place, operation, left, last)?;
        }
        Ok(last)
    }

    fn peeked_operator(&self) -> Option<(&'static str, Operation, u8)> {
        let Token::Sign(sign) = self.peek() else { return None };
        OPERATORS.into_iter().find(|(operator, ..)| *operator == sign)
    }

    fn operand(&mut self, operators: &mut usize) -> Result<Arith, FilterError> {
        if self.took_sign("-") {
            self.enter()?;
            let operand = self.operand(operators)?;
            self.leave();
            return Ok(match operand {
                Arith::Number(number) => Arith::Number(number.wrapping_neg()),
                operand => Arith::Negative(Box::new(operand)),
            });
        }
        if self.took_sign("(") {
            self.enter()?;
            let inner = self.arith(operators)?;
            self.leave();
            self.need_sign(")", "')'")?;
            return Ok(inner);
        }
        let base = match self.peek() {
            Token::Word("len") => {
                self.take();
                return Ok(Arith::Len);
            }
            Token::Word("size") => {
                self.take();
                return Ok(Arith::Size);
            }
            Token::Word("packet") => Base::Packet,
            Token::Word("ip") => Base::Protocol(Protocol::Ip),
            Token::Word("ip6") => Base::Protocol(Protocol::Ip6),
            Token::Word("udp") => Base::Protocol(Protocol::Udp),
            _ => return self.number_of_32_bits().map(Arith::Number),
        };
        self.take();
        self.need_sign("[", "'['")?;
        self.enter()?;
        let index = Box::new(self.arith(operators)?);
        self.leave();
        let count = if self.took_sign(":") { self.count()? } else { 1 };
        self.need_sign("]", "']'")?;
        Ok(Arith::Bytes { base, index, count })
    }

    fn count(&mut self) -> Result<u8, FilterError> {
        let count = match self.peek() {
            Token::Word("1") => 1,
            Token::Word("2") => 2,
            Token::Word("4") => 4,
            _ => return Err(self.unexpected("1, 2 or 4")),
        };
        self.take();
        Ok(count)
    }
}

/// The operation, done at once if both sides are numbers.
fn calculated(place: usize, operation: Operation, left: Arith, right: Arith) -> Result<Arith, FilterError> {
    let error = |fault| Err(FilterError { place, fault });
    match (operation, &right) {
        (Operation::Div | Operation::Mod, Arith::Number(0)) => return error(FilterFault::Division),
        (Operation::Lsh | Operation::Rsh, Arith::Number(32..)) => return error(FilterFault::Shift),
        _ => {}
    }
    if let (Arith::Number(a), Arith::Number(b)) = (&left, &right)
        && let Some(result) = operation.apply(*a, *b)
    {
        return Ok(Arith::Number(result));
    }
    Ok(Arith::Binary(operation, Box::new(left), Box::new(right)))
}
