//! Files that a description names: traces of jobs, samples and histograms of execution times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::description::{Bin, Description};
use crate::named_files::{FilePurpose, named_files};
use crate::parameter_table::{ParameterTable, parse_parameters};
use crate::parser::KeyPath;
use crate::problem::{Problem, Problems, Severity, SourceText};

/// The longest input file, in bytes: some ten million lines.
const LONGEST_INPUT: u64 = 256 << 20;

/// Problems told of one input file; the rest would say the same.
const MOST_PROBLEMS: usize = 20;

/// A measured execution time and how often it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SampleCount {
    /// The execution time.
    pub value: Duration,
    /// How many jobs had it; at least 1.
    pub count: u64,
}

/// One job of a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TracedJob {
    /// When it was released, from the start of the recording.
    pub release: Duration,
    /// How long it ran, where the file says so.
    pub execution: Option<Duration>,
}

/// The contents of the files that a description names, by the path it names them with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputFiles {
    traces: BTreeMap<PathBuf, Vec<TracedJob>>,
    samples: BTreeMap<PathBuf, Vec<SampleCount>>,
    histograms: BTreeMap<PathBuf, Vec<Bin>>,
    #[serde(default)]
    parameters: BTreeMap<PathBuf, ParameterTable>,
}

impl InputFiles {
    /// The jobs of the trace that the description calls `file`, in the order of their releases.
    pub fn trace(&self, file: &Path) -> Option<&[TracedJob]> {
        self.traces.get(file).map(Vec::as_slice)
    }

    /// The bins of the histogram that the description calls `file`; never empty.
    pub fn histogram(&self, file: &Path) -> Option<&[Bin]> {
        self.histograms.get(file).map(Vec::as_slice)
    }

    /// The execution times that the description calls `file`, ascending; never empty.
    pub fn samples(&self, file: &Path) -> Option<&[SampleCount]> {
        self.samples.get(file).map(Vec::as_slice)
    }

    /// The values of placeholders that the description calls `file`.
    pub fn parameters(&self, file: &Path) -> Option<&ParameterTable> {
        self.parameters.get(file)
    }

    /// Adds values of placeholders that did not come from a file.
    pub fn insert_parameters(&mut self, file: impl Into<PathBuf>, table: ParameterTable) {
        self.parameters.insert(file.into(), table);
    }

    /// Adds a trace that did not come from a file; the jobs are put in order, and those of one
    /// instant keep theirs.
    pub fn insert_trace(&mut self, file: impl Into<PathBuf>, mut jobs: Vec<TracedJob>) {
        jobs.sort_by_key(|job| job.release);
        self.traces.insert(file.into(), jobs);
    }

    /// Adds a histogram that did not come from a file.
    pub fn insert_histogram(&mut self, file: impl Into<PathBuf>, bins: Vec<Bin>) {
        self.histograms.insert(file.into(), bins);
    }

    /// Adds the files of another description; one of the same path and form takes the place of ours.
    pub fn merge(&mut self, mut others: Self) {
        self.traces.append(&mut others.traces);
        self.samples.append(&mut others.samples);
        self.histograms.append(&mut others.histograms);
        self.parameters.append(&mut others.parameters);
    }

    /// Adds samples that did not come from a file; they are put in order.
    pub fn insert_samples(&mut self, file: impl Into<PathBuf>, mut samples: Vec<SampleCount>) {
        samples.sort_unstable();
        self.samples.insert(file.into(), samples);
    }
}

/// Reads every trace, sample and histogram file that `description` names, relative to `base` (the folder of
/// the description).
///
/// # Errors
/// All that is missing, unreadable or malformed, with the file and line of each.
pub fn load_inputs(description: &Description, base: &Path) -> Result<InputFiles, Problems> {
    load_each(description, base, |place, message, remedy, path| {
        let file = path.display().to_string();
        let source = SourceText {
            file: &file,
            text: "",
        };
        source.problem(Severity::Error, 0..0, place.to_string(), message, remedy)
    })
}

