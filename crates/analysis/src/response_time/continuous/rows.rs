//! Rows of different lengths, one after the other.

/// A list of rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    values: Vec<f64>,
    ends: Vec<usize>,
}

impl Rows {
    /// Adds a row.
    pub(super) fn push(&mut self, row: &[f64]) {
        self.values.extend_from_slice(row);
        self.ends.push(self.values.len());
    }

    /// The row of that index, rows counting from 0; an empty one where there is none.
    pub(super) fn row(&self, index: usize) -> &[f64] {
        let begin = match index {
            0 => Some(&0),
            _ => self.ends.get(index - 1),
        };
        match (begin, self.ends.get(index)) {
            (Some(begin), Some(end)) => &self.values[*begin..*end],
            _ => &[],
        }
    }

    /// How many values there are in all rows.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_rows_apart() {
        let mut rows = Rows::default();
        assert_eq!(rows.row(0), &[] as &[f64]);
        rows.push(&[1.0, 2.0]);
        rows.push(&[]);
        rows.push(&[3.0]);
        assert_eq!(rows.row(0), &[1.0, 2.0]);
        assert_eq!(rows.row(1), &[] as &[f64]);
        assert_eq!(rows.row(2), &[3.0]);
        assert_eq!(rows.row(3), &[] as &[f64]);
        assert_eq!(rows.len(), 3);
    }
}
