//! What a property's check found, before it is put into words and files.

use std::collections::HashMap;

use crate::Property;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which trace.
    pub(crate) trace: usize,
    /// Which record in it, from 0.
    pub(crate) index: usize,
}

/// Texts of the records that evidence points at.
pub(crate) type Texts = HashMap<Place, String>;

/// One property's outcome.
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

    /// The property was put to the test once.
    pub(crate) fn instance(&mut self) {
        self.instances += 1;
    }

    /// The property was put to the test once; `failing`: while a member was lost.
    pub(crate) fn instance_when(&mut self, failing: bool) {
        self.instances += 1;
        self.under_failure += u64::from(failing);
    }

    /// Whether the property holds could not be found out.
    pub(crate) fn given_up(&mut self) {
        self.given_up += 1;
    }

    /// The property does not hold; `evidence` names the records that prove it.
    pub(crate) fn violation(&mut self, evidence: &[Place], summary: impl FnOnce() -> String) {
        self.violations += 1;
        if self.kept.len() < self.keep_max {
            self.kept.push((summary(), evidence.to_vec()));
        }
    }

    /// Every record that kept evidence points at.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.kept.iter().flat_map(|(_, places)| places.iter().copied())
    }
}
