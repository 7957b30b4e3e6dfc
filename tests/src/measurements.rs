//! Results of benchmarks, as committed (`bench/results/*.toml`) and as rendered (`docs/measurements/*.md`).

use std::fmt::Write as _;

use serde::Deserialize;

use crate::markdown;

/// The folder of the result files.
pub const RESULTS: &str = "bench/results";
/// The folder of the pages that are rendered from them.
pub const PAGES: &str = "docs/measurements";

/// The begins of the marks in SPECIFICATION.md.
const MARKS: [&str; 2] = ["**not reached", "**not measured"];

/// The results of one benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// The title of its page.
    pub title: String,
    /// A paragraph below the title.
    #[serde(default)]
    pub text: String,
    /// The command that measures it, where a result names no other.
    command: String,
    /// The machine, where a result names no other.
    machine: String,
    /// The results, in the order of the page.
    #[serde(rename = "result")]
    pub results: Vec<Measurement>,
}

/// One measured result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The heading. SPECIFICATION.md links to its anchor.
    pub name: String,
    /// The promise in words, with its number.
    promise: Option<String>,
    /// Whether the promise was reached.
    pub reached: Reached,
    method: Option<String>,
    command: Option<String>,
    machine: Option<String>,
    repetitions: Option<String>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    #[serde(default)]
    notes: Vec<String>,
}

/// Whether a promise was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Reached {
    /// In every run and setting.
    #[serde(rename = "yes")]
    Yes,
    /// Not in every run or setting.
    #[serde(rename = "in part")]
    InPart,
    /// In no setting that the promise names.
    #[serde(rename = "no")]
    No,
    /// Something was promised that was not measured.
    #[serde(rename = "not measured")]
    NotMeasured,
    /// Nothing was promised.
    #[serde(rename = "no promise")]
    NoPromise,
}

impl Reached {
    /// The words on a page.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Yes => "Reached.",
            Self::InPart => "**Not reached everywhere.**",
            Self::No => "**Not reached.**",
            Self::NotMeasured => "**Not measured.**",
            Self::NoPromise => "",
        }
    }

    /// The begin of the mark that a line of SPECIFICATION.md has to have.
    fn line_mark(self) -> Option<&'static str> {
        match self {
            Self::Yes | Self::NoPromise => None,
            Self::InPart | Self::No => Some("**not reached"),
            Self::NotMeasured => Some("**not measured"),
        }
    }
}

impl Measurement {
    /// The anchor of the heading.
    pub fn anchor(&self) -> String {
        markdown::anchors(&format!("## {}", self.name)).concat()
    }

    fn render(&self, benchmark: &Benchmark, page: &mut String) {
        let _ = write!(page, "\n## {}\n\n", self.name);
        if let Some(promise) = &self.promise {
            let mark = self.reached.mark();
            let _ = write!(page, "Promise: {promise}. {mark}\n\n");
        }
        let command = self.command.as_ref().unwrap_or(&benchmark.command);
        let facts = [
            ("Command", Some(format!("`{command}`"))),
            ("Method", self.method.clone()),
            (
                "Machine",
                self.machine
                    .clone()
                    .or_else(|| Some(benchmark.machine.clone())),
            ),
            ("Repetitions", self.repetitions.clone()),
        ];
        for (name, fact) in facts {
            if let Some(fact) = fact {
                let _ = writeln!(page, "- {name}: {fact}");
            }
        }
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        page.push('\n');
        page.push_str(&line(&self.columns));
        page.push_str(&line(&vec!["---".to_owned(); self.columns.len()]));
        for row in &self.rows {
            assert_eq!(row.len(), self.columns.len(), "a row of \"{}\"", self.name);
            page.push_str(&line(row));
        }
        for note in &self.notes {
            let _ = write!(page, "\n{note}\n");
        }
    }
}

/// The results in a file.
pub fn parse(text: &str) -> Benchmark {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The page of the results in `file`.
pub fn render(file: &str, benchmark: &Benchmark) -> String {
    let mut page = format!(
        "<!-- Rendered from {file}; README.md says how. -->\n# {}\n",
        benchmark.title
    );
    if !benchmark.text.is_empty() {
        let _ = write!(page, "\n{}\n", benchmark.text.trim());
    }
    for result in &benchmark.results {
        result.render(benchmark, &mut page);
    }
    page
}

/// Lines of SPECIFICATION.md that disagree with the result that they link to. `page` names the page of the results.
pub fn disagreements(specification: &str, page: &str, benchmark: &Benchmark) -> Vec<String> {
    let mut messages = Vec::new();
    for result in &benchmark.results {
        let link = format!("]({page}#{})", result.anchor());
        let mut lines = specification
            .lines()
            .filter(|line| line.contains(&link))
            .peekable();
        if result.promise.is_some() && lines.peek().is_none() {
            messages.push(format!("no line links to \"{}\": {link}", result.name));
        }
        for line in lines {
            let mark = MARKS.into_iter().find(|mark| line.contains(mark));
            if mark != result.reached.line_mark() {
                let reached = result.reached;
                messages.push(format!(
                    "{reached:?} is the result, but the line is: {line}"
                ));
            }
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "title = \"Speed\"\ncommand = \"bench/x\"\nmachine = \"one CPU\"\n\
                        [[result]]\nname = \"A start\"\npromise = \"1 ms\"\nreached = \"no\"\n\
                        repetitions = \"three\"\ncolumns = [\"a\", \"b\"]\nrows = [[\"1\", \"2 ms\"]]\n\
                        notes = [\"Slow.\"]\n";

    #[test]
    fn a_page_has_promise_facts_figures_and_notes() {
        let page = render("x.toml", &parse(FILE));
        let end = "\n## A start\n\nPromise: 1 ms. **Not reached.**\n\n- Command: `bench/x`\n- Machine: one CPU\n\
                   - Repetitions: three\n\n| a | b |\n| --- | --- |\n| 1 | 2 ms |\n\nSlow.\n";
        assert!(page.ends_with(end), "{page}");
    }

    #[test]
    fn a_line_says_what_its_result_says() {
        let check = |text: &str| disagreements(text, "d/x.md", &parse(FILE)).len();
        assert_eq!(check("| **not reached**: [figures](d/x.md#a-start) |"), 0);
        assert_eq!(check("| [figures](d/x.md#a-start) |"), 1);
        assert_eq!(check("| **not reached**: [figures](d/x.md#another) |"), 1);
    }
}
