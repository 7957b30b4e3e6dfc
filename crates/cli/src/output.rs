//! Where text goes: data to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;

use crate::arguments::{ExportArguments, Format};
use crate::failure::Failure;

/// The version of every JSON document that a verb prints.
const OUTPUT_SCHEMA_VERSION: u32 = 1;

/// How a verb speaks.
#[derive(Clone, Debug)]
pub struct Output {
    format: Format,
    quiet: bool,
    verbose: u8,
    exports: Vec<(Format, PathBuf)>,
}

/// A JSON document with its version.
#[derive(Serialize)]
struct VersionedDocument<'a, T: Serialize> {
    schema_version: u32,
    tailbound_version: &'static str,
    #[serde(flatten)]
    data: &'a T,
}

impl Output {
    /// An output in `format`; `quiet` keeps notes back, `verbose` adds some.
    pub fn new(format: Format, quiet: bool, verbose: u8) -> Self {
        Self {
            format,
            quiet,
            verbose,
            exports: Vec::new(),
        }
    }

    /// Whether people read along: bars and colours only then.
    pub fn interactive(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Whether anything but errors is said.
    pub fn speaks(&self) -> bool {
        !self.quiet
    }

    /// The form of the data.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Says something beside the data, unless told to be quiet.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("{}", text.as_ref());
        }
    }

    /// Says something that has gone wrong, even when told to be quiet.
    pub fn warn(&self, text: impl AsRef<str>) {
        eprintln!("tailbound: warning: {}", text.as_ref());
    }

    /// Says something that only the curious need.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            eprintln!("{}", text.as_ref());
        }
    }

    /// The same, which also writes every answer to the files that `exports` names.
    pub fn exporting(&self, exports: &ExportArguments) -> Self {
        let json = exports.export_json.iter().map(|path| (Format::Json, path));
        let csv = exports.export_csv.iter().map(|path| (Format::Csv, path));
        let files = json.chain(csv);
        Self {
            exports: files.map(|(format, path)| (format, path.clone())).collect(),
            ..self.clone()
        }
    }

    /// Prints rows under a header as a table or CSV, or `data` as JSON, whichever is asked for, and
    /// writes the files that are asked for.
    ///
    /// # Errors
    /// Standard output or a file cannot be written.
    pub fn rows(
        &self,
        header: &[&str],
        rows: &[Vec<String>],
        data: &impl Serialize,
    ) -> Result<(), Failure> {
        let table = || format!("{}\n", table(header, rows));
        self.rows_with(table, header, rows, data)
    }

    /// The same with a form for people of its own; `header` and `rows` are the CSV's.
    ///
    /// # Errors
    /// Standard output or a file cannot be written.
    pub fn rows_with(
        &self,
        for_people: impl FnOnce() -> String,
        header: &[&str],
        rows: &[Vec<String>],
        data: &impl Serialize,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(data)?,
            Format::Csv => self.print(&csv(header, rows)?)?,
            Format::Table => self.print(&for_people())?,
        }
        for (format, path) in &self.exports {
            let text = match format {
                Format::Json => document(data)?,
                _ => csv(header, rows)?,
            };
            write_file(path, &text)?;
        }
        Ok(())
    }

    /// Prints a JSON document with its schema version.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn json(&self, data: &impl Serialize) -> Result<(), Failure> {
        self.print(&document(data)?)
    }

    /// Prints data as it is. A reader that went away is no error.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::error(
                format!("cannot write to standard output: {error}"),
            )),
            _ => Ok(()),
        }
    }
}

/// A JSON document with its schema version, and a newline.
fn document(data: &impl Serialize) -> Result<String, Failure> {
    let document = VersionedDocument {
        schema_version: OUTPUT_SCHEMA_VERSION,
        tailbound_version: env!("CARGO_PKG_VERSION"),
        data,
    };
    let text = serde_json::to_string_pretty(&document).map_err(Failure::error)?;
    Ok(text + "\n")
}

/// Reads a file that was named.
pub fn read_file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::error(format!("cannot read {}: {error}", path.display())))
}

/// Writes a file that was asked for.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))
}

/// A line above, below and under the header; none between rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('═').junction('═'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Rows as a plain table that survives copying: within the width of the terminal, if it goes to one.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let terminal = terminal_size::terminal_size_of(io::stdout());
    table_within(terminal.map(|(width, _)| width.0), header, rows)
}

/// The same, as wide as it needs to be without a width. Where its longest words leave no room it is wider.
fn table_within(width: Option<u16>, header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header);
    match width {
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.add_rows(rows);
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Rows as CSV by RFC 4180.
fn csv(header: &[&str], rows: &[Vec<String>]) -> Result<String, Failure> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .flexible(true)
        .from_writer(Vec::new());
    writer.write_record(header).map_err(Failure::from_error)?;
    for row in rows {
        writer.write_record(row).map_err(Failure::from_error)?;
    }
    let bytes = writer.into_inner().map_err(Failure::error)?;
    String::from_utf8(bytes).map_err(Failure::from_error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_table_stays_within_its_width_and_says_all() {
        let words = "budgets are enforced at ticks unless HRTICK_DL is on".to_owned();
        let rows = vec![
            vec!["deadline".to_owned(), words.clone()],
            vec!["none".to_owned(), String::new()],
        ];
        let wide = table_within(None, &["back end", "remark"], &rows);
        assert_eq!(wide.lines().count(), 6, "{wide}");
        assert!(wide.contains(&words));
        let narrow = table_within(Some(40), &["back end", "remark"], &rows);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40),
            "{narrow}"
        );
        for word in words.split(' ') {
            assert!(narrow.contains(word), "{narrow}");
        }
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = vec![vec!["a,b".into(), "say \"x\"".into()]];
        assert_eq!(
            csv(&["one", "two"], &rows).unwrap(),
            "one,two\r\n\"a,b\",\"say \"\"x\"\"\"\r\n"
        );
    }

    #[test]
    fn a_table_has_its_header_and_rows() {
        let text = table(&["what", "value"], &[vec!["p99".into(), "3ms".into()]]);
        assert!(
            text.contains("what") && text.contains("p99") && text.contains("3ms"),
            "{text}"
        );
    }
}