/// As [`load_inputs`]; `missing` makes the problem of a file that cannot be read.
pub(crate) fn load_each(
    description: &Description,
    base: &Path,
    missing: impl Fn(&KeyPath, String, String, &Path) -> Problem,
) -> Result<InputFiles, Problems> {
    let mut inputs = InputFiles::default();
    let mut problems = Vec::new();
    for (place, purpose, file) in named_files(description) {
        let is_loaded = match purpose {
            FilePurpose::Trace => inputs.traces.contains_key(&file),
            // What another task reads for its releases may lack execution times.
            FilePurpose::TraceWithExecution => false,
            FilePurpose::Histogram => inputs.histograms.contains_key(&file),
            FilePurpose::Samples => inputs.samples.contains_key(&file),
            FilePurpose::Parameters => inputs.parameters.contains_key(&file),
        };
        if is_loaded {
            continue;
        }
        let path = base.join(&file);
        let text = match read(&path) {
            Ok(text) => text,
            Err((message, remedy)) => {
                problems.push(missing(&place, message, remedy, &path));
                continue;
            }
        };
        let shown = path.display().to_string();
        let outcome = match purpose {
            FilePurpose::Trace => parse_jobs(&text, &shown).map(|jobs| {
                inputs.traces.insert(file, jobs);
            }),
            FilePurpose::TraceWithExecution => parse_jobs(&text, &shown).and_then(|jobs| {
                every_job_has_an_execution_time(&jobs, &shown)?;
                inputs.traces.insert(file, jobs);
                Ok(())
            }),
            FilePurpose::Histogram => parse_histogram(&text, &shown).map(|bins| {
                inputs.histograms.insert(file, bins);
            }),
            FilePurpose::Samples => parse_samples(&text, &shown).map(|samples| {
                inputs.samples.insert(file, samples);
            }),
            FilePurpose::Parameters => parse_parameters(&text, &shown).map(|table| {
                inputs.parameters.insert(file, table);
            }),
        };
        if let Err(more) = outcome {
            problems.extend(more);
        }
    }
    match problems.is_empty() {
        true => Ok(inputs),
        false => Err(Problems::new(problems)),
    }
}

/// The text of the file, or what is wrong and what would be right.
fn read(path: &Path) -> Result<String, (String, String)> {
    let shown = path.display();
    let remedy = "relative paths start at the folder of the description";
    let failed = |error: std::io::Error| (format!("cannot read {shown}: {error}"), remedy.into());
    // Only a plain file has an end: a pipe or device would block, or feed us for ever.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err((format!("{shown} is no plain file"), "name a file".into()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST_INPUT + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LONGEST_INPUT {
        let message = format!("{shown} is longer than {LONGEST_INPUT} bytes");
        return Err((message, "use a shorter recording".into()));
    }
    String::from_utf8(bytes).map_err(|_| {
        (
            format!("{shown} is no text (UTF-8)"),
            "name a text file".into(),
        )
    })
}

/// The lines of a file that say something, with their places; `#` begins a comment.
fn lines(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, &str)> {
    lines_with(text, Some('#'))
}

/// The same of a file in which `comment` begins a comment anywhere, if it is one.
pub(crate) fn lines_with(
    text: &str,
    comment: Option<char>,
) -> impl Iterator<Item = (std::ops::Range<usize>, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let begin = start;
        start += line.len();
        let before_comment = comment.and_then(|comment| line.split_once(comment));
        let content = before_comment.map_or(line, |(content, _)| content);
        let trimmed = content.trim();
        let begin = begin + (content.len() - content.trim_start().len());
        (!trimmed.is_empty()).then_some((begin..begin + trimmed.len(), trimmed))
    })
}

/// Reads a trace of releases, as [`parse_jobs`] does.
///
/// # Errors
/// As [`parse_jobs`].
pub fn parse_trace(text: &str, file: &str) -> Result<Vec<Duration>, Problems> {
    let jobs = parse_jobs(text, file)?;
    Ok(jobs.into_iter().map(|job| job.release).collect())
}

/// Reads a trace of jobs: a CSV whose header names the columns `release_ns` and, if wanted,
/// `execution_ns`, or one release per line as a duration. Releases count from the start and never go
/// back; `#` begins a comment. `file` names it in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them.
pub fn parse_jobs(text: &str, file: &str) -> Result<Vec<TracedJob>, Problems> {
    let mut log = Lines::new(text, file);
    let mut content = lines(text).peekable();
    let header = content.peek().map_or("", |(_, header)| header);
    let columns = column(header, "release_ns").map(|at| (at, column(header, "execution_ns")));
    if columns.is_some() {
        content.next();
    }
    let mut jobs: Vec<TracedJob> = Vec::new();
    for (span, line) in content {
        let job = match columns {
            Some((release, execution)) => log.job(&span, line, release, execution),
            None => log.duration(span.clone(), line).map(|release| TracedJob {
                release,
                execution: None,
            }),
        };
        let Some(job) = job else {
            continue;
        };
        if let Some(last) = jobs.last().filter(|last| last.release > job.release) {
            let message = format!("{} is earlier than {} before it", job.release, last.release);
            log.fail(
                span,
                message,
                "put the releases in order; each is a time since the start",
            );
        }
        jobs.push(job);
    }
    if jobs.is_empty() && log.problems.is_empty() {
        log.fail(
            0..0,
            "there is no release in the file",
            "write one duration per line, such as 5ms, or a CSV with the header \
             release_ns,execution_ns",
        );
    }
    log.outcome(jobs)
}

