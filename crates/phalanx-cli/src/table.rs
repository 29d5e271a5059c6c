//! Tables for people. Columns are separated by two blanks and have no frames, so that `cut` and `sort` work on them.

use std::fmt;

/// A table that is laid out when it is displayed.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// First of the columns that are aligned to the right because they hold numbers.
    numbers_from: usize,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()], numbers_from: usize::MAX }
    }

    /// Aligns the columns from `first` on to the right.
    pub(crate) fn numbers_from(mut self, first: usize) -> Self {
        self.numbers_from = first;
        self
    }

    pub(crate) fn row<T: fmt::Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.to_string()).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line.push_str(&if column >= self.numbers_from {
                    format!("{gap}{cell:>width$}")
                } else {
                    format!("{gap}{cell:<width$}")
                });
            }
            let end = if number + 1 < self.rows.len() { "\n" } else { "" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["name", "count"]).numbers_from(1);
        table.row(["a", "5"]);
        table.row(["longer", "123456"]);
        assert_eq!(table.to_string(), "name     count\na            5\nlonger  123456");
    }
}
