//! The values that users put into the placeholders of their requests.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::inputs::{Lines, lines_with};
use crate::problem::Problems;

/// The column whose equal values make rows one session.
const SESSION_COLUMN: &str = "session";

/// Placeholders that have a meaning already.
const TAKEN_NAMES: [&str; 3] = ["random", "index", "busy"];

/// The most rows of a table.
const MOST_ROWS: usize = 10_000_000;

/// Rows of values for placeholders, by session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterTable {
    columns: Vec<String>,
    /// The values of all rows, one row after the other.
    values: Vec<String>,
    sessions: Vec<Range<usize>>,
}

impl ParameterTable {
    /// The column that stands for the placeholder of that name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The number of sessions; at least one.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The values of the n-th request of a session, in the order of the columns: those of the n-th row, and of the first
    /// again after the last.
    pub fn row(&self, session: usize, request: usize) -> &[String] {
        let Some(rows) = self.sessions.get(session) else {
            return &[];
        };
        let row = rows.start + request % rows.len().max(1);
        let width = self.columns.len();
        self.values
            .get(row * width..(row + 1) * width)
            .unwrap_or(&[])
    }

    /// Whether no value has a blank or a control character, as in a path of HTTP.
    pub fn is_of_one_word_values(&self) -> bool {
        let blank = |c: char| c.is_whitespace() || c.is_control();
        !self.values.iter().any(|value| value.contains(blank))
    }
}

/// Reads a table of parameters: a CSV whose header names the placeholders, without quotes. Rows that follow each other with
/// the same value in the column `session` are one session; without that column all rows are. `file` names it in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them.
pub fn parse_parameters(text: &str, file: &str) -> Result<ParameterTable, Problems> {
    let mut log = Lines::new(text, file);
    let mut content = lines_with(text, None);
    let mut table = ParameterTable::default();
    let Some((span, header)) = content.next() else {
        log.fail(
            0..0,
            "the file is empty",
            "begin it with a header such as session,lat,lon",
        );
        return log.outcome(table);
    };
    table.columns = header
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect();
    for (index, name) in table.columns.iter().enumerate() {
        if let Some((message, remedy)) = fault_of_name(name, &table.columns[..index]) {
            log.fail(span.clone(), message, remedy);
        }
    }
    let session = table.column(SESSION_COLUMN);
    let mut last: Option<String> = None;
    for (span, line) in content {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != table.columns.len() || line.contains('"') {
            let message = format!(
                "{} values for {} columns",
                fields.len(),
                table.columns.len()
            );
            log.fail(
                span,
                message,
                "give each column one value, without quotes or commas in it",
            );
            continue;
        }
        let row = table.values.len() / table.columns.len();
        if row == MOST_ROWS {
            log.fail(
                span,
                format!("there are more than {MOST_ROWS} rows"),
                "use fewer",
            );
            break;
        }
        let own = session.map(|column| fields[column].to_owned());
        match table.sessions.last_mut().filter(|_| own == last) {
            Some(rows) => rows.end = row + 1,
            None => table.sessions.push(row..row + 1),
        }
        last = own;
        table.values.extend(fields.into_iter().map(str::to_owned));
    }
    if table.sessions.is_empty() && log.problems.is_empty() {
        log.fail(
            0..0,
            "there is no row below the header",
            "add the values of one request a row",
        );
    }
    log.outcome(table)
}

/// What is wrong with the name of a column behind others, and what would be right.
fn fault_of_name(name: &str, before: &[String]) -> Option<(String, &'static str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_word) {
        let message = format!("\"{name}\" is no name of a placeholder");
        return Some((message, "use letters, digits, _ and -, such as lat"));
    }
    if TAKEN_NAMES.contains(&name) {
        let message = format!("{{{name}}} has a meaning already");
        return Some((
            message,
            "rename the column, and the placeholder in the requests",
        ));
    }
    let twice = before.iter().any(|other| other == name);
    twice.then(|| {
        (
            format!("there are two columns {name}"),
            "rename one of them",
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_of_one_session_follow_each_other() {
        let text = "session,lat,lon\na,1.0,2.0\na,1.1,2.1\nb,5,6\n";
        let table = parse_parameters(text, "walks.csv").unwrap();
        assert_eq!(table.sessions(), 2);
        assert_eq!(table.column("lat"), Some(1));
        assert_eq!(table.row(0, 1), ["a", "1.1", "2.1"]);
        assert_eq!(table.row(0, 2), ["a", "1.0", "2.0"]);
        assert_eq!(table.row(1, 7), ["b", "5", "6"]);
        assert!(table.is_of_one_word_values());
        let whole = parse_parameters("q\none two\nthree\n", "q.csv").unwrap();
        assert_eq!(
            (whole.sessions(), whole.row(0, 3)),
            (1, &["three".to_owned()][..])
        );
        assert!(!whole.is_of_one_word_values());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, words, line) in [
            ("", "empty", 1),
            ("lat,lon\n", "no row", 1),
            ("lat,la t\n1,2\n", "no name", 1),
            ("lat,lat\n1,2\n", "two columns", 1),
            ("random\n1\n", "meaning already", 1),
            ("lat,lon\n1,2\n3\n", "1 values for 2 columns", 3),
            ("lat\n\"1\"\n", "values for", 2),
        ] {
            let problems = parse_parameters(text, "p.csv").unwrap_err();
            let first = problems.iter().next().unwrap();
            assert!(problems.to_string().contains(words), "{problems}");
            assert_eq!(first.line, line, "{problems}");
        }
    }
}
