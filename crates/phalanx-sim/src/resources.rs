//! The resources that the locks of a group guard, outside of the cell.

use crate::objects::LOCKS;

/// Resources outside of the cell, one for each lock. A resource knows nothing of views. It lets in a token that is no
/// smaller than any it has seen.
#[derive(Debug, Default)]
pub(crate) struct Guarded {
    pub(crate) resources: [Resource; LOCKS],
    /// Number of values written so far, so that no two are equal.
    pub(crate) values: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resource {
    pub(crate) uses: u64,
    pub(crate) newest: u64,
}

/// One use of a resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Its number among all uses of the resource.
    pub(crate) serial: u64,
    /// Whether the token let it in.
    pub(crate) accepted: bool,
}

impl Resource {
    /// Uses a resource with a token. Returns the count of this use, and whether it is let in.
    pub(crate) fn use_with(&mut self, token: u64) -> Use {
        self.uses += 1;
        let accepted = token >= self.newest;
        self.newest = self.newest.max(token);
        Use { serial: self.uses, accepted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_turns_older_tokens_away() {
        let mut resource = Resource::default();
        assert_eq!(resource.use_with(5), Use { serial: 1, accepted: true });
        assert_eq!(resource.use_with(5), Use { serial: 2, accepted: true });
        assert_eq!(resource.use_with(7), Use { serial: 3, accepted: true });
        assert_eq!(resource.use_with(5), Use { serial: 4, accepted: false });
    }
}
