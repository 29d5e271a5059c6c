//! Results of a property's check, before they are formatted and related to files.

use std::collections::HashMap;

use crate::Property;

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Index of the trace.
    pub(crate) trace: usize,
    /// Index of the record in it, from 0.
    pub(crate) index: usize,
}

/// Texts of the records that evidence refers to.
pub(crate) type Texts = HashMap<Place, String>;

/// Result of one property.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) property: Property,
    pub(crate) instances: u64,
    pub(crate) under_failure: u64,
    pub(crate) violations: u64,
    pub(crate) given_up: u64,
    pub(crate) kept: Vec<(String, Vec<Place>)>,
    keep_max: usize,
}

impl Findings {
    pub(crate) fn new(property: Property, keep_max: usize) -> Self {
        Self { property, instances: 0, under_failure: 0, violations: 0, given_up: 0, kept: Vec::new(), keep_max }
    }

    /// Counts one case in which the property was put to the test.
    pub(crate) fn instance(&mut self) {
        self.instances += 1;
    }

    /// Counts such a case; `failing`: it is one under failure.
    pub(crate) fn instance_when(&mut self, failing: bool) {
        self.instances += 1;
        self.under_failure += u64::from(failing);
    }

    /// Counts a case that could not be decided within the bound.
    pub(crate) fn given_up(&mut self) {
        self.given_up += 1;
    }

    /// Counts a violation; `evidence` lists the records that prove it.
    pub(crate) fn violation(&mut self, evidence: &[Place], summary: impl FnOnce() -> String) {
        self.violations += 1;
        if self.kept.len() < self.keep_max {
            self.kept.push((summary(), evidence.to_vec()));
        }
    }

    /// Every record that the kept evidence refers to.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.kept.iter().flat_map(|(_, places)| places.iter().copied())
    }
}