/// An error unless the file says how long every job ran.
fn every_job_has_an_execution_time(jobs: &[TracedJob], file: &str) -> Result<(), Problems> {
    if jobs.iter().all(|job| job.execution.is_some()) {
        return Ok(());
    }
    let mut log = Lines::new("", file);
    log.fail(
        0..0,
        "the file does not say how long its jobs ran, which the task takes from it",
        "add a column: a CSV with the header release_ns,execution_ns",
    );
    log.outcome(())
}

/// Reads a histogram of execution times: a CSV whose header names the columns `from_ns`, `to_ns` and
/// `count`; `#` begins a comment. Bins without a job are left out. `file` names it in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them.
pub fn parse_histogram(text: &str, file: &str) -> Result<Vec<Bin>, Problems> {
    const HEADER: &str = "begin the file with the header from_ns,to_ns,count";
    let mut log = Lines::new(text, file);
    let mut content = lines(text);
    let columns = content.next().and_then(|(_, header)| {
        let at = |name| column(header, name);
        Some([at("from_ns")?, at("to_ns")?, at("count")?])
    });
    let Some([from, to, count]) = columns else {
        log.fail(0..0, "the columns of the histogram are not named", HEADER);
        return log.outcome(Vec::new());
    };
    let mut bins = Vec::new();
    for (span, line) in content {
        let ends = (
            log.number(&span, line, from, "from_ns"),
            log.number(&span, line, to, "to_ns"),
        );
        let (Some(from), Some(to), Some(count)) =
            (ends.0, ends.1, log.number(&span, line, count, "count"))
        else {
            continue;
        };
        if to < from {
            let message = format!("to_ns {to} is below from_ns {from}");
            log.fail(span, message, "exchange them, or correct one");
        }
        let (from, to) = (Duration::from_nanos(from), Duration::from_nanos(to));
        bins.extend((count > 0).then_some(Bin { from, to, count }));
    }
    if bins.is_empty() && log.problems.is_empty() {
        log.fail(
            0..0,
            "no bin of the histogram has a job",
            "give a bin a count",
        );
    }
    log.outcome(bins)
}

/// Reads execution times: a CSV whose header names the columns `value_ns` and, if wanted,
/// `count`, or one duration per line; `#` begins a comment. `file` names it in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them.
pub fn parse_samples(text: &str, file: &str) -> Result<Vec<SampleCount>, Problems> {
    let mut log = Lines::new(text, file);
    let mut content = lines(text).peekable();
    let header = content.peek().map_or("", |(_, header)| header);
    let columns = column(header, "value_ns").map(|at| (at, column(header, "count")));
    if columns.is_some() {
        content.next();
    }
    let mut samples = Vec::new();
    for (span, line) in content {
        let sample = match columns {
            Some((value, count)) => log.row(&span, line, value, count),
            None => log
                .duration(span, line)
                .map(|value| SampleCount { value, count: 1 }),
        };
        samples.extend(sample.filter(|sample| sample.count > 0));
    }
    if samples.is_empty() && log.problems.is_empty() {
        log.fail(
            0..0,
            "there is no execution time in the file",
            "write one duration per line, such as 5ms, or a CSV with the header value_ns,count",
        );
    }
    samples.sort_unstable();
    log.outcome(samples)
}

/// Where a CSV has the column of that name.
fn column(header: &str, name: &str) -> Option<usize> {
    header.split(',').position(|column| column.trim() == name)
}

