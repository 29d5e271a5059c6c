//! What names in filters stand for, at the member that a tap is attached to.

use std::net::SocketAddr;

use phalanx_core::id::Incarnation;
use phalanx_core::wire::Space;

/// A group view as a filter knows it.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_core::wire::Space;
/// use phalanx_tap::BoundView;
///
/// let view = BoundView { space: Space(12), members: vec![Incarnation(7), Incarnation(9)] };
/// assert_eq!(view.members[1], Incarnation(9), "the member with rank 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundView {
    /// The packet-number space of its streams.
    pub space: Space,
    /// Its members, by rank.
    pub members: Vec<Incarnation>,
}

/// A member as a filter knows it.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_tap::BoundMember;
///
/// # fn main() -> Result<(), std::net::AddrParseError> {
/// let addresses = vec!["10.0.0.3:7001".parse()?, "10.0.0.3:7002".parse()?];
/// let desk = BoundMember { incarnations: vec![Incarnation(7)], addresses };
/// # assert_eq!(desk.addresses.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundMember {
    /// Its incarnations of which packets may still come or go.
    pub incarnations: Vec<Incarnation>,
    /// Where it receives: its data and its control address.
    pub addresses: Vec<SocketAddr>,
}

/// What the member knows of names. A filter asks while it is compiled, not while it runs.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_core::wire::Space;
/// use phalanx_tap::{BoundMember, BoundView, Filter, Layout, Names};
///
/// struct Alone;
///
/// impl Names for Alone {
///     fn views(&self, group: &str) -> Vec<BoundView> {
///         let view = BoundView { space: Space(3), members: vec![Incarnation(1)] };
///         if group == "quotes" { vec![view] } else { Vec::new() }
///     }
///
///     fn member(&self, name: &str) -> Option<BoundMember> {
///         (name == "me").then(|| BoundMember { incarnations: vec![Incarnation(1)], addresses: Vec::new() })
///     }
/// }
///
/// # fn main() -> Result<(), phalanx_tap::FilterError> {
/// let filter = Filter::parse("group quotes and from me and to desk-3")?;
/// let compiled = filter.compile(Layout::Ipv4, &Alone, 96)?;
/// assert_eq!(compiled.unbound[0].name, "desk-3");
/// # Ok(())
/// # }
/// ```
pub trait Names {
    /// The views of a group of which packets may still come or go, in any order. None: the cell has no such group.
    fn views(&self, group: &str) -> Vec<BoundView>;

    /// The member of this name. `None`: the cell has no such member.
    fn member(&self, name: &str) -> Option<BoundMember>;
}

/// Knows no name: for filters that have none.
///
/// ```
/// use phalanx_tap::{Names, NoNames};
///
/// assert_eq!(NoNames.member("desk-3"), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn views(&self, _group: &str) -> Vec<BoundView> {
        Vec::new()
    }

    fn member(&self, _name: &str) -> Option<BoundMember> {
        None
    }
}
