//! Recorded runs: which program took how long at which set point, and the events that were counted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use csv::StringRecord;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::demand::CountedWorkload;
use crate::error::{ModelError, RecordingError};
use crate::frequency::Frequency;
use crate::perf_stat::PerfStat;

/// The clock of the core, which every recording has.
pub const CORE: &str = "cpu";
/// The ending of a column with frequencies.
const HERTZ: &str = "_hz";
/// The most events that a recording may count.
const MOST_COUNTERS: usize = 64;

/// The frequencies of all clocks of a platform, by the clock's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, Frequency>",
    into = "BTreeMap<String, Frequency>"
)]
pub struct SetPoint(BTreeMap<String, Frequency>);

impl SetPoint {
    /// A set point of clocks, one of which is `cpu`.
    pub fn new(clocks: BTreeMap<String, Frequency>) -> Option<Self> {
        clocks.contains_key(CORE).then_some(Self(clocks))
    }

    /// The frequency of a clock.
    pub fn of(&self, clock: &str) -> Option<Frequency> {
        self.0.get(clock).copied()
    }

    /// The frequency of the core.
    pub fn core(&self) -> Frequency {
        self.0[CORE]
    }

    /// The clocks by name.
    pub fn clocks(&self) -> impl Iterator<Item = (&str, Frequency)> {
        self.0
            .iter()
            .map(|(clock, frequency)| (clock.as_str(), *frequency))
    }
}

impl fmt::Display for SetPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.clocks().filter(|(clock, _)| *clock != CORE);
        let mut texts = vec![format!("{CORE}={}", self.core())];
        texts.extend(others.map(|(clock, frequency)| format!("{clock}={frequency}")));
        out.pad(&texts.join(","))
    }
}

impl TryFrom<BTreeMap<String, Frequency>> for SetPoint {
    type Error = String;

    fn try_from(by_key: BTreeMap<String, Frequency>) -> Result<Self, Self::Error> {
        let mut clocks = BTreeMap::new();
        for (key, frequency) in by_key {
            let clock = key.strip_suffix(HERTZ).filter(|clock| !clock.is_empty());
            let clock =
                clock.ok_or_else(|| format!("`{key}` is no clock; write \"{key}{HERTZ}\""))?;
            clocks.insert(clock.to_owned(), frequency);
        }
        Self::new(clocks).ok_or_else(|| "a set point has no `cpu_hz`; name the core's clock".into())
    }
}

impl From<SetPoint> for BTreeMap<String, Frequency> {
    fn from(set_point: SetPoint) -> Self {
        let clocks = set_point.0.into_iter();
        clocks
            .map(|(clock, frequency)| (clock + HERTZ, frequency))
            .collect()
    }
}

/// A set point as text: `1.2GHz` is the core's frequency, `cpu=1.2GHz,mem=800MHz` names the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPointNotation(BTreeMap<String, Frequency>);

impl FromStr for SetPointNotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut clocks = BTreeMap::new();
        for part in text.split(',') {
            let (clock, frequency) = part.split_once('=').unwrap_or((CORE, part));
            let frequency = frequency.parse().map_err(|error| format!("{error}"))?;
            if clocks.insert(clock.trim().to_owned(), frequency).is_some() {
                return Err(format!(
                    "\"{text}\" has the clock \"{}\" twice; name each once",
                    clock.trim()
                ));
            }
        }
        Ok(Self(clocks))
    }
}

impl fmt::Display for SetPointNotation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self
            .0
            .iter()
            .map(|(clock, frequency)| format!("{clock}={frequency}"));
        out.pad(&texts.collect::<Vec<_>>().join(","))
    }
}

