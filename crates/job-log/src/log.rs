//! The log of a task, and its form as CSV.

use std::fmt;
use std::str::FromStr;

use tailbound_time::Instant;

/// A message, by its publisher and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The publisher.
    pub source: u64,
    /// The publisher's number of the message.
    pub sequence: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.source, self.sequence)
    }
}

impl FromStr for MessageId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (source, sequence) = text.split_once(':').ok_or(())?;
        Ok(Self {
            source: u64::from_str_radix(source, 16).map_err(|_| ())?,
            sequence: sequence.parse().map_err(|_| ())?,
        })
    }
}

/// The name of the file with the log of a task.
pub fn log_file_name(domain: &str, task: &str) -> String {
    format!("{domain}.{task}.csv")
}

/// A job that was carried out. All times are of one clock, CLOCK_MONOTONIC where a program of ours wrote the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedJob {
    /// The time at which it was released: the intended one of a task with a clock, the arrival of the message of a released one.
    pub release: Instant,
    /// The time at which it read its topics and began to work.
    pub start: Instant,
    /// The time at which it ended, after it had published.
    pub end: Instant,
    /// The message that it read of each topic, in the order of the log's `reads`.
    pub read: Vec<Option<MessageId>>,
    /// The message that it published on each topic, in the order of the log's `publishes`.
    pub published: Vec<Option<MessageId>>,
}

/// The jobs of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLog {
    /// The topics that its jobs read.
    pub reads: Vec<String>,
    /// The topics that its jobs publish.
    pub publishes: Vec<String>,
    /// The jobs, in the order in which they began.
    pub jobs: Vec<LoggedJob>,
}

/// Why a text is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobLogError {
    /// Columns that a log does not have.
    #[error(
        "line 1: a log of jobs begins with columns release_ns, start_ns and end_ns, then read:TOPIC and published:TOPIC; \
         this one has {columns}"
    )]
    Columns {
        /// The columns.
        columns: String,
    },
    /// A field that is none.
    #[error("line {line}, column {column}: `{text}` is no {expected}")]
    Field {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// The text.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A line with too many or too few fields, or no text.
    #[error("{0}")]
    Csv(String),
    /// A job that ends before it begins, or begins before the one in the line above.
    #[error("line {line}: the job {fault}")]
    Order {
        /// The line, from 1.
        line: u64,
        /// What is in the wrong order.
        fault: &'static str,
    },
}

const TIMES: [&str; 3] = ["release_ns", "start_ns", "end_ns"];

impl JobLog {
    /// Writes the log as CSV.
    pub fn to_csv(&self) -> String {
        self.columns() + &self.rows()
    }

    /// The line with the columns.
    fn columns(&self) -> String {
        let mut text = TIMES.join(",");
        for topic in &self.reads {
            text.push_str(&format!(",read:{topic}"));
        }
        for topic in &self.publishes {
            text.push_str(&format!(",published:{topic}"));
        }
        text.push('\n');
        text
    }

    /// The lines of the jobs alone, to be added to a log of the same task.
    pub fn rows(&self) -> String {
        let mut text = String::new();
        for job in &self.jobs {
            let times = [job.release, job.start, job.end];
            let times = times.map(|time| time.as_nanos().to_string());
            text.push_str(&times.join(","));
            for message in job.read.iter().chain(&job.published) {
                text.push(',');
                if let Some(message) = message {
                    text.push_str(&message.to_string());
                }
            }
            text.push('\n');
        }
        text
    }

    /// Reads a log.
    ///
    /// # Errors
    /// If the text is none; the error names line and column.
    pub fn from_csv(text: &str) -> Result<Self, JobLogError> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let unreadable = |error: csv::Error| JobLogError::Csv(error.to_string());
        let columns = reader.headers().map_err(unreadable)?.clone();
        let mut log = Self::with_columns(&columns)?;
        for record in reader.records() {
            let record = record.map_err(unreadable)?;
            let line = record.position().map_or(0, csv::Position::line);
            let job = log.job(line, &columns, &record)?;
            let before = log
                .jobs
                .last()
                .map_or(Instant::from_nanos(0), |job| job.start);
            let fault = if job.end < job.start {
                "ends before it begins"
            } else if job.start < before {
                "begins before the job in the line above"
            } else {
                log.jobs.push(job);
                continue;
            };
            return Err(JobLogError::Order { line, fault });
        }
        Ok(log)
    }

    fn with_columns(columns: &csv::StringRecord) -> Result<Self, JobLogError> {
        let mut log = Self::default();
        let is_log = columns.iter().take(3).eq(TIMES)
            && columns.iter().skip(3).all(|column| {
                match (
                    column.strip_prefix("read:"),
                    column.strip_prefix("published:"),
                ) {
                    // The columns of messages that are read stand first.
                    (Some(topic), _) if log.publishes.is_empty() => log.reads.push(topic.into()),
                    (_, Some(topic)) => log.publishes.push(topic.into()),
                    _ => return false,
                }
                true
            });
        match is_log {
            true => Ok(log),
            false => Err(JobLogError::Columns {
                columns: columns.iter().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    fn job(
        &self,
        line: u64,
        columns: &csv::StringRecord,
        record: &csv::StringRecord,
    ) -> Result<LoggedJob, JobLogError> {
        let wrong = |place: usize, expected| JobLogError::Field {
            line,
            column: columns.get(place).unwrap_or_default().to_owned(),
            text: record.get(place).unwrap_or_default().to_owned(),
            expected,
        };
        let time = |place: usize| {
            let nanoseconds = record.get(place).and_then(|text| text.parse().ok());
            let nanoseconds = nanoseconds.ok_or_else(|| wrong(place, "number of nanoseconds"))?;
            Ok(Instant::from_nanos(nanoseconds))
        };
        let message = |place: usize| match record.get(place) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|()| wrong(place, "message, such as 00000000000000ff:12")),
        };
        let split = 3 + self.reads.len();
        Ok(LoggedJob {
            release: time(0)?,
            start: time(1)?,
            end: time(2)?,
            read: (3..split).map(message).collect::<Result<_, _>>()?,
            published: (split..columns.len())
                .map(message)
                .collect::<Result<_, _>>()?,
        })
    }
}
