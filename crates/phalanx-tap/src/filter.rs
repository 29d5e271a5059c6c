//! Filters: parsed once, compiled for each layout, and anew whenever names may stand for something else.

use std::fmt;
use std::str::FromStr;

use crate::compiler::{self, Missing};
use crate::error::{FilterError, FilterFault};
use crate::layout::Layout;
use crate::names::Names;
use crate::parser;
use crate::program::Program;
use crate::syntax::Expr;

/// A filter, as its text says.
///
/// ```
/// use phalanx_tap::Filter;
///
/// let error = Filter::parse("type multicast and of quotes").unwrap_err();
/// assert_eq!(error.to_string(), "byte 19: expected a type such as 'multicast', not 'of'");
/// let error = Filter::parse("tcp port 80").unwrap_err();
/// assert_eq!(error.to_string(), "byte 0: 'tcp' is not in the subset of tcpdump's language");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    expr: Expr,
}

/// A filter that was compiled.
///
/// ```
/// use phalanx_tap::{Filter, Layout, NoNames, UnboundKind};
///
/// # fn main() -> Result<(), phalanx_tap::FilterError> {
/// let compiled = Filter::parse("group quotes")?.compile(Layout::Clear, &NoNames, 96)?;
/// assert_eq!((compiled.unbound[0].place, compiled.unbound[0].kind), (6, UnboundKind::Group));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// What runs on each packet.
    pub program: Program,
    /// The names that the member does not know, in the order of the text. A test of such a name holds for no packet.
    pub unbound: Vec<Unbound>,
}

/// A name in a filter that the member does not know, or not yet.
///
/// ```
/// use phalanx_tap::{Unbound, UnboundKind};
///
/// let unbound = Unbound { place: 6, kind: UnboundKind::Group, name: "quotes".to_owned() };
/// assert_eq!(unbound.to_string(), "byte 6: no group is called 'quotes'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// The byte of the text where the name stands.
    pub place: usize,
    /// What it is the name of.
    pub kind: UnboundKind,
    /// The name.
    pub name: String,
}

/// What a name stands for.
///
/// ```
/// use phalanx_tap::UnboundKind;
///
/// assert_ne!(UnboundKind::Group, UnboundKind::Member);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnboundKind {
    /// A group.
    Group,
    /// A member of the cell.
    Member,
}

impl Filter {
    /// Parses a filter. An empty one takes every packet.
    ///
    /// # Errors
    /// [`FilterError`] says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.to_owned(), expr: parser::parsed(text)? })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compiles the filter for packets of one layout, with what names stand for now. The verdict of what it takes is
    /// `snap`, the most bytes to keep of a packet; 0 would keep nothing.
    ///
    /// # Errors
    /// [`FilterFault::Sealed`] and [`FilterFault::Datagram`] if a tap of this layout cannot know what the filter asks for;
    /// [`FilterFault::TooComplex`] and [`FilterFault::TooManyInstructions`] if no program can do it.
    pub fn compile(&self, layout: Layout, names: &dyn Names, snap: u32) -> Result<Compiled, FilterError> {
        let (instructions, missing) = compiler::compiled(&self.expr, layout, names, snap)?;
        let program = Program::new(&instructions).map_err(|error| {
            // The last tests may add jumps that go farther. Nothing else is ever refused.
            debug_assert_eq!(error.fault, crate::error::ProgramFault::TooLong, "a compiled program keeps the rules");
            FilterError { place: 0, fault: FilterFault::TooManyInstructions }
        })?;
        Ok(Compiled { program, unbound: missing.into_iter().map(Unbound::from).collect() })
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            UnboundKind::Group => "group",
            UnboundKind::Member => "member",
        };
        write!(f, "byte {}: no {kind} is called '{}'", self.place, self.name)
    }
}

impl From<Missing> for Unbound {
    fn from(Missing { place, is_group, name }: Missing) -> Self {
        let kind = if is_group { UnboundKind::Group } else { UnboundKind::Member };
        Self { place, kind, name }
    }
}