impl SetPointNotation {
    /// The set point that this text means on a platform with `clocks` and these set points: itself where
    /// every clock is named, else the one that agrees in all that is named.
    ///
    /// # Errors
    /// A clock is unknown; none or several of the set points agree.
    pub fn resolve(
        &self,
        clocks: &[String],
        set_points: &[SetPoint],
    ) -> Result<SetPoint, ModelError> {
        let wrong = |what: String, right: String| ModelError::SetPoint { what, right };
        if let Some(unknown) = self.0.keys().find(|clock| !clocks.contains(clock)) {
            let what = format!("the model has no clock \"{unknown}\"");
            return Err(wrong(what, format!("it has: {}", clocks.join(", "))));
        }
        if clocks.iter().all(|clock| self.0.contains_key(clock))
            && let Some(set_point) = SetPoint::new(self.0.clone())
        {
            return Ok(set_point);
        }
        let agrees = |point: &&SetPoint| {
            let mut named = self.0.iter();
            named.all(|(clock, frequency)| point.of(clock) == Some(*frequency))
        };
        let agreeing: Vec<&SetPoint> = set_points.iter().filter(agrees).collect();
        match agreeing[..] {
            [one] => Ok(one.clone()),
            [] => {
                let what = format!("no set point of the model has {self}");
                let right = format!("name every clock ({})", clocks.join(", "));
                Err(wrong(what, right))
            }
            _ => {
                let texts: Vec<String> = agreeing.iter().map(ToString::to_string).collect();
                let what = format!("{} set points of the model have {self}", agreeing.len());
                Err(wrong(what, format!("name one of: {}", texts.join("; "))))
            }
        }
    }
}

/// One run of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The program.
    pub program: String,
    /// The clocks meanwhile; `None` where the run was recorded without naming them.
    pub set_point: Option<SetPoint>,
    /// The execution time.
    pub time: Duration,
    /// The counted events, in the order of [`RunTable::counters`].
    pub counts: Vec<u64>,
}

/// Runs with one set of clocks and of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTable {
    /// The name of the file, for messages.
    pub file: String,
    /// The names of the clocks, in the order of the columns.
    pub clocks: Vec<String>,
    /// The names of the counted events.
    pub counters: Vec<String>,
    /// The runs, in the order of the lines.
    pub runs: Vec<Run>,
    /// The comment lines before the header: where the data come from.
    pub notes: Vec<String>,
}

/// The columns of the file by their meaning.
struct Columns {
    program: usize,
    time_ns: Option<usize>,
    perf_stat: Option<usize>,
    clocks: Vec<(usize, String)>,
    counters: Vec<(usize, String)>,
}

