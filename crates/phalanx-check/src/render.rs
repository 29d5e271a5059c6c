//! Formats a report for people.

use std::fmt::{self, Display, Formatter};

use crate::report::{PropertyReport, Report, Violation};

impl Display for Report {
    /// Writes a summary line, a table of the properties, the violations, and what was missing.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        writeln!(f, "{}: {}", if self.passed { "PASSED" } else { "FAILED" }, self.verdict())?;
        writeln!(
            f,
            "{} records of {} traces: {} processes, {} cell views, {} group views ({} lost a member), {} multicasts, \
             {} deliveries, {} crashes, {} exclusions, {} transfers",
            s.records,
            s.traces,
            s.processes,
            s.cell_views,
            s.group_views,
            s.lossy_changes,
            s.multicasts,
            s.deliveries,
            s.crashes,
            s.exclusions,
            s.transfers
        )?;
        writeln!(f, "quiet phase: {}", s.quiet)?;
        self.notes(f)?;
        writeln!(f, "\n      {:>10} {:>10} {:>10}", "tested", "failing", "broken")?;
        for p in &self.properties {
            p.fmt(f)?;
        }
        for p in self.properties.iter().filter(|p| p.violations > 0) {
            writeln!(f, "\n{} {} is broken, {} times:", p.property, p.title, p.violations)?;
            for violation in &p.first {
                violation.fmt(f)?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn verdict(&self) -> String {
        let codes = |of: &[crate::Property]| of.iter().map(|p| p.code()).collect::<Vec<_>>().join(", ");
        let broken = self.violated();
        let given_up: Vec<_> = self.properties.iter().filter(|p| p.given_up > 0).map(|p| p.property).collect();
        let told = [
            ("broken", &broken),
            ("never put to the test, though required", &self.missing),
            ("took too long to check", &given_up),
        ];
        let said: Vec<String> = told
            .iter()
            .filter(|(_, which)| !which.is_empty())
            .map(|(what, which)| format!("{what}: {}", codes(which)))
            .collect();
        if said.is_empty() { "every property held".to_owned() } else { said.join("; ") }
    }

    fn notes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        for (what, which) in [
            ("ends inside a record", &s.truncated),
            ("holds nothing", &s.empty_files),
            ("has no trace; what depends on it was not evaluated", &s.missing_traces),
        ] {
            for one in which {
                writeln!(f, "note: {one} {what}")?;
            }
        }
        for p in self.properties.iter().filter(|p| p.given_up > 0) {
            writeln!(f, "note: {} took too long to check {} times", p.property, p.given_up)?;
        }
        Ok(())
    }
}

impl Display for PropertyReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (code, title) = (self.property.code(), self.title);
        writeln!(f, "  {code:<4} {:>10} {:>10} {:>10}  {title}", self.instances, self.under_failure, self.violations)
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.summary)?;
        for e in &self.evidence {
            writeln!(f, "    {}#{}: {}", e.file, e.index, e.text)?;
        }
        Ok(())
    }
}