/// Collects what is wrong in the lines of a file.
pub(crate) struct Lines<'a> {
    source: SourceText<'a>,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str, file: &'a str) -> Self {
        Self {
            source: SourceText { file, text },
            problems: Vec::new(),
        }
    }

    pub(crate) fn fail(
        &mut self,
        span: std::ops::Range<usize>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        // Counting lines costs time in long files, so only the kept ones are placed.
        if self.problems.len() < MOST_PROBLEMS {
            let problem = self
                .source
                .problem(Severity::Error, span, "", message, remedy);
            self.problems.push(problem);
        }
    }

    fn duration(&mut self, span: std::ops::Range<usize>, text: &str) -> Option<Duration> {
        match text.parse() {
            Ok(duration) => Some(duration),
            Err(error) => {
                let error = error.to_string();
                let (message, remedy) = error.split_once("; ").unwrap_or((&error, ""));
                self.fail(span, message, remedy);
                None
            }
        }
    }

    /// The whole number in a cell of a CSV.
    fn number(
        &mut self,
        span: &std::ops::Range<usize>,
        line: &str,
        column: usize,
        name: &str,
    ) -> Option<u64> {
        let cell = line.split(',').nth(column).map(str::trim);
        let number = cell.and_then(|cell| cell.parse().ok());
        if number.is_none() {
            let shown = cell.map_or("nothing".into(), |cell| format!("{cell:?}"));
            self.fail(
                span.clone(),
                format!("{name} is {shown}"),
                "write a whole number, zero or more",
            );
        }
        number
    }

    fn row(
        &mut self,
        span: &std::ops::Range<usize>,
        line: &str,
        value: usize,
        count: Option<usize>,
    ) -> Option<SampleCount> {
        let value = self.number(span, line, value, "value_ns");
        let count = count.map_or(Some(1), |column| self.number(span, line, column, "count"));
        Some(SampleCount {
            value: value.map(Duration::from_nanos)?,
            count: count?,
        })
    }

    fn job(
        &mut self,
        span: &std::ops::Range<usize>,
        line: &str,
        release: usize,
        execution: Option<usize>,
    ) -> Option<TracedJob> {
        let release = self.number(span, line, release, "release_ns");
        let execution = match execution {
            Some(column) => Some(self.number(span, line, column, "execution_ns")?),
            None => None,
        };
        Some(TracedJob {
            release: Duration::from_nanos(release?),
            execution: execution.map(Duration::from_nanos),
        })
    }

    pub(crate) fn outcome<T>(self, value: T) -> Result<T, Problems> {
        match self.problems.is_empty() {
            true => Ok(value),
            false => Err(Problems::new(self.problems)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn traces_have_comments_and_go_forward() {
        let text = "# releases\n0ns\n 5ms # first\n\n5ms\n1s\n";
        let times = parse_trace(text, "t").unwrap();
        assert_eq!(
            times.iter().map(|t| t.as_nanos()).collect::<Vec<_>>(),
            [0, 5_000_000, 5_000_000, 1_000_000_000]
        );
        let problems = parse_trace("5ms\n7\n1ms\n", "t.txt").unwrap_err();
        assert_eq!(
            problems.to_string(),
            concat!(
                "t.txt:2:1: error: \"7\" has no unit\n",
                "  help: write \"7ms\", or another of ns, us, ms, s, min\n",
                "t.txt:3:1: error: 1ms is earlier than 5ms before it\n",
                "  help: put the releases in order; each is a time since the start",
            )
        );
    }

    #[test]
    fn samples_are_csv_or_durations() {
        let csv = parse_samples("# host x\nvalue_ns,count\n2000,3\n1000,1\n500,0\n", "s").unwrap();
        let sample = |value, count| SampleCount {
            value: Duration::from_nanos(value),
            count,
        };
        assert_eq!(csv, [sample(1000, 1), sample(2000, 3)]);
        assert_eq!(
            parse_samples("3us\n1us\n", "s").unwrap(),
            [sample(1000, 1), sample(3000, 1)]
        );
        assert_eq!(
            parse_samples("at_ns,value_ns\n0,7\n", "s").unwrap(),
            [sample(7, 1)]
        );
        let problems = parse_samples("value_ns,count\n1.5,1\n7\n", "s").unwrap_err();
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn jobs_have_releases_and_perhaps_execution_times() {
        let job = |release, execution: Option<u64>| TracedJob {
            release: Duration::from_nanos(release),
            execution: execution.map(Duration::from_nanos),
        };
        let text = "# recorded\nrelease_ns,cpu,execution_ns\n0,1,30\n10,0,40\n";
        assert_eq!(
            parse_jobs(text, "t").unwrap(),
            [job(0, Some(30)), job(10, Some(40))]
        );
        let bare = parse_jobs("release_ns\n7\n", "t").unwrap();
        assert_eq!(bare, [job(7, None)]);
        let refusal = every_job_has_an_execution_time(&bare, "t").unwrap_err();
        assert!(refusal.to_string().contains("release_ns,execution_ns"));
        let problems = parse_jobs("release_ns,execution_ns\n5,1\n4,1\n6\n", "t").unwrap_err();
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3, 4]);
    }

    #[test]
    fn histograms_have_bins_with_ends() {
        let bins = parse_histogram("from_ns,to_ns,count\n0,10,3\n10,20,0\n20,25,1\n", "h");
        let bin = |from, to, count| Bin {
            from: Duration::from_nanos(from),
            to: Duration::from_nanos(to),
            count,
        };
        assert_eq!(bins.unwrap(), [bin(0, 10, 3), bin(20, 25, 1)]);
        for (text, words) in [
            ("0,10,3\n", "not named"),
            ("from_ns,to_ns,count\n", "no bin"),
            ("from_ns,to_ns,count\n9,3,1\n", "below"),
            ("from_ns,to_ns,count\n9,x,1\n", "to_ns is"),
        ] {
            let refusal = parse_histogram(text, "h").unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_file_of_nothing_but_errors_yields_a_few() {
        let problems = parse_trace(&"x\n".repeat(1000), "t").unwrap_err();
        assert_eq!(problems.len(), MOST_PROBLEMS);
    }
}