impl RunTable {
    /// Reads the CSV `text` of the file `file`: a header, and one run a line.
    ///
    /// Columns: `program`; `cpu_hz` and one column for each other clock, all ending in `_hz`; `time_ns`; every other
    /// column is a counted event. In place of `time_ns` and events, a column `perf_stat` may name files of
    /// `perf stat -x,` or `perf stat -j`, which `read` reads. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// A line is no run: the message names file, line and column.
    pub fn parse(
        file: &str,
        text: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, RecordingError> {
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let broken = |error: csv::Error| broken_line(file, &error);
        let columns = Columns::of(file, reader.headers().map_err(broken)?)?;
        let names =
            |columns: &[(usize, String)]| columns.iter().map(|(_, name)| name.clone()).collect();
        let mut recording = Self {
            file: file.to_owned(),
            clocks: names(&columns.clocks),
            counters: names(&columns.counters),
            runs: Vec::new(),
            notes: leading_comments(text),
        };
        for record in reader.records() {
            let record = record.map_err(broken)?;
            let line = record.position().map_or(0, csv::Position::line);
            let run = recording.run(&columns, &record, read);
            recording.runs.push(run.map_err(|error| match error.line {
                Some(_) => error,
                None => error.at_line(line),
            })?);
        }
        if recording.runs.is_empty() {
            return Err(RecordingError::of_file(
                file,
                "there is no run",
                "write one run a line below the header",
            ));
        }
        if recording.counters.is_empty() {
            let right = "add a column for each counted event, such as `instructions`";
            return Err(RecordingError::of_file(file, "no event is counted", right));
        }
        Ok(recording)
    }

    /// The run of a line.
    fn run(
        &mut self,
        columns: &Columns,
        record: &StringRecord,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Run, RecordingError> {
        let file = self.file.clone();
        let program = record[columns.program].to_owned();
        if program.is_empty() {
            let error = RecordingError::of_file(&file, "the program has no name", "write one");
            return Err(error.of_key("program"));
        }
        let mut clocks = BTreeMap::new();
        for (index, clock) in &columns.clocks {
            let hertz = whole(&file, &format!("{clock}{HERTZ}"), &record[*index])?;
            let frequency = Frequency::from_hertz(hertz).ok_or_else(|| {
                let what = format!("{hertz} is no frequency");
                RecordingError::of_file(&file, what, "write hertz, 1 to 10^12")
                    .of_key(&format!("{clock}{HERTZ}"))
            })?;
            clocks.insert(clock.clone(), frequency);
        }
        let measured = match (columns.time_ns, columns.perf_stat) {
            (Some(time), _) => {
                let time_ns = whole(&file, "time_ns", &record[time])?;
                let counts = columns.counters.iter();
                let counts = counts.map(|(index, name)| whole(&file, name, &record[*index]));
                (
                    Duration::from_nanos(time_ns),
                    counts.collect::<Result<Vec<u64>, _>>()?,
                )
            }
            (None, Some(index)) => self.perf_stat(&record[index], read)?,
            (None, None) => (Duration::ZERO, Vec::new()),
        };
        if measured.0.is_zero() {
            let error = RecordingError::of_file(
                &file,
                "the run took no time",
                "write nanoseconds above zero",
            );
            return Err(error.of_key("time_ns"));
        }
        Ok(Run {
            program,
            set_point: SetPoint::new(clocks),
            time: measured.0,
            counts: measured.1,
        })
    }

    /// The time and the counts in an output of perf; its events are those of the first such file.
    fn perf_stat(
        &mut self,
        name: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(Duration, Vec<u64>), RecordingError> {
        let text = read(name).map_err(|error| {
            let right = format!("name a file that can be read ({error})");
            RecordingError::of_file(&self.file, format!("\"{name}\" cannot be read"), right)
                .of_key("perf_stat")
        })?;
        let stat = PerfStat::parse(name, &text)?;
        let time = stat.time.ok_or_else(|| {
            let right = "record it with `perf stat -e task-clock,...`";
            RecordingError::of_file(name, "there is no `task-clock`", right)
        })?;
        if self.counters.is_empty() {
            self.counters = stat.counts.keys().cloned().collect();
        }
        let wanted: BTreeSet<&String> = self.counters.iter().collect();
        let present: BTreeSet<&String> = stat.counts.keys().collect();
        if let Some(other) = wanted.symmetric_difference(&present).next() {
            let what = "this event is counted in one of the files and not in another";
            let right = "record every run with the same events";
            return Err(RecordingError::of_file(name, what, right).of_key(other));
        }
        let counts = self.counters.iter().map(|counter| stat.counts[counter]);
        Ok((time, counts.collect()))
    }
}

impl Columns {
    fn of(file: &str, header: &StringRecord) -> Result<Self, RecordingError> {
        let mut columns = Self {
            program: usize::MAX,
            time_ns: None,
            perf_stat: None,
            clocks: Vec::new(),
            counters: Vec::new(),
        };
        let mut names = BTreeSet::new();
        for (index, name) in header.iter().enumerate() {
            if name.is_empty() || !names.insert(name) {
                let what = if name.is_empty() {
                    "a column has no name"
                } else {
                    "the header has this column twice"
                };
                return Err(RecordingError::of_file(
                    file,
                    what,
                    "give each column a name of its own",
                )
                .of_key(name));
            }
            match name {
                "program" => columns.program = index,
                "time_ns" => columns.time_ns = Some(index),
                "perf_stat" => columns.perf_stat = Some(index),
                name => match name.strip_suffix(HERTZ).filter(|clock| !clock.is_empty()) {
                    Some(clock) => columns.clocks.push((index, clock.to_owned())),
                    None => columns.counters.push((index, name.to_owned())),
                },
            }
        }
        columns.check(file)?;
        Ok(columns)
    }

    /// Checks that the columns make sense together.
    fn check(&self, file: &str) -> Result<(), RecordingError> {
        let missing = |key: &str, right: &str| {
            Err(RecordingError::of_file(file, "the header lacks this column", right).of_key(key))
        };
        if self.program == usize::MAX {
            return missing("program", "name the program of each run in it");
        }
        if !self.clocks.is_empty() && !self.clocks.iter().any(|(_, clock)| clock == CORE) {
            return missing("cpu_hz", "write the core's frequency in hertz in it");
        }
        match (self.time_ns, self.perf_stat) {
            (None, None) => {
                return missing(
                    "time_ns",
                    "write each run's execution time, or a `perf_stat` file",
                );
            }
            (None, Some(_)) if !self.counters.is_empty() => {
                let right = "the events come from the files of `perf_stat`; remove the column";
                let error =
                    RecordingError::of_file(file, "this event is in a column of its own", right);
                return Err(error.of_key(&self.counters[0].1));
            }
            (Some(_), Some(_)) => {
                let right =
                    "the time comes from the files of `perf_stat`; remove one of the two columns";
                return Err(
                    RecordingError::of_file(file, "the time is there twice", right)
                        .of_key("time_ns"),
                );
            }
            _ => {}
        }
        if self.counters.len() > MOST_COUNTERS {
            let what = format!("{} events are counted", self.counters.len());
            return Err(RecordingError::of_file(
                file,
                what,
                format!("keep at most {MOST_COUNTERS}"),
            ));
        }
        Ok(())
    }
}

/// A whole number of a column.
pub fn whole(file: &str, column: &str, text: &str) -> Result<u64, RecordingError> {
    text.parse().map_err(|_| {
        let what = format!("\"{text}\" is no whole number");
        let right = "write decimal digits without a unit or a separator";
        RecordingError::of_file(file, what, right).of_key(column)
    })
}

/// The error of a line that is no CSV.
pub fn broken_line(file: &str, error: &csv::Error) -> RecordingError {
    let line = error.position().map(csv::Position::line);
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("there are {len} fields under a header of {expected_len}")
        }
        _ => "the line is no CSV in UTF-8".to_owned(),
    };
    let error = RecordingError::of_file(file, what, "write one field for each column");
    match line {
        Some(line) => error.at_line(line),
        None => error,
    }
}

/// The comments before the header, without their marks.
pub fn leading_comments(text: &str) -> Vec<String> {
    let comments = text.lines().map_while(|line| line.strip_prefix('#'));
    comments.map(|comment| comment.trim().to_owned()).collect()
}

impl RunTable {
    /// The named program, or the only one.
    fn program<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, ModelError> {
        let wrong = |what: String, right: String| ModelError::TooLittle {
            file: self.file.clone(),
            what,
            right,
        };
        let programs: BTreeSet<&str> = self.runs.iter().map(|run| run.program.as_str()).collect();
        let listed = programs.iter().copied().collect::<Vec<_>>().join(", ");
        match (name, programs.first()) {
            (Some(name), _) if programs.contains(name) => Ok(name),
            (Some(name), _) => {
                let what = format!("there is no program \"{name}\"");
                Err(wrong(what, format!("the file has: {listed}")))
            }
            (None, Some(only)) if programs.len() == 1 => Ok(only),
            (None, _) => {
                let what = format!("{} programs are recorded", programs.len());
                Err(wrong(what, format!("name one of: {listed}")))
            }
        }
    }

    /// The workload of a program: the mean of its runs at one set point.
    ///
    /// # Errors
    /// Several programs or several set points are in question, or none.
    pub fn workload(
        &self,
        program: Option<&str>,
        measured_at: Option<&SetPointNotation>,
    ) -> Result<CountedWorkload, ModelError> {
        let wrong = |what: String, right: String| ModelError::TooLittle {
            file: self.file.clone(),
            what,
            right,
        };
        let program = self.program(program)?;
        let own: Vec<&Run> = self
            .runs
            .iter()
            .filter(|run| run.program == program)
            .collect();
        let distinct: BTreeSet<&SetPoint> = own
            .iter()
            .filter_map(|run| run.set_point.as_ref())
            .collect();
        let set_points: Vec<SetPoint> = distinct.iter().copied().cloned().collect();
        let set_point = match (measured_at, &set_points[..]) {
            (Some(notation), _) => Some(notation.resolve(&self.clocks, &set_points)?),
            (None, []) => None,
            (None, [only]) => Some(only.clone()),
            (None, _) => {
                let what = format!("{program} was recorded at {} set points", set_points.len());
                let right =
                    "say at which of them the execution times were measured, such as cpu=1.2GHz";
                return Err(wrong(what, right.into()));
            }
        };
        let runs: Vec<&Run> = own
            .into_iter()
            .filter(|run| run.set_point == set_point)
            .collect();
        if runs.is_empty() {
            let at = set_point.map_or_else(String::new, |point| point.to_string());
            return Err(wrong(
                format!("{program} was not recorded at {at}"),
                "name a set point of the file".into(),
            ));
        }
        let count = runs.len() as f64;
        let seconds = runs.iter().map(|run| run.time.as_secs_f64()).sum::<f64>() / count;
        let mean =
            |index: usize| runs.iter().map(|run| run.counts[index] as f64).sum::<f64>() / count;
        let counts = self.counters.iter().enumerate();
        Ok(CountedWorkload {
            program: program.to_owned(),
            set_point,
            time: Duration::from_secs_f64_nearest(seconds),
            counts: counts
                .map(|(index, name)| (name.clone(), mean(index)))
                .collect(),
        })
    }
}
